//go:build oneapi && linux && cgo

package oneapi_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/oneapi"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// open opens the first device, or ends the test. The caller closes it.
func open(tb testing.TB) core.Device {
	tb.Helper()
	b := oneapi.New()
	coretest.NeedDriver(tb, b.Probe(tb.Context()).Reason, "a driver with USM (scripts/fetch-newer-drivers.sh .cache/drivers intel)")
	d, err := b.Open(tb.Context(), core.DeviceID{Type: core.DeviceOneAPI})
	if err != nil {
		tb.Fatal(err)
	}
	return d
}
