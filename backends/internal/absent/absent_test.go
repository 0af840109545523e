package absent_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/absent"
	"github.com/dlx-go/dlx/core"
)

func TestAnAbsentBackendSaysWhatIsMissing(t *testing.T) {
	b := absent.Backend{Type: core.DeviceCUDA, API: "CUDA"}
	if b.Name() != "cuda" {
		t.Errorf("it is called %q", b.Name())
	}
	if p := b.Probe(t.Context()); p.Available || !strings.Contains(p.Reason, "the tag cuda") {
		t.Errorf("Probe: %+v", p)
	}
	_, devices := b.Devices(t.Context())
	_, open := b.Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA})
	if !errors.Is(devices, core.ErrNotSupported) || !errors.Is(open, core.ErrNotSupported) {
		t.Errorf("Devices: %v; Open: %v", devices, open)
	}
}
