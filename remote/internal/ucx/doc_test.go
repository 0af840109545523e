package ucx

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestKindsOfMemory(t *testing.T) {
	for _, c := range []struct {
		memory  Memory
		known   bool
		version string
		why     string // "" if UCX uses it
	}{
		{Host, true, "1.13.1", ""},
		{CUDA, false, "1.22.0", "knows no memory of CUDA"},
		{CUDA, true, "1.22.0", ""},
		{CUDA, true, "1.19.0", ""},
		{CUDA, true, "2.0.0", ""},
		{CUDA, true, "1.18.1", "1.19"},
		{CUDA, true, "unknown", "1.19"},
		{ROCm, true, "1.13.1", ""},
		{ROCm, false, "1.13.1", "knows no memory of ROCm"},
	} {
		err := knows(c.memory, c.known, c.version)
		if (err == nil) != (c.why == "") || err != nil && (!errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), c.why)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestTransportsOf(t *testing.T) {
	text := `#               peer: vm:1
#                 lane[0]:  3:sysv/memory.0 md[2]        -> md[2]/sysv/sysdev[255] am am_bw#0
#                 lane[1]:  1:tcp/eth0.0 md[1]           -> md[1]/tcp/sysdev[255] wireup
#                 lane[2]:  5:tcp/lo md[1]
#                 lane[3]: none of them
`
	if got := transportsOf(text); !slices.Equal(got, []string{"sysv", "tcp"}) {
		t.Errorf("transports %v", got)
	}
	if got := transportsOf(""); got == nil || len(got) != 0 {
		t.Errorf("transports of nothing: %v", got)
	}
}
