//go:build linux && cgo

package gpusim_test

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// location is CUmemLocation, properties CUmemAllocationProp, access CUmemAccessDesc.
type location struct{ kind, id int32 }

type properties struct {
	kind, handles int32
	at            location
	win32         uint64
	compression   uint8
	rdma          uint8
	usage         uint16
	_             [4]byte
}

type access struct {
	at    location
	flags int32
}

const (
	posixFD     = 1       // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
	granularity = 2 << 20 // as cards have it
	readOnly    = 1       // CU_MEM_ACCESS_FLAGS_PROT_READ
	readWrite   = 3       // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	hostNUMA    = 3       // CU_MEM_LOCATION_TYPE_HOST_NUMA
)

// Devices 0 and 1, and access to memory for device 0.
var (
	device0, device1 = location{kind: 1}, location{kind: 1, id: 1}
	openTo0          = access{device0, readWrite}
)

// pinned describes memory of device 0 that can be exported.
func pinned() *properties { return &properties{kind: 1, handles: posixFD, at: device0} }

// reserve reserves addresses until the test ends.
func reserve(t *testing.T, d *driver, size int) (ptr uint64) {
	t.Helper()
	ptr = d.New("cuMemAddressReserve", size, 0, 0, 0)
	t.Cleanup(func() { d.OK("cuMemAddressFree", ptr, size) })
	return ptr
}

// mapping maps a handle at a new reservation and opens it to device 0. Its end undoes all but the handle.
func mapping(t *testing.T, d *driver, handle uint64, size int) (ptr uint64) {
	t.Helper()
	ptr = reserve(t, d, size)
	d.OK("cuMemMap", ptr, size, 0, handle, 0)
	d.OK("cuMemSetAccess", ptr, size, &openTo0, 1)
	t.Cleanup(func() { d.OK("cuMemUnmap", ptr, size) })
	return ptr
}

// createAs makes memory that is released when the test ends, create such that can be exported.
func createAs(t *testing.T, d *driver, size int, p *properties) (handle uint64) {
	t.Helper()
	handle = d.New("cuMemCreate", size, p, 0)
	t.Cleanup(func() { d.OK("cuMemRelease", handle) })
	return handle
}

func create(t *testing.T, d *driver, size int) uint64 {
	t.Helper()
	return createAs(t, d, size, pinned())
}

// export exports memory; the descriptor is the caller's.
func export(d *driver, handle uint64) (fd int) {
	var out int32
	d.OK("cuMemExportToShareableHandle", &out, handle, posixFD, 0)
	return int(out)
}

// "Virtual Memory Management", cuMemCreate. CUmemAllocationProp: compression is a hint.
func TestMemoryIsCreatedOnlyAsTheDeviceCan(t *testing.T) {
	d := gpusimtest.Start(t)
	equal(t, "the granularity", d.New("cuMemGetAllocationGranularity", pinned(), 0), granularity)
	equal(t, "the recommended rest", d.New("cuMemGetAllocationGranularity", pinned(), 1)%granularity, 0)
	for _, c := range []struct {
		name   string
		size   uint64
		change func(*properties)
		flags  int
		want   result
	}{
		{"no bytes", 0, nil, 0, gpusimtest.InvalidValue},
		{"no multiple of the granularity", granularity + 4096, nil, 0, gpusimtest.InvalidValue},
		{"flags that nobody knows", granularity, nil, 1, gpusimtest.InvalidValue},
		{"a device that is not there", granularity, func(p *properties) { p.at.id = 99 }, 0, gpusimtest.InvalidDevice},
		{"a negative device", granularity, func(p *properties) { p.at.id = -1 }, 0, gpusimtest.InvalidDevice},
		{"no place", granularity, func(p *properties) { p.at.kind = 0 }, 0, gpusimtest.InvalidValue},
		{"the host", granularity, func(p *properties) { p.at.kind = 2 }, 0, gpusimtest.NotSupported},
		{"a NUMA node that is not there", granularity, func(p *properties) { p.at = location{hostNUMA, 1} }, 0, gpusimtest.InvalidValue},
		{"no type", granularity, func(p *properties) { p.kind = 0 }, 0, gpusimtest.InvalidValue},
		{"attributes of Windows", granularity, func(p *properties) { p.win32 = 1 }, 0, gpusimtest.InvalidValue},
		{"handles of Windows", granularity, func(p *properties) { p.handles = 2 }, 0, gpusimtest.NotSupported},
		{"fabric handles without a channel", granularity, func(p *properties) { p.handles = 8 }, 0, gpusimtest.NotPermitted},
		{"a pool of tiles", granularity, func(p *properties) { p.usage = 1 }, 0, gpusimtest.NotSupported},
		{"more than there is", 1 << 50, nil, 0, gpusimtest.OutOfMemory},
		{"compression", granularity, func(p *properties) { p.compression = 1 }, 0, gpusimtest.Success},
	} {
		p, handle := pinned(), uint64(0)
		if c.change != nil {
			c.change(p)
		}
		equal(t, c.name, d.Result("cuMemCreate", &handle, c.size, p, c.flags), c.want)
		if c.want == gpusimtest.Success {
			d.OK("cuMemRelease", handle)
		}
	}
}

// "To create a CPU allocation targeting a specific host NUMA node"; CU_POINTER_ATTRIBUTE_HOST_POINTER needs an address
// "through which the host program may directly access ptr", and only the device was given access.
func TestMemoryOfTheHostIsMappedForADevice(t *testing.T) {
	d := gpusimtest.Start(t)
	before := free(d)
	handle := createAs(t, d, granularity, &properties{kind: 1, at: location{kind: hostNUMA}})
	equal(t, "the free memory of the device", free(d), before)
	ptr := mapping(t, d, handle, granularity)
	wantKnown(t, d, ptr+3, map[int]uint64{pointerContext: 0, pointerType: onHost, pointerDevice: ptr + 3, pointerManaged: 0})
	for _, attribute := range []int{pointerHost, pointerOrdinal} {
		d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", new(uint64), attribute, ptr)
	}
	d.Write(ptr, gpusimtest.Pattern(1, 100))
	d.Holds(ptr, gpusimtest.Pattern(1, 100))
}

// cuMemRelease: "The memory allocation will be freed when all outstanding mappings to the
// memory are unmapped and when all outstanding references to the handle are also released."
func TestMemoryLivesAsLongAsItsMappingsAndHandles(t *testing.T) {
	d := gpusimtest.Start(t)
	before, want := free(d), gpusimtest.Pattern(1, 4096)
	handle, ptr := d.New("cuMemCreate", granularity, pinned(), 0), reserve(t, d, granularity)
	for range 2 {
		d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
		d.OK("cuMemSetAccess", ptr, granularity, &openTo0, 1)
		d.Write(ptr, want)
		d.OK("cuMemRelease", handle)
		d.WantMisuse(gpusimtest.InvalidValue, "cuMemRelease", handle)
		d.Holds(ptr, want)
		equal(t, "the memory in use while it is mapped", before-free(d), granularity)
		equal(t, "the handle of the mapping", d.New("cuMemRetainAllocationHandle", ptr+4096), handle)
		d.OK("cuMemUnmap", ptr, granularity)
		d.Want(gpusimtest.InvalidValue, "cuMemRetainAllocationHandle", new(uint64), ptr)
		equal(t, "the memory in use while there is a handle", before-free(d), granularity)
	}
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	d.OK("cuMemSetAccess", ptr, granularity, &openTo0, 1)
	d.Holds(ptr, want)
	d.OK("cuMemUnmap", ptr, granularity)
	d.OK("cuMemRelease", handle)
	equal(t, "the free memory at the end", free(d), before)
}

// cuMemMap and cuMemUnmap.
func TestMappingsLieWholeInReservations(t *testing.T) {
	const g = uint64(granularity)
	d := gpusimtest.Start(t)
	handle := create(t, d, 2*granularity)
	ptr := d.New("cuMemAddressReserve", 4*g, 8*g, 0, 0)
	equal(t, "the rest of the aligned address", ptr%(8*g), 0)
	const invalid = gpusimtest.InvalidValue
	try(t, d, []attempt{
		{"no whole pages", invalid, "cuMemAddressReserve", []any{new(uint64), g + 1, 0, 0, 0}},
		{"no power of two", invalid, "cuMemAddressReserve", []any{new(uint64), g, 3, 0, 0}},
		{"before the reservation", invalid, "cuMemMap", []any{ptr - g, g, 0, handle, 0}},
		{"beyond its end", invalid, "cuMemMap", []any{ptr + 3*g, 2 * g, 0, handle, 0}},
		{"no multiple of the granularity", invalid, "cuMemMap", []any{ptr, 4096, 0, handle, 0}},
		{"an address between", invalid, "cuMemMap", []any{ptr + 4096, g, 0, handle, 0}},
		{"more than the memory", invalid, "cuMemMap", []any{ptr, 4 * g, 0, handle, 0}},
		{"an offset, which must be zero", invalid, "cuMemMap", []any{ptr, g, g, handle, 0}},
		{"no bytes", invalid, "cuMemMap", []any{ptr, 0, 0, handle, 0}},
		{"the first two", 0, "cuMemMap", []any{ptr, 2 * g, 0, handle, 0}},
		{"one of them again", invalid, "cuMemMap", []any{ptr + g, g, 0, handle, 0}},
		{"the third", 0, "cuMemMap", []any{ptr + 2*g, g, 0, handle, 0}},
		{"the first half of a mapping", invalid, "cuMemUnmap", []any{ptr, g}},
		{"the second half", invalid, "cuMemUnmap", []any{ptr + g, g}},
		{"more than is mapped", invalid, "cuMemUnmap", []any{ptr, 4 * g}},
		{"addresses that are in use", invalid, "cuMemAddressFree", []any{ptr, 4 * g}},
	})
	d.Noted()
	try(t, d, []attempt{
		{"all that is mapped", 0, "cuMemUnmap", []any{ptr, 3 * g}},
		{"a part of the reservation", invalid, "cuMemAddressFree", []any{ptr, g}},
		{"its end", invalid, "cuMemAddressFree", []any{ptr + g, 3 * g}},
		{"the reservation", 0, "cuMemAddressFree", []any{ptr, 4 * g}},
	})
}

// cuMemMap "does not make the address accessible"; cuMemSetAccess does.
func TestAccessIsGivenByDevice(t *testing.T) {
	d := gpusimtest.Start(t)
	handle, ptr, data := create(t, d, granularity), reserve(t, d, granularity), make([]byte, 64)
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	expect := func(at location, want uint64) {
		t.Helper()
		equal(t, "the access", d.New("cuMemGetAccess", &at, ptr), want)
	}
	expect(device0, 0)
	d.Illegal("cuMemcpyDtoH_v2", &data[0], ptr, len(data))
	try(t, d, []attempt{
		{"no such device", gpusimtest.InvalidDevice, "cuMemSetAccess", []any{ptr, granularity, &access{location{1, 99}, readWrite}, 1}},
		{"the host", gpusimtest.NotSupported, "cuMemSetAccess", []any{ptr, granularity, &access{location{kind: 2}, readWrite}, 1}},
		{"write only", gpusimtest.InvalidValue, "cuMemSetAccess", []any{ptr, granularity, &access{device0, 2}, 1}},
		{"a part of a mapping", gpusimtest.InvalidValue, "cuMemSetAccess", []any{ptr, granularity / 2, &openTo0, 1}},
		{"more than is mapped", gpusimtest.InvalidValue, "cuMemSetAccess", []any{ptr, 2 * granularity, &openTo0, 1}},
		{"nobody", gpusimtest.InvalidValue, "cuMemSetAccess", []any{ptr, granularity, nil, 0}},
	})
	d.OK("cuMemSetAccess", ptr, granularity, &[2]access{openTo0, {device1, readOnly}}, 2)
	expect(device0, readWrite)
	expect(device1, readOnly)
	d.Write(ptr, data)
	d.Retain(1)
	d.Holds(ptr, data)
	d.Illegal("cuMemcpyHtoD_v2", ptr, &data[0], len(data))
	d.OK("cuMemSetAccess", ptr, granularity, &access{device1, 0}, 1)
	expect(device1, 0)
	d.Illegal("cuMemcpyDtoH_v2", &data[0], ptr, len(data))

	// "all mappings start with no accessibility setup"
	d.OK("cuMemUnmap", ptr, granularity)
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	expect(device0, 0)
	d.OK("cuMemUnmap", ptr, granularity)
}

// cuMemExportToShareableHandle, cuMemImportFromShareableHandle: the exporter and the importer share memory, and the
// descriptor stays the caller's. Only what was made for it is exported.
func TestMemoryIsSharedByDescriptors(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, granularity)
	ptr := mapping(t, d, handle, granularity)
	d.Write(ptr, gpusimtest.Pattern(7, granularity))
	fd := export(d, handle)
	imported := d.New("cuMemImportFromShareableHandle", fd, posixFD)
	if err := unix.Close(fd); err != nil {
		t.Errorf("the descriptor is not the caller's any more: %v", err)
	}
	other := mapping(t, d, imported, granularity)
	d.OK("cuMemRelease", imported)
	d.Holds(other, gpusimtest.Pattern(7, granularity))
	d.Write(other, gpusimtest.Pattern(9, 100))
	d.Holds(ptr, gpusimtest.Pattern(9, 100))

	private := createAs(t, d, granularity, &properties{kind: 1, at: device0})
	null := open(t, os.DevNull)
	try(t, d, []attempt{
		{"private memory", gpusimtest.InvalidValue, "cuMemExportToShareableHandle", []any{new(int32), private, posixFD, 0}},
		{"a handle of Windows", gpusimtest.InvalidValue, "cuMemExportToShareableHandle", []any{new(int32), private, 2, 0}},
		{"no descriptor", gpusimtest.InvalidValue, "cuMemImportFromShareableHandle", []any{&imported, -1, posixFD}},
		{"a device", gpusimtest.InvalidValue, "cuMemImportFromShareableHandle", []any{&imported, null, posixFD}},
	})
}

// cuMemUnmap does not wait: work that comes too late fails when it runs.
func TestWorkThatComesAfterItsMappingFails(t *testing.T) {
	d := gpusimtest.Start(t)
	handle, ptr, stream := create(t, d, granularity), reserve(t, d, granularity), d.New("cuStreamCreate", 1)
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	d.OK("cuMemSetAccess", ptr, granularity, &openTo0, 1)
	release := d.Hold()
	fill(d, ptr, 1, granularity, stream)
	d.OK("cuMemUnmap", ptr, granularity)
	release()
	d.WantMisuse(gpusimtest.IllegalAddress, "cuStreamSynchronize", stream)
	d.OK("cuStreamDestroy_v2", stream)
}

// "Memory Management", cuMemGetHandleForAddressRange.
func TestADMABufIsTheMemory(t *testing.T) {
	const supported, rdma = 124, 110 // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, _GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
	const variable = "DLX_GPUSIM_DMA_BUF"
	d := gpusimtest.Start(t)
	has := [2]int32{attribute(d, supported), attribute(d, rdma)}
	capable := &properties{kind: 1, at: device0, rdma: 1}
	fd := int32(-1)
	if os.Getenv(variable) == "0" {
		equal(t, "the attributes", has, [2]int32{0, 0})
		d.Want(gpusimtest.NotSupported, "cuMemCreate", new(uint64), granularity, capable, 0)
		ptr := mapping(t, d, create(t, d, granularity), granularity)
		d.Want(gpusimtest.NotSupported, "cuMemGetHandleForAddressRange", &fd, ptr, granularity, 1, 0)
		return
	}
	coretest.Child(t, t.Name(), variable+"=0")(t)
	equal(t, "the attributes", has, [2]int32{1, 1})
	ptr := mapping(t, d, createAs(t, d, 2*granularity, capable), 2*granularity)
	plain := mapping(t, d, create(t, d, granularity), granularity)
	const call, invalid = "cuMemGetHandleForAddressRange", gpusimtest.InvalidValue
	try(t, d, []attempt{
		{"no address of a page", invalid, call, []any{&fd, ptr + 1, granularity, 1, 0}},
		{"no size of pages", invalid, call, []any{&fd, ptr, granularity + 1, 1, 0}},
		{"no bytes", invalid, call, []any{&fd, ptr, 0, 1, 0}},
		{"another type", invalid, call, []any{&fd, ptr, granularity, 2, 0}},
		{"flags", invalid, call, []any{&fd, ptr, granularity, 1, 1 << 40}},
		{"more than is mapped", invalid, call, []any{&fd, ptr, 3 * granularity, 1, 0}},
		{"nowhere for the result", invalid, call, []any{nil, ptr, granularity, 1, 0}},
		{"memory without dma-bufs", gpusimtest.NotSupported, call, []any{&fd, plain, granularity, 1, 0}},
	})
	d.OK("cuMemGetHandleForAddressRange", &fd, ptr, 2*granularity, 1, 0)
	defer func() { _ = unix.Close(int(fd)) }()
	if size, err := unix.Seek(int(fd), 0, unix.SEEK_END); err != nil || size != 2*granularity {
		t.Errorf("the dma-buf has %d bytes, error %v", size, err)
	}
	d.Write(ptr, gpusimtest.Pattern(3, 100))
	view := mapFile(t, int(fd), 0, 2*granularity)
	if !bytes.Equal(view[:100], gpusimtest.Pattern(3, 100)) {
		t.Error("the dma-buf has other bytes than the memory")
	}
	copy(view, gpusimtest.Pattern(4, 100))
	d.Holds(ptr, gpusimtest.Pattern(4, 100))
	d.Want(invalid, "cuMemImportFromShareableHandle", new(uint64), fd, posixFD)
}
