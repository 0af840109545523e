//go:build gl && linux && cgo

package gl

import (
	"context"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// What the tests of all backends have in common, by short names.
var (
	keep            = coretest.Keep
	row             = coretest.Row
	put             = coretest.Put
	get             = coretest.Get
	descriptors     = coretest.Descriptors
	wantDescriptors = coretest.WantDescriptors
)

// first is the device that tests use.
var first = core.DeviceID{Type: core.DeviceGL}

var probe = sync.OnceValue(func() core.Probe { return New().Probe(context.Background()) })

// needDriver ends a test where there is no driver.
func needDriver(tb testing.TB) {
	tb.Helper()
	coretest.NeedDriver(tb, probe().Reason, "libegl1 and libgl1-mesa-dri")
}

// open opens the first device, which its caller closes.
func open(tb testing.TB) core.Device {
	tb.Helper()
	needDriver(tb)
	d, err := New().Open(tb.Context(), first)
	if err != nil {
		tb.Fatal(err)
	}
	return d
}

// openAs opens the first device as if its context were another one.
func openAs(tb testing.TB, change func(*contextInfo)) *device {
	tb.Helper()
	needDriver(tb)
	devices, err := egl.Devices()
	if err != nil {
		tb.Fatal(err)
	}
	t, f, err := start(devices[first.Index])
	if err != nil {
		tb.Fatal(err)
	}
	change(&f)
	return newDevice(first, f, t.run, t.stop)
}

// opened is openAs with the device closed at the end.
func opened(tb testing.TB, change func(*contextInfo)) *device {
	tb.Helper()
	d := openAs(tb, change)
	tb.Cleanup(func() { closeDevice(tb, d) })
	return d
}

func closeDevice(tb testing.TB, d core.Device) {
	tb.Helper()
	if err := d.Close(); err != nil {
		tb.Errorf("Close: %v", err)
	}
}

func asItIs(*contextInfo) {}

// asGPU has copies go by OpenGL, and the host see no memory but what it asks to see.
func asGPU(f *contextInfo) { f.software = false }

// wrapped wraps a context that stays the test's, and gives a function that runs others in it.
func wrapped(tb testing.TB) (core.Device, func(func())) {
	tb.Helper()
	needDriver(tb)
	devices, err := egl.Devices()
	if err != nil {
		tb.Fatal(err)
	}
	t, _, err := start(devices[first.Index])
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(t.stop)
	run := func(f func()) { _ = t.run(context.Background(), f) }
	d, err := Wrap(run)
	if err != nil {
		tb.Fatal(err)
	}
	return d, run
}
