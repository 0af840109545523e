//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

// library stands for another library in the process that uses CUDA. It allocates memory in the primary context of a
// device, which is freed when the test ends.
type library struct {
	testing.TB
	ordinal int32
	context cudalike.Context
}

func libraryOf(t testing.TB, d core.Device) library {
	ordinal := d.ID().Index
	c, s := driver.Driver.Retain(ordinal)
	if err := failed(s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { driver.Driver.Release(ordinal) })
	return library{t, ordinal, c}
}

// failed returns a status as an error, nil for success.
func failed(s cudalike.Status) error {
	if s.OK() {
		return nil
	}
	return fmt.Errorf("%s: %v", s.Call, driver.Code(s.Code))
}

// statusOf drops the first of two results.
func statusOf(_ bool, s cudalike.Status) cudalike.Status { return s }

func (l library) allocate(size int64, allocate func(int64) (uintptr, cudalike.Status), free func(uintptr) cudalike.Status) uintptr {
	l.Helper()
	p, s := allocate(size)
	if err := failed(s); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := failed(free(p)); err != nil {
			l.Error(err)
		}
	})
	return p
}

func (l library) plain(size int64) uintptr {
	return l.allocate(size, l.context.Alloc, l.context.Free)
}

func (l library) pinned(size int64) uintptr {
	return l.allocate(size, l.context.AllocHost, l.context.FreeHost)
}

func (l library) managed(size int64) uintptr {
	return l.allocate(size, l.context.AllocManaged, l.context.Free)
}

// mapped allocates at least size bytes by cuMemCreate, mapped to reserved addresses.
func (l library) mapped(size int64) cudalike.Mapped {
	l.Helper()
	unit, s := driver.Driver.Granularity(l.ordinal, core.HandleOpaqueFD, true)
	if err := failed(s); err != nil {
		l.Fatal(err)
	}
	m, s := l.context.NewMapped((size+unit-1)/unit*unit, core.HandleOpaqueFD, l.ordinal)
	if err := failed(s); err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		if err := failed(l.context.CloseMapped(m)); err != nil {
			l.Error(err)
		}
	})
	return m
}

// elsewhere allocates memory in another context of the same device.
func (l library) elsewhere(size int64) uintptr {
	l.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	other, err := cu.Device(l.ordinal).MakeContext(cu.SchedAuto) // current from here on
	if err != nil {
		l.Fatal(err)
	}
	defer func() { _, _ = cu.PopCurrentCtx() }()
	p, err := cu.MemAlloc(size)
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := errors.Join(cu.PushCurrentCtx(other), cu.MemFree(p), other.Destroy()); err != nil {
			l.Error(err)
		}
	})
	return p.Uintptr()
}

func TestMemoryOfAnotherLibraryIsImportedAsItsType(t *testing.T) {
	simulator(t)
	d := opened(t)
	l := libraryOf(t, d)
	const size = 10000
	for _, c := range []struct {
		kind string
		p    uintptr
		want core.DeviceID
	}{
		{"memory of cuMemAlloc", l.plain(size), d.ID()},
		{"memory of cuMemCreate", l.mapped(size).Address, d.ID()},
		{"pinned memory", l.pinned(size), core.DeviceID{Type: core.DeviceCUDAHost}},
		{"managed memory", l.managed(size), core.DeviceID{Type: core.DeviceCUDAManaged}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			for _, part := range [][2]int64{{0, size}, {0, 1}, {size - 1, 1}, {77, 1000}} {
				var frees atomic.Int32
				m, err := d.(core.PointerImporter).ImportPointer(c.p+uintptr(part[0]), part[1], core.FreeFunc(func() { frees.Add(1) }))
				if err != nil {
					t.Fatal(err)
				}
				if m.ID != c.want || m.Device != d || m.Handle != c.p+uintptr(part[0]) || m.Offset != 0 || m.Size != part[1] {
					t.Errorf("%+v: want %d bytes of %v at %#x", m, part[1], c.want, c.p+uintptr(part[0]))
				}
				x, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{part[1]}})
				if err != nil {
					t.Fatal(err)
				}
				copyThrough(t, d, x, pattern(int(part[1]), 1))
				if frees.Load() != 0 {
					t.Error("the memory was freed while the tensor is open")
				}
				if _ = x.Close(); frees.Load() != 1 {
					t.Errorf("the memory was freed %d times", frees.Load())
				}
			}
		})
	}
}

// copyThrough writes p to x and reads it back, both through memory of the device.
func copyThrough(t *testing.T, d core.Device, x *core.Tensor, p []byte) {
	t.Helper()
	temp := row(t, d, x.NumElements(), core.AllocOptions{})
	put(t, d, temp, p)
	if err := d.Copy(t.Context(), nil, x, temp); err != nil {
		t.Fatal(err)
	}
	put(t, d, temp, make([]byte, len(p)))
	if err := d.Copy(t.Context(), nil, temp, x); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(get(t, d, temp), p) {
		t.Error("wrong bytes came back")
	}
}

func TestAnAddressThatIsNotMemoryOfTheDeviceIsRefused(t *testing.T) {
	sim := simulator(t)
	d, peer := opened(t), opened(t, 1)
	l := libraryOf(t, d)
	host := make([]byte, 4096)
	own := row(t, d, 4096, core.AllocOptions{})
	address, err := own.Address()
	if err != nil {
		t.Fatal(err)
	}
	plain, pinned, mapped := l.plain(4096), l.pinned(4096), l.mapped(1)
	far, elsewhere := libraryOf(t, peer).plain(4096), l.elsewhere(4096)
	freed, s := l.context.Alloc(4096) // the last allocation, so that its address is not reused
	if err := failed(s); err != nil {
		t.Fatal(err)
	}
	l.context.Free(freed)
	cases := []struct {
		rule string
		p    uintptr
		size int64
		want error
		says string
	}{
		{"NULL", 0, 16, core.ErrInvalid, "not memory of CUDA"},
		{"a number", 12345, 16, core.ErrInvalid, "not memory of CUDA"},
		{"memory of the host", uintptr(unsafe.Pointer(&host[0])), 16, core.ErrInvalid, "pinned"},
		{"freed memory", freed, 16, core.ErrInvalid, "freed"},
		{"a negative size", address, -1, core.ErrInvalid, "size is -1"},
		{"the least size", address, math.MinInt64, core.ErrInvalid, "size"},
		{"beyond the address space", math.MaxUint - 15, 4096, core.ErrInvalid, "address space"},
		{"a byte more than was allocated", plain, 4097, core.ErrInvalid, "has 4096 bytes"},
		{"the most bytes", plain, math.MaxInt64, core.ErrInvalid, "has 4096 bytes"},
		{"an end outside", plain + 4000, 97, core.ErrInvalid, "has 4096 bytes"},
		{"a byte more than was pinned", pinned, 4097, core.ErrInvalid, "has 4096 bytes"},
		{"more than is mapped", mapped.Address, mapped.Size + 1, core.ErrInvalid, ""},
		{"memory of another device", far, 16, core.ErrDevice, "cuda:1"},
		{"memory of another context", elsewhere, 16, core.ErrInvalid, "another context"},
	}
	live := sim.Live()
	for _, c := range cases {
		t.Run(c.rule, func(t *testing.T) {
			frees := 0
			_, err := d.(core.PointerImporter).ImportPointer(c.p, c.size, core.FreeFunc(func() { frees++ }))
			wantError(t, err, c.want, "ImportPointer")
			if err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q does not say %q", err, c.says)
			}
			if frees != 0 {
				t.Error("the memory was freed, though it was not imported")
			}
		})
	}
	runtime.KeepAlive(host)
	wantLive(t, sim, live)
}

// A tensor of DLPack has an address and a device type, but no size of its memory and no opened device.
func TestTensorsOfOtherLibrariesAreCopiedInPlace(t *testing.T) {
	simulator(t)
	d := opened(t)
	l := libraryOf(t, d)
	plain, pinned, managed, host := l.plain(1000), l.pinned(1000), l.managed(1000), make([]byte, 1000)
	pinnedID, managedID := core.DeviceID{Type: core.DeviceCUDAHost}, core.DeviceID{Type: core.DeviceCUDAManaged}
	for _, c := range []struct {
		rule string
		id   core.DeviceID
		p    uintptr
		n    int64
		want error
	}{
		{"kDLCUDA", d.ID(), plain, 1000, nil},
		{"kDLCUDAHost", pinnedID, pinned, 1000, nil},
		{"kDLCUDAManaged", managedID, managed, 1000, nil},
		{"kDLCUDA of memory of the host", d.ID(), uintptr(unsafe.Pointer(&host[0])), 1000, core.ErrInvalid},
		{"kDLCUDA of pinned memory", d.ID(), pinned, 1000, core.ErrInvalid},
		{"kDLCUDAHost of memory of the device", pinnedID, plain, 1000, core.ErrInvalid},
		{"kDLCUDAManaged of pinned memory", managedID, pinned, 1000, core.ErrInvalid},
		{"more elements than were allocated", d.ID(), plain, 1001, core.ErrInvalid},
	} {
		t.Run(c.rule, func(t *testing.T) {
			x := keep(t)(core.Wrap(core.Memory{ID: c.id, Handle: c.p, Size: core.UnknownSize}, core.Spec{DType: core.TypeUint8, Shape: []int64{c.n}}))
			if c.want == nil {
				copyThrough(t, d, x, pattern(int(c.n), 3))
				return
			}
			y := row(t, d, c.n, core.AllocOptions{})
			wantError(t, d.Copy(t.Context(), nil, y, x), c.want, "from it")
			wantError(t, d.Copy(t.Context(), nil, x, y), c.want, "into it")
		})
	}
	runtime.KeepAlive(host)
}

func TestReservedAddressesWithoutMemoryAreRefused(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	m := libraryOf(t, d).mapped(1)
	sim.Fail("cuMemGetAddressRange", 1, int(driver.NotFound)) // as for reserved addresses without a mapping
	_, err := d.(core.PointerImporter).ImportPointer(m.Address, m.Size, nil)
	wantError(t, err, core.ErrInvalid, "ImportPointer")
	if err != nil && !strings.Contains(err.Error(), "no memory is mapped") {
		t.Error(err)
	}
}

func TestHostMemoryOfOneDeviceIsImportedByAnother(t *testing.T) {
	simulator(t)
	d, peer := opened(t), opened(t, 1)
	l := libraryOf(t, peer)
	for _, p := range []uintptr{l.pinned(1000), l.managed(1000)} {
		m, err := d.(core.PointerImporter).ImportPointer(p, 1000, nil)
		if err != nil {
			t.Fatal(err)
		}
		x := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{1000}}))
		copyThrough(t, d, x, pattern(1000, 2))
	}
}

func TestAnOwnerIsFreedAfterTheWork(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	p := libraryOf(t, d).plain(1000)
	freed := make(chan struct{})
	m, err := d.(core.PointerImporter).ImportPointer(p, 1000, core.FreeFunc(func() { close(freed) }))
	if err != nil {
		t.Fatal(err)
	}
	x, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{1000}})
	if err != nil {
		t.Fatal(err)
	}
	sim.Hold(true)
	from := row(t, d, 1000, core.AllocOptions{})
	if err := d.Copy(t.Context(), s, x, from); err != nil {
		t.Fatal(err)
	}
	_ = x.Close()
	select {
	case <-freed:
		t.Error("the memory was freed while work on the memory is unfinished")
	default:
	}
	sim.Hold(false)
	<-freed
}

func TestImportPointerOfAClosedDevice(t *testing.T) {
	d := open(t)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := d.(core.PointerImporter).ImportPointer(0, 0, nil)
	wantError(t, err, core.ErrClosed, "ImportPointer")
}

// Only memory that was allocated as pinned is pinned for every context.
func TestHostMemoryThatAnotherContextHasRegisteredIsPageable(t *testing.T) {
	simulator(t)
	d, p := opened(t), opened(t, 1)
	other := libraryOf(t, p)
	const size = 1 << 16
	bytes, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(bytes) })
	registered := uintptr(unsafe.Pointer(&bytes[0]))
	if _, s := other.context.MapHost(registered, size, false); !s.OK() {
		t.Fatal(failed(s))
	}
	t.Cleanup(func() { other.context.UnmapHost(registered) })
	_, err = d.(core.PointerImporter).ImportPointer(registered, size, nil)
	wantError(t, err, core.ErrInvalid, "registered elsewhere")
	m, err := p.(core.PointerImporter).ImportPointer(registered, size, nil)
	if err != nil {
		t.Fatal(err)
	}
	imported := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{size}}))
	for _, host := range []*core.Tensor{keep(t)(core.FromSlice(bytes)), imported} {
		for _, c := range []struct {
			rule   string
			on     core.Device
			staged int
		}{{"where it was registered", p, 0}, {"elsewhere", d, 1}} {
			x, s := row(t, c.on, size, core.AllocOptions{}), newStream(t, c.on)
			used := uses(t, func() error { return c.on.Copy(t.Context(), s, x, host) })
			if used["cuLaunchHostFunc"] != c.staged {
				t.Errorf("%v, %s: %v, want %d host functions", host, c.rule, used, c.staged)
			}
		}
	}
	m, err = d.(core.PointerImporter).ImportPointer(other.pinned(size), size, nil)
	if err != nil {
		t.Fatalf("allocated elsewhere: %v", err)
	}
	m.Free()
}
