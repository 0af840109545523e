package cudalike_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// backendWith returns a backend of a driver of its own, which takes images that begin with "gather".
func backendWith(name core.DeviceType, images ...string) (*fake, *cudalike.Backend) {
	f := newFake(name.BackendName())
	return f, cudalike.New(f, cudalike.Facts{
		API: "other", Device: name, Host: core.DeviceROCMHost, ClockStep: time.Microsecond, Limits: gpucopy.CUDALimits(),
		Kernels: func(cudalike.Description) []string { return images },
	})
}

// turned copies a matrix to its transpose and reports the error.
func turned(t *testing.T, d core.Device) error {
	t.Helper()
	matrix := func(shape ...int64) *core.Tensor {
		x, err := core.Empty(t.Context(), d, core.TypeFloat32, shape, core.AllocOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	from, to := matrix(30, 40), matrix(40, 30)
	defer from.Close()
	defer to.Close()
	view, err := from.Transpose()
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	other := matrix(40, 30)
	defer other.Close()
	if err := d.Copy(t.Context(), nil, to, other); err != nil {
		t.Errorf("a copy that needs no kernel: %v", err)
	}
	return d.Copy(t.Context(), nil, to, view)
}

// All devices that are opened for a context share the kernels, and the last one unloads them.
func TestDevicesOfAContextShareTheKernels(t *testing.T) {
	f, b := backendWith(core.DeviceMAIA, "binary", "gather", "gather too")
	want := []string{"binary", "gather"}
	for range 2 {
		f.images = nil
		one, two := open(t, b, 0), open(t, b, 0)
		if !slices.Equal(f.images, want) || f.loaded != 1 {
			t.Errorf("%q were tried, and %d are loaded; want %q, and one", f.images, f.loaded, want)
		}
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
		if err := turned(t, two); err != nil || f.loaded != 1 {
			t.Errorf("%v; %d modules are loaded, want 1", err, f.loaded)
		}
		if err := two.Close(); err != nil || f.loaded != 0 {
			t.Errorf("%v; %d modules are loaded after the last Close", err, f.loaded)
		}
	}
	near, far := open(t, b, 0), open(t, b, 1)
	if f.loaded != 2 {
		t.Errorf("two contexts have %d modules, want 2", f.loaded)
	}
	_, _ = near.Close(), far.Close()
}

// A device on which no kernel runs is opened, since most copies need none.
func TestADeviceThatRunsNoKernelIsOpened(t *testing.T) {
	f, b := backendWith(core.DeviceHexagon, "binary", "text")
	d := open(t, b, 0)
	defer d.Close()
	coretest.WantError(t, turned(t, d), core.ErrNotSupported, "a copy that needs a kernel")
	coretest.WantError(t, d.(core.Converter).CanConvert(core.TypeFloat32, core.TypeUint8, core.Scaling{}), core.ErrNotSupported, "a conversion")
	if f.loaded != 0 {
		t.Errorf("%d modules are loaded", f.loaded)
	}
}
