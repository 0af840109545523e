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
)

// pinned describes memory of device 0 that can be exported.
func pinned() *properties {
	return &properties{kind: 1, handles: posixFD, at: location{kind: 1}}
}

// mapping maps a handle at a new reservation and opens it to device 0. Its end undoes all
// but the handle.
func mapping(t *testing.T, d *gpusimtest.Driver, handle uint64, size int) (ptr uint64) {
	t.Helper()
	d.OK("cuMemAddressReserve", &ptr, size, 0, 0, 0)
	d.OK("cuMemMap", ptr, size, 0, handle, 0)
	d.OK("cuMemSetAccess", ptr, size, &access{location{kind: 1}, readWrite}, 1)
	t.Cleanup(func() {
		d.OK("cuMemUnmap", ptr, size)
		d.OK("cuMemAddressFree", ptr, size)
	})
	return ptr
}

// create makes memory that is released when the test ends.
func create(t *testing.T, d *gpusimtest.Driver, size int) (handle uint64) {
	t.Helper()
	d.OK("cuMemCreate", &handle, size, pinned(), 0)
	t.Cleanup(func() { d.OK("cuMemRelease", handle) })
	return handle
}

// "Virtual Memory Management", cuMemCreate.
func TestMemoryIsCreatedOnlyAsTheDeviceCan(t *testing.T) {
	d := gpusimtest.Start(t)
	var minimum, recommended uint64
	d.OK("cuMemGetAllocationGranularity", &minimum, pinned(), 0)
	d.OK("cuMemGetAllocationGranularity", &recommended, pinned(), 1)
	if minimum != granularity || recommended%minimum != 0 {
		t.Errorf("the granularity is %d, recommended %d", minimum, recommended)
	}
	for _, c := range []struct {
		name   string
		size   uint64
		change func(*properties)
		flags  int
		want   gpusimtest.Result
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
	} {
		d.Run(t, c.name, func(t *testing.T, d *gpusimtest.Driver) {
			p := pinned()
			if c.change != nil {
				c.change(p)
			}
			var handle uint64
			d.Want(c.want, "cuMemCreate", &handle, c.size, p, c.flags)
		})
	}
}

// hostNUMA is CU_MEM_LOCATION_TYPE_HOST_NUMA.
const hostNUMA = 3

// "To create a CPU allocation targeting a specific host NUMA node"; CU_POINTER_ATTRIBUTE_HOST_POINTER needs an address
// "through which the host program may directly access ptr", and only the device was given access.
func TestMemoryOfTheHostIsMappedForADevice(t *testing.T) {
	d := gpusimtest.Start(t)
	var handle, value uint64
	var before, free, total uint64
	d.OK("cuMemGetInfo_v2", &before, &total)
	d.OK("cuMemCreate", &handle, granularity, &properties{kind: 1, at: location{kind: hostNUMA}}, 0)
	t.Cleanup(func() { d.OK("cuMemRelease", handle) })
	d.OK("cuMemGetInfo_v2", &free, &total)
	if free != before {
		t.Errorf("memory of the host takes %d bytes of the device", before-free)
	}
	ptr := mapping(t, d, handle, granularity)
	for attribute, want := range map[int]uint64{pointerContext: 0, pointerType: onHost, pointerDevice: ptr + 3, pointerManaged: 0} {
		if got := known(d, attribute, ptr+3); got != want {
			t.Errorf("attribute %d is %#x, want %#x", attribute, got, want)
		}
	}
	for _, attribute := range []int{pointerHost, pointerOrdinal} {
		d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", &value, attribute, ptr)
	}
	want := gpusimtest.Pattern(1, 100)
	d.Write(ptr, want)
	d.Holds(ptr, want)
}

// CUmemAllocationProp: compression is a hint.
func TestAWishForCompressionIsNoFailure(t *testing.T) {
	d := gpusimtest.Start(t)
	wish := pinned()
	wish.compression = 1
	var handle uint64
	d.OK("cuMemCreate", &handle, granularity, wish, 0)
	d.OK("cuMemRelease", handle)
}

// cuMemRelease: "The memory allocation will be freed when all outstanding mappings to the
// memory are unmapped and when all outstanding references to the handle are also released."
func TestMemoryLivesAsLongAsItsMappingsAndHandles(t *testing.T) {
	d := gpusimtest.Start(t)
	free := func() (n uint64) {
		var total uint64
		d.OK("cuMemGetInfo_v2", &n, &total)
		return n
	}
	before := free()
	var handle, again, ptr uint64
	d.OK("cuMemCreate", &handle, granularity, pinned(), 0)
	d.OK("cuMemAddressReserve", &ptr, granularity, 0, 0, 0)
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	d.OK("cuMemSetAccess", ptr, granularity, &access{location{kind: 1}, readWrite}, 1)
	want := gpusimtest.Pattern(1, 4096)
	d.Write(ptr, want)

	d.OK("cuMemRelease", handle)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemRelease", handle)
	d.Holds(ptr, want)
	if n := free(); before-n != granularity {
		t.Errorf("%d bytes are used while the memory is mapped, want %d", before-n, granularity)
	}

	d.OK("cuMemRetainAllocationHandle", &again, ptr+4096)
	if again != handle {
		t.Errorf("the handle of the mapping is %#x, want the one that was mapped, %#x", again, handle)
	}
	d.OK("cuMemUnmap", ptr, granularity)
	d.Want(gpusimtest.InvalidValue, "cuMemRetainAllocationHandle", &again, ptr)
	if n := free(); before-n != granularity {
		t.Errorf("%d bytes are used while there is a handle, want %d", before-n, granularity)
	}
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	d.OK("cuMemSetAccess", ptr, granularity, &access{location{kind: 1}, readWrite}, 1)
	d.Holds(ptr, want)
	d.OK("cuMemUnmap", ptr, granularity)
	d.OK("cuMemRelease", handle)
	d.OK("cuMemAddressFree", ptr, granularity)
	if n := free(); n != before {
		t.Errorf("%d bytes are used at the end", before-n)
	}
}

// cuMemMap and cuMemUnmap.
func TestMappingsLieWholeInReservations(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, 2*granularity)
	var ptr uint64
	d.Want(gpusimtest.InvalidValue, "cuMemAddressReserve", &ptr, granularity+1, 0, 0, 0)
	d.Want(gpusimtest.InvalidValue, "cuMemAddressReserve", &ptr, granularity, 3, 0, 0)
	d.OK("cuMemAddressReserve", &ptr, 4*granularity, 8*granularity, 0, 0)
	if ptr%(8*granularity) != 0 {
		t.Errorf("the reservation begins at %#x, which is not aligned as asked for", ptr)
	}
	for _, c := range []struct {
		name             string
		at, size, offset uint64
	}{
		{"before the reservation", ptr - granularity, granularity, 0},
		{"beyond its end", ptr + 3*granularity, 2 * granularity, 0},
		{"no multiple of the granularity", ptr, 4096, 0},
		{"an address between", ptr + 4096, granularity, 0},
		{"more than the memory", ptr, 4 * granularity, 0},
		{"an offset, which must be zero", ptr, granularity, granularity},
		{"no bytes", ptr, 0, 0},
	} {
		d.Run(t, c.name, func(_ *testing.T, d *gpusimtest.Driver) {
			d.Want(gpusimtest.InvalidValue, "cuMemMap", c.at, c.size, c.offset, handle, 0)
		})
	}
	d.OK("cuMemMap", ptr, 2*granularity, 0, handle, 0)
	d.Want(gpusimtest.InvalidValue, "cuMemMap", ptr+granularity, granularity, 0, handle, 0)
	d.OK("cuMemMap", ptr+2*granularity, granularity, 0, handle, 0)

	d.Want(gpusimtest.InvalidValue, "cuMemUnmap", ptr, granularity)
	d.Want(gpusimtest.InvalidValue, "cuMemUnmap", ptr+granularity, granularity)
	d.Want(gpusimtest.InvalidValue, "cuMemUnmap", ptr, 4*granularity)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemAddressFree", ptr, 4*granularity)
	d.OK("cuMemUnmap", ptr, 3*granularity)
	d.Want(gpusimtest.InvalidValue, "cuMemAddressFree", ptr, granularity)
	d.Want(gpusimtest.InvalidValue, "cuMemAddressFree", ptr+granularity, 3*granularity)
	d.OK("cuMemAddressFree", ptr, 4*granularity)
}

// cuMemMap "does not make the address accessible"; cuMemSetAccess does.
func TestAccessIsGivenByDevice(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, granularity)
	var ptr, flags uint64
	d.OK("cuMemAddressReserve", &ptr, granularity, 0, 0, 0)
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	first, second := location{kind: 1}, location{kind: 1, id: 1}
	data := make([]byte, 64)
	expect := func(at location, want uint64) {
		t.Helper()
		d.OK("cuMemGetAccess", &flags, &at, ptr)
		if flags != want {
			t.Errorf("device %d has access %d, want %d", at.id, flags, want)
		}
	}
	expect(first, 0)
	d.Illegal("cuMemcpyDtoH_v2", &data[0], ptr, len(data))

	d.Want(gpusimtest.InvalidDevice, "cuMemSetAccess", ptr, granularity, &access{location{kind: 1, id: 99}, readWrite}, 1)
	d.Want(gpusimtest.NotSupported, "cuMemSetAccess", ptr, granularity, &access{location{kind: 2}, readWrite}, 1)
	d.Want(gpusimtest.InvalidValue, "cuMemSetAccess", ptr, granularity, &access{first, 2}, 1)
	d.Want(gpusimtest.InvalidValue, "cuMemSetAccess", ptr, granularity/2, &access{first, readWrite}, 1)
	d.Want(gpusimtest.InvalidValue, "cuMemSetAccess", ptr, 2*granularity, &access{first, readWrite}, 1)
	d.Want(gpusimtest.InvalidValue, "cuMemSetAccess", ptr, granularity, nil, 0)

	d.OK("cuMemSetAccess", ptr, granularity, &[2]access{{first, readWrite}, {second, readOnly}}, 2)
	expect(first, readWrite)
	expect(second, readOnly)
	d.Write(ptr, data)
	d.Retain(1)
	d.Holds(ptr, data)
	d.Illegal("cuMemcpyHtoD_v2", ptr, &data[0], len(data))
	d.OK("cuMemSetAccess", ptr, granularity, &access{second, 0}, 1)
	expect(second, 0)
	d.Illegal("cuMemcpyDtoH_v2", &data[0], ptr, len(data))

	// "all mappings start with no accessibility setup"
	d.OK("cuMemUnmap", ptr, granularity)
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	expect(first, 0)
	d.OK("cuMemUnmap", ptr, granularity)
	d.OK("cuMemAddressFree", ptr, granularity)
}

// cuMemExportToShareableHandle, cuMemImportFromShareableHandle.
func TestTheExporterAndTheImporterOfADescriptorShareMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, granularity)
	ptr := mapping(t, d, handle, granularity)
	want := gpusimtest.Pattern(7, granularity)
	d.Write(ptr, want)

	var fd int32
	d.OK("cuMemExportToShareableHandle", &fd, handle, posixFD, 0)
	var imported uint64
	d.OK("cuMemImportFromShareableHandle", &imported, fd, posixFD)
	if err := unix.Close(int(fd)); err != nil {
		t.Errorf("the descriptor is not the caller's any more: %v", err)
	}
	other := mapping(t, d, imported, granularity)
	d.OK("cuMemRelease", imported)
	d.Holds(other, want)
	change := gpusimtest.Pattern(9, 100)
	d.Write(other, change)
	d.Holds(ptr, change)
}

func TestOnlyWhatWasMadeForItIsExported(t *testing.T) {
	d := gpusimtest.Start(t)
	private := pinned()
	private.handles = 0
	var handle, imported uint64
	fd := int32(-1)
	d.OK("cuMemCreate", &handle, granularity, private, 0)
	d.Want(gpusimtest.InvalidValue, "cuMemExportToShareableHandle", &fd, handle, posixFD, 0)
	d.Want(gpusimtest.InvalidValue, "cuMemExportToShareableHandle", &fd, handle, 2, 0)
	d.OK("cuMemRelease", handle)
	d.Want(gpusimtest.InvalidValue, "cuMemImportFromShareableHandle", &imported, -1, posixFD)
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	d.Want(gpusimtest.InvalidValue, "cuMemImportFromShareableHandle", &imported, int(null.Fd()), posixFD)
}

// cuMemUnmap does not wait: work that comes too late fails when it runs.
func TestWorkThatComesAfterItsMappingFails(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, granularity)
	var ptr, stream uint64
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuMemAddressReserve", &ptr, granularity, 0, 0, 0)
	d.OK("cuMemMap", ptr, granularity, 0, handle, 0)
	d.OK("cuMemSetAccess", ptr, granularity, &access{location{kind: 1}, readWrite}, 1)
	d.Call("dlx_gpusim_hold", 1)
	d.OK("cuMemsetD8Async", ptr, 1, granularity, stream)
	d.OK("cuMemUnmap", ptr, granularity)
	d.OK("cuMemAddressFree", ptr, granularity)
	d.Call("dlx_gpusim_hold", 0)
	d.WantMisuse(gpusimtest.IllegalAddress, "cuStreamSynchronize", stream)
	d.OK("cuStreamDestroy_v2", stream)
}

// "Memory Management", cuMemGetHandleForAddressRange.
func TestADMABufIsTheMemory(t *testing.T) {
	const supported, rdma = 124, 110 // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, _GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
	d := gpusimtest.Start(t)
	has := make([]int32, 2)
	d.OK("cuDeviceGetAttribute", &has[0], supported, 0)
	d.OK("cuDeviceGetAttribute", &has[1], rdma, 0)
	capable := &properties{kind: 1, at: location{kind: 1}, rdma: 1}
	var handle uint64
	fd := int32(-1)
	if os.Getenv(dmaBufVariable) == "0" {
		if has[0] != 0 || has[1] != 0 {
			t.Errorf("the attributes are %d, want 0", has)
		}
		d.Want(gpusimtest.NotSupported, "cuMemCreate", &handle, granularity, capable, 0)
		ptr := mapping(t, d, create(t, d, granularity), granularity)
		d.Want(gpusimtest.NotSupported, "cuMemGetHandleForAddressRange", &fd, ptr, granularity, 1, 0)
		return
	}
	coretest.Child(t, t.Name(), dmaBufVariable+"=0")(t)
	if has[0] != 1 || has[1] != 1 {
		t.Errorf("the attributes are %d, want 1", has)
	}
	d.OK("cuMemCreate", &handle, 2*granularity, capable, 0)
	t.Cleanup(func() { d.OK("cuMemRelease", handle) })
	ptr := mapping(t, d, handle, 2*granularity)
	for why, args := range map[string][]any{
		"no address of a page": {&fd, ptr + 1, granularity, 1, 0}, "no size of pages": {&fd, ptr, granularity + 1, 1, 0},
		"no bytes": {&fd, ptr, 0, 1, 0}, "another type": {&fd, ptr, granularity, 2, 0}, "flags": {&fd, ptr, granularity, 1, 1 << 40},
		"more than is mapped": {&fd, ptr, 3 * granularity, 1, 0}, "nowhere for the result": {nil, ptr, granularity, 1, 0},
	} {
		if r := d.Result("cuMemGetHandleForAddressRange", args...); r != gpusimtest.InvalidValue {
			t.Errorf("%s: %d, want %d", why, r, gpusimtest.InvalidValue)
		}
	}
	plain := mapping(t, d, create(t, d, granularity), granularity)
	d.Want(gpusimtest.NotSupported, "cuMemGetHandleForAddressRange", &fd, plain, granularity, 1, 0)

	d.OK("cuMemGetHandleForAddressRange", &fd, ptr, 2*granularity, 1, 0)
	defer func() { _ = unix.Close(int(fd)) }()
	if size, err := unix.Seek(int(fd), 0, unix.SEEK_END); err != nil || size != 2*granularity {
		t.Errorf("the dma-buf has %d bytes, error %v", size, err)
	}
	want := gpusimtest.Pattern(3, 100)
	d.Write(ptr, want)
	view, err := unix.Mmap(int(fd), 0, 2*granularity, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(view) }()
	if !bytes.Equal(view[:100], want) {
		t.Error("the dma-buf has other bytes than the memory")
	}
	change := gpusimtest.Pattern(4, 100)
	copy(view, change)
	d.Holds(ptr, change)
	var imported uint64
	d.Want(gpusimtest.InvalidValue, "cuMemImportFromShareableHandle", &imported, fd, posixFD)
}

// dmaBufVariable says whether the devices export dma-bufs.
const dmaBufVariable = "DLX_GPUSIM_DMA_BUF"
