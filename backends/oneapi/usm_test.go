//go:build oneapi && linux && cgo

package oneapi_test

import (
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/backends/oneapi"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/dlpack"
)

// library is another library with a cl_context of its own, or with that of a device.
type library struct {
	usm     *driver.USM
	context driver.Context
	device  driver.Device
}

func libraryOf(t testing.TB, d core.Device) library {
	t.Helper()
	h, err := oneapi.HandlesOf(d)
	if err != nil {
		t.Fatal(err)
	}
	usm, missing := driver.USMOf(driver.Platform(h.Platform))
	if usm == nil {
		t.Fatalf("the platform lacks %s", missing)
	}
	return library{usm, driver.Context(h.Context), driver.Device(h.Device)}
}

// apart returns the library with a cl_context of its own.
func (l library) apart(t *testing.T, d core.Device) library {
	t.Helper()
	h, err := oneapi.HandlesOf(d)
	if err != nil {
		t.Fatal(err)
	}
	c, s := driver.CreateContext(driver.Platform(h.Platform), l.device)
	if s != driver.Success {
		t.Fatal(s)
	}
	t.Cleanup(func() { driver.ReleaseContext(c) })
	l.context = c
	return l
}

// alloc allocates until the end of the test.
func (l library) alloc(t testing.TB, kind driver.USMKind, size int64) uintptr {
	t.Helper()
	p, s := l.usm.Alloc(kind, l.context, l.device, size, 0)
	if s != driver.Success {
		t.Fatal(s)
	}
	t.Cleanup(func() { l.usm.Free(l.context, p) })
	return p
}

// device opens the device, and closes it before the cleanups that were added earlier.
func device(t *testing.T) core.Device {
	t.Helper()
	d := open(t)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// sharedAtOnce reports whether device and host may use shared memory at once.
func sharedAtOnce(t *testing.T, d core.Device) bool {
	t.Helper()
	bits, s := driver.Number(libraryOf(t, d).device, driver.DeviceUSMShared)
	return s == driver.Success && bits&driver.USMConcurrent != 0
}

// owner is called when memory is freed.
type owner func()

func (o owner) Free() { o() }

func address(t *testing.T, x *core.Tensor) uintptr {
	t.Helper()
	p, err := x.Address()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var kinds = map[string]driver.USMKind{"device": driver.USMDevice, "shared": driver.USMShared, "host": driver.USMHost}

// roundTrip copies values into a tensor and back, whole and transposed.
func roundTrip(t *testing.T, d core.Device, x *core.Tensor) {
	t.Helper()
	turned, err := x.Transpose()
	if err != nil {
		t.Fatal(err)
	}
	defer turned.Close()
	for _, view := range []*core.Tensor{x, turned} {
		shape := view.Shape()
		want := make([]float32, view.NumElements())
		for i := range want {
			want[i] = float32(7*i + 1)
		}
		in := coretest.Keep(t)(core.FromSlice(slices.Clone(want), shape...))
		out := make([]float32, len(want))
		back := coretest.Keep(t)(core.FromSlice(out, shape...))
		for _, err := range []error{d.Copy(t.Context(), nil, view, in), d.Copy(t.Context(), nil, back, view)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(out, want) {
			t.Errorf("%v: %v, want %v", view, out, want)
		}
	}
}

func TestAllocationsOfAnotherLibrary(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			d := device(t)
			p := libraryOf(t, d).alloc(t, kind, 4096)
			freed := make(chan struct{})
			m, err := d.(core.PointerImporter).ImportPointer(p+64, 4096-64, owner(func() { close(freed) }))
			if err != nil {
				t.Fatal(err)
			}
			// The host uses shared memory only where device and host may use it at once.
			if seen := m.Host != 0; seen != (kind == driver.USMHost || kind == driver.USMShared && sharedAtOnce(t, d)) {
				t.Errorf("the host address is %#x", m.Host)
			}
			x, err := core.Wrap(m, core.Spec{DType: core.TypeFloat32, Shape: []int64{3, 5}, Offset: 4})
			if err != nil {
				t.Fatal(err)
			}
			roundTrip(t, d, x)
			out, err := dlpack.Export(x)
			if err != nil {
				t.Fatal(err)
			}
			if got := out.Tensor; got.Device.Type != 14 || got.Data+uintptr(got.ByteOffset) != p+68 {
				t.Errorf("it leaves as %+v", got)
			}
			dlpack.Delete(out)
			x.Close()
			<-freed // once: a second time would panic
		})
	}
}

// A tensor of DLPack has no size and no device: the driver is asked.
func TestTensorsOfDLPackAreCheckedByTheirAllocation(t *testing.T) {
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			d := device(t)
			l := libraryOf(t, d)
			p := l.alloc(t, kind, 60)
			foreign := func(p uintptr, spec core.Spec) *core.Tensor {
				t.Helper()
				spec.DType = core.TypeFloat32
				return coretest.Keep(t)(core.Wrap(core.Memory{ID: d.ID(), Handle: p, Size: core.UnknownSize}, spec))
			}
			roundTrip(t, d, foreign(p, core.Spec{Shape: []int64{3, 5}}))
			roundTrip(t, d, foreign(p+56, core.Spec{Shape: []int64{3, 5}, Strides: []int64{-5, -1}}))
			host := coretest.Keep(t)(core.FromSlice(make([]float32, 15), 3, 5))
			for what, bad := range map[string]struct {
				tensor   *core.Tensor
				sentinel error
			}{
				"elements after it":            {foreign(p+4, core.Spec{Shape: []int64{3, 5}}), core.ErrLayout},
				"elements before it":           {foreign(p+52, core.Spec{Shape: []int64{3, 5}, Strides: []int64{-5, -1}}), core.ErrLayout},
				"memory of the host":           {foreign(address(t, host), core.Spec{Shape: []int64{3, 5}}), core.ErrInvalid},
				"an allocation of another one": {foreign(l.apart(t, d).alloc(t, kind, 60), core.Spec{Shape: []int64{3, 5}}), core.ErrInvalid},
			} {
				coretest.WantError(t, d.Copy(t.Context(), nil, host, bad.tensor), bad.sentinel, what+", read")
				coretest.WantError(t, d.Copy(t.Context(), nil, bad.tensor, host), bad.sentinel, what+", written")
			}
		})
	}
}

func TestImportPointerRefusesWhatIsNotInTheContext(t *testing.T) {
	d := device(t)
	l := libraryOf(t, d)
	p := l.alloc(t, driver.USMDevice, 100)
	gone, s := l.usm.Alloc(driver.USMDevice, l.context, l.device, 1<<20, 0)
	if s != driver.Success {
		t.Fatal(s)
	}
	l.usm.Free(l.context, gone)
	word := make([]byte, 8)
	host := coretest.Keep(t)(core.FromSlice(word))
	for what, bad := range map[string]struct {
		p    uintptr
		size int64
	}{
		"too many bytes":       {p + 1, 100},
		"a negative size":      {p, -1},
		"no address":           {0, 1},
		"memory of the host":   {address(t, host), 8},
		"what was freed":       {gone, 8},
		"another cl_context":   {l.apart(t, d).alloc(t, driver.USMShared, 8), 8},
		"an address of nobody": {^uintptr(0) - 7, 8},
	} {
		m, err := d.(core.PointerImporter).ImportPointer(bad.p, bad.size, owner(func() { t.Errorf("%s: the owner was freed", what) }))
		coretest.WantError(t, err, core.ErrInvalid, what)
		if err == nil {
			m.Free()
		}
	}
}

// Over the cl_context of another library, its allocations are those of the device.
func TestWrapTakesTheAllocationsOfItsContext(t *testing.T) {
	own := device(t)
	l := libraryOf(t, own).apart(t, own)
	p := l.alloc(t, driver.USMShared, 60)
	d, err := oneapi.Wrap(uintptr(l.context), uintptr(l.device))
	if err != nil {
		t.Fatal(err)
	}
	if h, err := oneapi.HandlesOf(d); err != nil || h.Context != uintptr(l.context) {
		t.Errorf("handles %+v, error %v", h, err)
	}
	m, err := d.(core.PointerImporter).ImportPointer(p, 60, nil)
	if err != nil {
		t.Fatal(err)
	}
	x, err := core.Wrap(m, core.Spec{DType: core.TypeFloat32, Shape: []int64{3, 5}})
	if err != nil {
		t.Fatal(err)
	}
	roundTrip(t, d, x)
	x.Close()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for what, bad := range map[string][2]uintptr{"no context": {0, uintptr(l.device)}, "no device": {uintptr(l.context), 0}} {
		if d, err := oneapi.Wrap(bad[0], bad[1]); err == nil {
			t.Errorf("%s: no error", what)
			_ = d.Close()
		}
	}
}

// Devices that are opened later are over the context that the process adopted, and the context stays the library's.
func TestAdoptedContexts(t *testing.T) {
	before := device(t)
	l := libraryOf(t, before).apart(t, before)
	contextOf := func(d core.Device) driver.Context { return libraryOf(t, d).context }
	adopt := func(context driver.Context) {
		t.Helper()
		if err := oneapi.Adopt(uintptr(context), uintptr(l.device)); err != nil {
			t.Fatal(err)
		}
	}
	defer adopt(0)
	first, s := driver.Number(l.context, driver.ContextReferences)
	if s != driver.Success {
		t.Fatal(s)
	}
	for i, context := range []driver.Context{l.context, l.context, 0, 0, l.context} {
		adopt(context)
		want := first
		if context != 0 {
			want++
		}
		if now, _ := driver.Number(l.context, driver.ContextReferences); now != want {
			t.Errorf("call %d: the context has %d references, want %d", i, now, want)
		}
	}
	p := l.alloc(t, driver.USMDevice, 60)
	for range 2 {
		d := open(t)
		if contextOf(d) != l.context {
			t.Fatal("the device has a context of its own")
		}
		x := coretest.Keep(t)(core.Wrap(core.Memory{ID: d.ID(), Handle: p, Size: core.UnknownSize}, core.Spec{DType: core.TypeFloat32, Shape: []int64{3, 5}}))
		roundTrip(t, d, x)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if contextOf(before) == l.context {
		t.Error("a device that was open got the context")
	}
	for what, bad := range map[string][2]uintptr{
		"no device": {uintptr(l.context), 0}, "another object": {uintptr(l.device), uintptr(l.device)}, "neither": {0, 0},
	} {
		if oneapi.Adopt(bad[0], bad[1]) == nil {
			t.Errorf("%s: no error", what)
		}
	}
	d := open(t)
	if contextOf(d) != l.context {
		t.Error("a failed call ended the adoption")
	}
	adopt(0)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if d := device(t); contextOf(d) == l.context {
		t.Error("the adoption did not end")
	}
}

// The address of an open tensor says as little about the size of a tensor of DLPack.
func TestTensorsOfDLPackOnMemoryOfTheDeviceAreChecked(t *testing.T) {
	d := device(t)
	own := coretest.Keep(t)(core.Empty(t.Context(), d, core.TypeFloat32, []int64{16}, core.AllocOptions{}))
	defer own.Close()
	p := address(t, own)
	foreign := func(n int64, strides ...int64) *core.Tensor {
		return coretest.Keep(t)(core.Wrap(core.Memory{ID: d.ID(), Handle: p, Size: core.UnknownSize}, core.Spec{DType: core.TypeFloat32, Shape: []int64{n}, Strides: strides}))
	}
	const large = 1 << 20
	host := coretest.Keep(t)(core.FromSlice(make([]float32, large)))
	for name, bad := range map[string]*core.Tensor{"contiguous": foreign(large), "strided": foreign(large, 1<<10), "backwards": foreign(large, -1)} {
		coretest.WantError(t, d.Copy(t.Context(), nil, host, bad), core.ErrLayout, name+", read")
		coretest.WantError(t, d.Copy(t.Context(), nil, bad, host), core.ErrLayout, name+", written")
	}
	few := coretest.Keep(t)(core.FromSlice(make([]float32, 16)))
	if err := d.Copy(t.Context(), nil, few, foreign(16)); err != nil {
		t.Error(err)
	}
}
