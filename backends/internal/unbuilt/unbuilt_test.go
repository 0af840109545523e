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
	b := unbuilt.Backend("vulkan")
	if b.Name() != "vulkan" || !unbuilt.Is(b) {
		t.Errorf("%q", b.Name())
	}
	if p := b.Probe(t.Context()); p.Available || !strings.Contains(p.Reason, "vulkan") {
		t.Errorf("%+v", p)
	}
	_, err := b.Devices(context.Background())
	_, err2 := b.Open(context.Background(), core.DeviceID{Type: core.DeviceVulkan})
	for _, err := range []error{err, err2} {
		if !errors.Is(err, core.ErrNotSupported) || !strings.Contains(err.Error(), "buil") && !strings.Contains(err.Error(), "Linux") {
			t.Errorf("%v", err)
		}
	}
}
