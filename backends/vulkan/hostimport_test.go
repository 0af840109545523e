//go:build vulkan && linux && cgo

package vulkan

import (
	"bytes"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/backends/vulkan/internal/faults"
	"github.com/dlx-go/dlx/core"
)

// hostRules sets the rules of the driver for addresses of the host until the test ends.
func hostRules(t *testing.T, f faults.Foreign, refuseAgain bool) {
	t.Helper()
	faults.HostRules(f, refuseAgain)
	t.Cleanup(func() { faults.HostRules(faults.AsDriver, false) })
}

// hostPages returns pages that no other memory lies on.
func hostPages(t *testing.T, n, protection int) []byte {
	t.Helper()
	data, err := unix.Mmap(-1, 0, n*os.Getpagesize(), protection, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data
}

// mapMemory maps m, and closes the mapping with the test.
func mapMemory(t *testing.T, d core.Device, m core.Memory) (*core.Tensor, error) {
	t.Helper()
	host := keep(t)(core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}, Flags: core.FlagReadOnly}))
	b, err := host.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := d.(core.HostMapper).MapHost(t.Context(), b)
	if err != nil {
		return nil, err
	}
	if mapped.OriginType() != m.OriginType() {
		t.Errorf("memory of %v was mapped, and its origin is %v", m.OriginType(), mapped.OriginType())
	}
	return keep(t)(core.Wrap(mapped, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})), nil
}

func memoryOf(data []byte) core.Memory {
	return core.Memory{ID: core.CPU, Handle: uintptr(unsafe.Pointer(unsafe.SliceData(data))), Size: int64(len(data))}
}

// VUID-VkImportMemoryHostPointerInfoEXT-handleType-01750 and -01751: a host allocation and host mapped foreign memory
// have different handle types. All calls of an import must have the same.
func TestHostMemoryIsImportedByItsOrigin(t *testing.T) {
	hostRules(t, faults.Accept, false)
	d := openedWith(t, core.CapMapHost)
	data := hostPages(t, 1, unix.PROT_READ|unix.PROT_WRITE)
	copy(data, pattern(len(data), 1))
	own := memoryOf(data)
	view := own
	view.Origin = core.DeviceOpenCL
	pinned, managed := own, own
	pinned.ID.Type, managed.ID.Type = core.DeviceCUDAHost, core.DeviceCUDAManaged
	mappedBefore := own
	mappedBefore.Origin = core.DeviceCPU // as HostView returns memory that MapHost mapped
	for _, c := range []struct {
		name string
		m    core.Memory
		want driver.Handles
	}{
		{"a host allocation", own, driver.HostPointer},
		{"a host allocation that a device views", mappedBefore, driver.HostPointer},
		{"memory of a device that the host views", view, driver.HostForeign},
		{"pinned memory", pinned, driver.HostForeign},
		{"managed memory", managed, driver.HostForeign},
	} {
		faults.LastHostImport()
		x, err := mapMemory(t, d, c.m)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, want := faults.LastHostImport(), uint32(c.want); got != (faults.HostImport{Asked: want, Buffer: want, Imported: want}) {
			t.Errorf("%s was imported with the handle types %+v, want %#x", c.name, got, want)
		}
		if !bytes.Equal(get(t, d, x), data) {
			t.Errorf("%s: the device sees other bytes", c.name)
		}
		_ = x.Close()
	}
}

// The host's view of memory of a device says whose memory it is, also through a second view.
func TestViewsAreImportedAsForeignMemory(t *testing.T) {
	hostRules(t, faults.Accept, false)
	d, other := openedWith(t, core.CapMapHost), opened(t)
	x := row(t, d, 5000, core.AllocOptions{HostVisible: true})
	put(t, d, x, pattern(5000, 2))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	view, err := d.(core.HostViewer).HostView(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	faults.LastHostImport()
	mapped, err := mapMemory(t, other, view)
	if err != nil {
		t.Fatal(err)
	}
	if got := faults.LastHostImport().Imported; got != uint32(driver.HostForeign) {
		t.Errorf("the view was imported with the handle type %#x", got)
	}
	if !bytes.Equal(get(t, other, mapped), pattern(5000, 2)) {
		t.Error("the other device sees other bytes")
	}
}

func TestForeignMemoryThatTheDriverDoesNotImportIsRefused(t *testing.T) {
	hostRules(t, faults.Refuse, false)
	d := openedWith(t, core.CapMapHost)
	data := hostPages(t, 1, unix.PROT_READ|unix.PROT_WRITE)
	m := memoryOf(data)
	m.ID.Type = core.DeviceCUDAHost
	wantError(t, d.(core.HostMapper).CanMap(m), core.ErrNotSupported, "CanMap of pinned memory")
	faults.LastHostImport()
	_, err := mapMemory(t, d, m)
	wantError(t, err, core.ErrNotSupported, "MapHost of pinned memory")
	if got := faults.LastHostImport(); got != (faults.HostImport{}) {
		t.Errorf("the driver was called: %+v", got)
	}
	p := d.Properties()
	for _, f := range p.Features {
		if f.Name == "map_foreign_host" && f.Available {
			t.Errorf("%+v", f)
		}
	}
	if err := d.(core.HostMapper).CanMap(memoryOf(data)); err != nil {
		t.Errorf("CanMap of a host allocation: %v", err)
	}
}

// "Implementations may fail to import the same payload multiple times into a given physical device."
func TestASecondImportOfTheSamePagesMayFail(t *testing.T) {
	hostRules(t, faults.AsDriver, true)
	d, other := openedWith(t, core.CapMapHost), opened(t)
	data := hostPages(t, 2, unix.PROT_READ|unix.PROT_WRITE)
	copy(data, pattern(len(data), 3))
	x, err := mapMemory(t, d, memoryOf(data))
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]core.Device{"the same device": d, "another device of the same hardware": other} {
		_, err := mapMemory(t, at, memoryOf(data[100:200]))
		wantError(t, err, core.ErrInvalid, "a second import into "+what)
		fresh := row(t, at, int64(len(data)), core.AllocOptions{})
		host := keep(t)(core.FromSlice(data))
		if err := at.Copy(t.Context(), nil, fresh, host); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(get(t, at, fresh), data) {
			t.Errorf("%s: the copy has other bytes", what)
		}
	}
	_ = x.Close()
	for range 2 { // memory of failed imports was freed, too
		x, err := mapMemory(t, other, memoryOf(data))
		if err != nil {
			t.Fatalf("an import after the first was freed: %v", err)
		}
		_ = x.Close()
	}
}

func TestConformanceOfADriverThatImportsPagesOnce(t *testing.T) {
	openedWith(t, core.CapMapHost)
	hostRules(t, faults.Refuse, true)
	backendtest.Run(t, func(tb testing.TB) core.Device { return open(tb) }, backendtest.Options{Variant: 3, Variants: 4})
}

// A driver pins the pages that it imports to write to them, which fails for these.
func TestMemoryThatTheHostCannotWriteIsNotImported(t *testing.T) {
	d := openedWith(t, core.CapMapHost)
	data := hostPages(t, 3, unix.PROT_READ|unix.PROT_WRITE)
	page := os.Getpagesize()
	if err := unix.Mprotect(data[page:2*page], unix.PROT_READ); err != nil {
		t.Fatal(err)
	}
	faults.LastHostImport()
	for what, part := range map[string][]byte{"all pages": data, "a read-only page": data[page : 2*page], "its last byte and more": data[2*page-1:]} {
		_, err := mapMemory(t, d, memoryOf(part))
		wantError(t, err, core.ErrReadOnly, what)
	}
	marked := memoryOf(data[:page])
	marked.ReadOnly = true
	wantError(t, d.(core.HostMapper).CanMap(marked), core.ErrReadOnly, "CanMap of memory that is marked")
	if got := faults.LastHostImport(); got != (faults.HostImport{}) {
		t.Errorf("the driver was asked to import: %+v", got)
	}
	if _, err := mapMemory(t, d, memoryOf(data[:page])); err != nil {
		t.Errorf("the page before: %v", err)
	}
}
