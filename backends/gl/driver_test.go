//go:build gl && linux && cgo

package gl

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
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
func openAs(tb testing.TB, change func(*facts)) *device {
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
func opened(tb testing.TB, change func(*facts)) *device {
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

func asItIs(*facts) {}

// asGPU has copies go by OpenGL, and the host see no memory but what it asks to see.
func asGPU(f *facts) { f.software = false }

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
	run := func(f func()) { t.run(f) }
	d, err := Wrap(run)
	if err != nil {
		tb.Fatal(err)
	}
	return d, run
}

// alloc allocates n bytes as a tensor of uint8, closed at the end.
func alloc(tb testing.TB, d core.Device, n int64, opts core.AllocOptions) *core.Tensor {
	tb.Helper()
	t, err := core.Empty(tb.Context(), d, core.TypeUint8, []int64{n}, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { t.Close() })
	return t
}

// write and read copy bytes to and from a tensor of uint8.
func write(tb testing.TB, d core.Device, t *core.Tensor, p []byte) {
	tb.Helper()
	host, err := core.FromSlice(p)
	if err != nil {
		tb.Fatal(err)
	}
	defer host.Close()
	if err := d.Copy(tb.Context(), nil, t, host); err != nil {
		tb.Fatal(err)
	}
}

func read(tb testing.TB, d core.Device, t *core.Tensor) []byte {
	tb.Helper()
	p := make([]byte, t.NumElements())
	host, err := core.FromSlice(p)
	if err != nil {
		tb.Fatal(err)
	}
	defer host.Close()
	if err := d.Copy(tb.Context(), nil, host, t); err != nil {
		tb.Fatal(err)
	}
	return p
}

// descriptors counts the descriptors that the process has open.
func descriptors(tb testing.TB) int {
	tb.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		tb.Fatal(err)
	}
	return len(list)
}
