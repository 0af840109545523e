package unbuilt_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/unbuilt"
	"github.com/dlx-go/dlx/core"
)

func TestABackendThatWasNotBuiltSaysWhatIsMissing(t *testing.T) {
	for _, name := range []string{"vulkan", "metal"} {
		t.Run(name, func(t *testing.T) { saysWhatIsMissing(t, name) })
	}
}

func saysWhatIsMissing(t *testing.T, name string) {
	b := unbuilt.Backend(name)
	if b.Name() != name || !unbuilt.Is(b) {
		t.Errorf("%q", b.Name())
	}
	if p := b.Probe(t.Context()); p.Available || !strings.Contains(p.Reason, "-tags "+name) {
		t.Errorf("%+v", p)
	}
	_, err := b.Devices(context.Background())
	_, err2 := b.Open(context.Background(), core.DeviceID{Type: core.DeviceVulkan})
	for _, err := range []error{err, err2} {
		if !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "-tags "+name) {
			t.Errorf("%v", err)
		}
	}
}
