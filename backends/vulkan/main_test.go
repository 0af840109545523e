//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"os"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// open opens the first device with the validation layer, whose messages fail the test.
func open(t testing.TB, opts ...Option) core.Device {
	t.Helper()
	b := New(append(opts, WithValidation())...)
	if p := b.Probe(context.Background()); !p.Available {
		if os.Getenv("DLX_WITHOUT_DRIVERS") == "1" {
			t.Skipf("DLX_WITHOUT_DRIVERS: %s", p.Reason)
		}
		t.Fatalf("%s\ninstall a driver and the validation layer (Debian: mesa-vulkan-drivers, vulkan-validationlayers)", p.Reason)
	}
	before, _ := Messages(0)
	d, err := b.Open(context.Background(), core.DeviceID{Type: core.DeviceVulkan})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		after, texts := Messages(before)
		for _, text := range texts {
			t.Errorf("the validation layer says: %s", text)
		}
		if len(texts) == 0 && after != before {
			t.Errorf("the validation layer gave %d messages", after-before)
		}
	})
	return d
}
