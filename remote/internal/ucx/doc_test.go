package ucx

import (
	"slices"
	"testing"
)

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
