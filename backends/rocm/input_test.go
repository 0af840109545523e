//go:build rocm && linux && cgo

package rocm

import (
	"bytes"
	"errors"
	"math"
	"os"
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/cudalike/cudaliketest"
	"github.com/dlx-go/dlx/backends/rocm/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// contextOf returns HIP's functions for a device, as another library in the process calls them.
func contextOf(d core.Device) cudalike.Context {
	c, _ := driver.Driver.Retain(d.ID().Index)
	return c
}

// ok fails the test if a call of HIP has failed.
func ok(t *testing.T, s cudalike.Status) {
	t.Helper()
	if !s.OK() {
		t.Fatalf("%s: %v", s.Call, driver.Code(s.Code))
	}
}

// allocate allocates memory as another library does.
func allocate(t *testing.T, size int64, alloc func(int64) (uintptr, cudalike.Status), free func(uintptr) cudalike.Status) uintptr {
	t.Helper()
	p, s := alloc(size)
	ok(t, s)
	t.Cleanup(func() { ok(t, free(p)) })
	return p
}

func TestPointersOfAnotherLibrary(t *testing.T) {
	kit.Simulator(t)
	d, other := kit.Opened(t), kit.Opened(t, 1)
	c := contextOf(d)
	const size = 10000
	plain, pinned := allocate(t, size, c.Alloc, c.Free), allocate(t, size, c.AllocHost, c.FreeHost)
	managed := allocate(t, size, c.AllocManaged, c.Free)
	foreign := allocate(t, size, contextOf(other).Alloc, contextOf(other).Free)
	freed, s := c.Alloc(size)
	ok(t, s)
	ok(t, c.Free(freed))
	host := make([]byte, size)
	rocm, pins := core.DeviceID{Type: core.DeviceROCM}, core.DeviceID{Type: core.DeviceROCMHost}
	for _, x := range []struct {
		name string
		p    uintptr
		size int64
		id   core.DeviceID
		want error
	}{
		{"memory of the device", plain, size, rocm, nil},
		{"a part of it", plain + 100, size - 100, rocm, nil},
		{"pinned memory", pinned, size, pins, nil},
		{"a part of pinned memory", pinned + 7, 100, pins, nil},
		{"managed memory", managed, size, rocm, nil},
		{"no bytes", uintptr(unsafe.Pointer(&host[0])), 0, rocm, nil},
		{"memory of the host", uintptr(unsafe.Pointer(&host[0])), size, rocm, core.ErrInvalid},
		{"no memory", 1 << 40, size, rocm, core.ErrInvalid},
		{"null", 0, size, rocm, core.ErrInvalid},
		{"freed memory", freed, size, rocm, core.ErrInvalid},
		{"a range that leaves its allocation", plain + 100, size, rocm, core.ErrInvalid},
		{"a range that leaves the address space", plain, math.MaxInt64, rocm, core.ErrInvalid},
		{"pinned memory that is too short", pinned + 1, size, pins, core.ErrInvalid},
		{"a negative size", plain, -1, rocm, core.ErrInvalid},
		{"memory of another device", foreign, size, rocm, core.ErrDevice},
	} {
		t.Run(x.name, func(t *testing.T) {
			m, err := d.(core.PointerImporter).ImportPointer(x.p, x.size, nil)
			if x.want != nil {
				coretest.WantError(t, err, x.want, "ImportPointer")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer m.Free()
			if m.ID != x.id || m.Handle != x.p || m.Size != x.size {
				t.Errorf("%+v", m)
			}
		})
	}
}

// Versions say it with other numbers.
func TestPointersInOtherVersions(t *testing.T) {
	kit.Simulator(t)
	for _, variable := range []string{"DLX_GPUSIM_HIP_VERSION=5", "DLX_GPUSIM_HIP_VERSION=7"} {
		defer t.Run(variable, coretest.Child(t, "TestPointersOfAnotherLibrary", variable))
	}
}

// opened opens a device whose library can export memory as descriptors: those before 6.0 cannot.
func opened(t *testing.T) core.Device {
	t.Helper()
	d := kit.Opened(t)
	if x, s := driver.Driver.Describe(0); !s.OK() || x.NoDescriptors != "" {
		t.Skipf("the device has no descriptors of memory: %s %s", x.NoDescriptors, s.Call)
	}
	return d
}

func TestMemoryThatCannotBeImported(t *testing.T) {
	sim := kit.Simulator(t)
	d := opened(t)
	file, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	live, open := sim.Live(), coretest.Descriptors()
	descriptor := func(fd int) *core.Handle { return coretest.HandleOf(t, core.HandleOpaqueFD, fd) } // of a duplicate
	good, _ := cudaliketest.Foreign(t, d, 1<<16)
	defer good.Close()
	for name, x := range map[string]struct {
		change func(*core.ExternalMemory)
		want   error
	}{
		"a descriptor of something else": {func(m *core.ExternalMemory) { m.Handle = descriptor(int(file.Fd())) }, core.ErrOutOfMemory}, // HIP's answer
		"the same, as memory of HIP": {func(m *core.ExternalMemory) {
			m.Handle, m.MemoryType, m.DriverUUID = descriptor(int(file.Fd())), backendkit.NoMemoryType, core.UUID{}
			m.Size = 1 << 21
		}, core.ErrInvalid},
		"memory of another card":         {func(m *core.ExternalMemory) { m.DeviceUUID[15]++ }, core.ErrDevice},
		"a range that leaves the memory": {func(m *core.ExternalMemory) { m.Offset = 1 }, core.ErrInvalid},
		"more memory than there is":      {func(m *core.ExternalMemory) { m.Size, m.Length = 1<<30, 1<<30 }, core.ErrInvalid},
		"memory of HIP of a size that it has not": {func(m *core.ExternalMemory) {
			m.MemoryType, m.DriverUUID, m.Size, m.Length = backendkit.NoMemoryType, core.UUID{}, 100, 100
		}, core.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := good.Duplicate()
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close() // of the duplicate, if it is replaced
			x.change(&m)
			defer m.Close()
			_, err = d.(core.MemoryImporter).ImportMemory(t.Context(), m)
			coretest.WantError(t, err, x.want, "ImportMemory")
		})
	}
	cudaliketest.WantLive(t, sim, live)
	_ = good.Close()
	if now := coretest.Descriptors(); now > open {
		t.Errorf("%d descriptors are open, %d were before", now, open)
	}
}

// Libraries since 7.1 get the descriptor as a pointer, and refuse a null pointer. In a process of its own, whose input it takes.
func TestDescriptor0(t *testing.T) {
	kit.Simulator(t)
	if os.Getenv(codeVariable) == "" {
		coretest.Child(t, t.Name(), codeVariable+"=0", "DLX_GPUSIM_HIP_VERSION=7")(t)
		return
	}
	c := contextOf(kit.Opened(t))
	unit, s := driver.Driver.Granularity(0, core.HandleOpaqueFD, true)
	ok(t, s)
	m, s := c.NewMapped(unit, core.HandleOpaqueFD, 0)
	ok(t, s)
	fd, s := c.ExportMapped(m)
	ok(t, s)
	if err := errors.Join(unix.Dup3(fd, 0, 0), unix.Close(fd)); err != nil {
		t.Fatal(err)
	}
	open := coretest.Descriptors()
	same, s := c.ImportMapped(0, unit, 0)
	ok(t, s)
	ok(t, c.CloseMapped(same))
	if now := coretest.Descriptors(); now > open {
		t.Errorf("%d descriptors are open, %d were before", now, open)
	}
	ok(t, c.CloseMapped(m))
}

// Other code of the thread asks HIP about its own errors.
func TestNoErrorIsLeft(t *testing.T) {
	sim := kit.Simulator(t)
	c := contextOf(opened(t))
	hip, err := gpusimtest.Open(os.Getenv(driver.LibraryVariable))
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	count := func() { _, _ = driver.Driver.Devices() }
	describe := func() { _, _ = driver.Driver.Describe(0) }
	allocate := func() {
		if p, s := c.Alloc(1000); s.OK() {
			ok(t, c.Free(p))
		}
	}
	for call, f := range map[string]func(){
		"hipGetDeviceCount": count, "hipDeviceGetName": describe, "hipDeviceTotalMem": describe, "hipDeviceGetUuid": describe,
		"hipDeviceGetPCIBusId": describe, "hipGetDevicePropertiesR0600": describe, "hipDeviceGetAttribute": describe,
		"hipDeviceCanAccessPeer":         func() { _, _ = driver.Driver.CanAccessPeer(0, 1) },
		"hipMemGetAllocationGranularity": func() { _, _ = driver.Driver.Granularity(0, core.HandleOpaqueFD, true) },
		"hipGetDevice":                   allocate, "hipMalloc": allocate, "hipThreadExchangeStreamCaptureMode": allocate,
		"hipSetDevice": func() { hip.Call("hipSetDevice", 1); allocate(); hip.Call("hipSetDevice", 0) },
	} {
		for nth := 1; nth <= 2; nth++ {
			before := sim.Count(call)
			sim.Fail(call, nth, int(driver.OutOfMemory))
			f()
			if sim.Count(call) == before {
				t.Errorf("%s was not called", call)
			}
			sim.Fail(call, 0, 0)
			if left := driver.Code(int32(hip.Call("hipGetLastError"))); left != driver.Success { //nolint:gosec // an int
				t.Errorf("%s leaves the error %v", call, left)
			}
		}
	}
}

func TestStreamNumbers(t *testing.T) {
	kit.Simulator(t)
	d, other := kit.Opened(t), kit.Opened(t, 1)
	importer := d.(core.StreamImporter)
	theirs := cudaliketest.NewStream(t, other)
	for _, native := range []uintptr{1, 2, theirs.Native()} {
		s, err := importer.ImportStream(t.Context(), native)
		coretest.WantError(t, err, core.ErrInvalid, "ImportStream")
		if err == nil {
			_ = s.Close()
		}
	}
	s, err := importer.ImportStream(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	content := coretest.Pattern(5000, 1)
	x := coretest.Row(t, d, 5000, core.AllocOptions{})
	if err := d.Copy(t.Context(), s, x, coretest.Keep(t)(core.FromSlice(content))); err != nil {
		t.Fatal(err)
	}
	if got := coretest.Get(t, d, x); !bytes.Equal(got, content) {
		t.Error("a copy on the default stream has wrong bytes")
	}
}

func TestNoMemoryIsLeft(t *testing.T) {
	sim := kit.Simulator(t)
	d := opened(t)
	live := sim.Live()
	for _, o := range []core.AllocOptions{{}, {Export: core.HandleOpaqueFD}, {Export: core.HandleIPC}} {
		_, err := d.Alloc(t.Context(), d.Properties().TotalMemory+1, o)
		coretest.WantError(t, err, core.ErrOutOfMemory, "Alloc")
	}
	cudaliketest.WantLive(t, sim, live)
	_, err := d.Alloc(t.Context(), 1, core.AllocOptions{Type: core.DeviceCUDAHost})
	coretest.WantError(t, err, core.ErrNotSupported, "Alloc of memory of another backend")
}

// Work of the device crashes. In a process of its own, since the device stays lost.
func TestALostDevice(t *testing.T) {
	sim := kit.Simulator(t)
	if os.Getenv(codeVariable) == "" {
		coretest.Child(t, t.Name(), codeVariable+"=700")(t)
		return
	}
	d := kit.Open(t)
	x := coretest.Row(t, d, 1000, core.AllocOptions{})
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sim.Lose(0)
	err = errors.Join(d.Copy(t.Context(), s, x, coretest.Keep(t)(core.FromSlice(make([]byte, 1000)))), s.Synchronize(t.Context()))
	coretest.WantError(t, err, core.ErrDeviceLost, "a copy")
	_, err = d.Alloc(t.Context(), 1000, core.AllocOptions{})
	coretest.WantError(t, err, core.ErrDeviceLost, "Alloc")
	_, _ = x.Close(), s.Close()
	if err := d.Close(); err != nil {
		t.Errorf("a lost device cannot be closed: %v", err)
	}
}

// Functions that cudalike does not call for what HIP says that it has.
func TestWhatNoDeviceUses(t *testing.T) {
	kit.Simulator(t)
	c := contextOf(opened(t))
	p := allocate(t, 1000, c.AllocManaged, c.Free)
	if a, s := c.Pointer(p); !s.OK() || !a.Managed || a.Start != p {
		t.Errorf("managed memory: %+v, %v", a, s)
	}
	if free, s := c.FreeMemory(); !s.OK() || free <= 0 {
		t.Errorf("%d bytes are free, %v", free, s)
	}
	pinned, page := allocate(t, 4096, c.AllocHost, c.FreeHost), os.Getpagesize()
	host, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(host) }()
	registered := uintptr(unsafe.Pointer(&host[0]))
	_, s := c.MapHost(registered, int64(page), false)
	ok(t, s)
	if !c.IsHostAllocation(pinned) || c.IsHostAllocation(registered) {
		t.Error("allocated memory is not told from registered memory")
	}
	ok(t, c.UnmapHost(registered))
	unit, s := driver.Driver.Granularity(0, core.HandleOpaqueFD, true)
	ok(t, s)
	m, s := c.NewMapped(unit, core.HandleOpaqueFD, 0)
	ok(t, s)
	if !c.HasAccess(0, m.Address) || c.HasAccess(1, m.Address) {
		t.Error("wrong devices have access to mapped memory")
	}
	ok(t, c.CloseMapped(m))
}
