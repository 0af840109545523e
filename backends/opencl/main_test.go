//go:build opencl && linux && cgo

package opencl_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/opencl"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// What the tests of all backends have in common, by short names.
var (
	keep    = coretest.Keep
	row     = coretest.Row
	pattern = coretest.Pattern
	put     = coretest.Put
	get     = coretest.Get
)

// first is the device that tests use.
var first = core.DeviceID{Type: core.DeviceOpenCL}

// open opens the device, or ends the test. The caller closes it.
func open(tb testing.TB) core.Device {
	tb.Helper()
	b := opencl.New()
	coretest.NeedDriver(tb, b.Probe(tb.Context()).Reason, "pocl-opencl-icd and ocl-icd-libopencl1")
	d, err := b.Open(tb.Context(), first)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// device opens the device and closes it when the test has closed all that is on it.
func device(tb testing.TB) core.Device {
	tb.Helper()
	d := open(tb)
	tb.Cleanup(func() {
		if err := d.Close(); err != nil {
			tb.Error(err)
		}
	})
	return d
}
