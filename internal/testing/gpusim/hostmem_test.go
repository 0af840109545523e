//go:build linux && cgo

package gpusim_test

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// Of cuMemHostRegister and cuMemHostAlloc.
const (
	portable, deviceMap = 1, 2
	readOnlyMemory      = 8

	alreadyRegistered result = 712
	notRegistered     result = 713
)

// Of CUpointer_attribute and CUmemorytype.
const (
	pointerContext, pointerType, pointerDevice, pointerHost = 1, 2, 3, 4
	pointerManaged, pointerOrdinal                          = 8, 9
	pointerStart, pointerSize, pointerMapped                = 11, 12, 13

	onHost   = 1
	onDevice = 2
)

// pages is memory of the host, n pages, that no other test has.
func pages(t *testing.T, n, protection int) []byte {
	t.Helper()
	data, err := unix.Mmap(-1, 0, n*page, protection, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data
}

// known is an attribute of an address.
func known(d *driver, attribute int, at uint64) uint64 {
	return d.New("cuPointerGetAttribute", attribute, at)
}

// wantKnown fails unless an address has attributes.
func wantKnown(t *testing.T, d *driver, at uint64, attributes map[int]uint64) {
	t.Helper()
	for attribute, want := range attributes {
		if got := known(d, attribute, at); got != want {
			t.Errorf("attribute %d of %#x is %#x, want %#x", attribute, at, got, want)
		}
	}
}

// cuMemHostRegister, cuMemHostUnregister: memory is locked by pages, once.
func TestMemoryOfTheHostIsRegisteredOnce(t *testing.T) {
	const register, unregister, invalid = "cuMemHostRegister_v2", "cuMemHostUnregister", gpusimtest.InvalidValue
	d := gpusimtest.Start(t)
	data, fixed := pages(t, 4, unix.PROT_READ|unix.PROT_WRITE), pages(t, 1, unix.PROT_READ)
	first, part := &data[0], &data[page+100]
	try(t, d, []attempt{
		{"a part of two pages", 0, register, []any{part, page, 0}},
		{"the same", alreadyRegistered, register, []any{part, page, 0}},
		{"a part", alreadyRegistered, register, []any{&data[page+200], 1, 0}},
		{"all around it", alreadyRegistered, register, []any{first, 4 * page, 0}},
		{"a page of it", alreadyRegistered, register, []any{&data[page], 100, 0}},
		{"no bytes", invalid, register, []any{first, 0, 0}},
		{"all memory", invalid, register, []any{first, uint64(1 << 63), 0}},
		{"flags that nobody knows", invalid, register, []any{first, page, 64}},
		{"read-only, which is not supported", gpusimtest.NotSupported, register, []any{first, page, readOnlyMemory}},
		{"memory that cannot be written", invalid, register, []any{&fixed[0], page, 0}},
		{"not its begin", notRegistered, unregister, []any{&data[page]}},
		{"the page before", 0, register, []any{first, page, 0}},
		{"the page before", 0, unregister, []any{first}},
		{"the part", 0, unregister, []any{part}},
		{"the part again", notRegistered, unregister, []any{part}},
	})
}

// CU_MEMHOSTREGISTER_READ_ONLY: "this flag is required in order to register memory mapped to the CPU as read-only";
// CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED says where it is supported.
func TestReadOnlyMemoryOfTheHostIsRegisteredAsSuch(t *testing.T) {
	const supported = 113
	d := gpusimtest.Start(t)
	if runAlone(t, "DLX_GPUSIM_READ_ONLY_HOST=1") {
		equal(t, "the attribute", attribute(d, supported), 0)
		return
	}
	equal(t, "the attribute", attribute(d, supported), 1)
	fixed, data := pages(t, 1, unix.PROT_READ), pages(t, 1, unix.PROT_READ|unix.PROT_WRITE)
	d.Want(gpusimtest.InvalidValue, "cuMemHostRegister_v2", &fixed[0], page, deviceMap)
	d.OK("cuMemHostRegister_v2", &fixed[0], page, deviceMap|readOnlyMemory)
	d.OK("cuMemHostRegister_v2", &data[0], page, deviceMap|readOnlyMemory)
	data[1] = 7
	ptr, at := d.New("cuMemAlloc_v2", 2), d.New("cuMemHostGetDevicePointer_v2", &data[0], 0)
	d.OK("cuMemcpyDtoDAsync_v2", ptr, at, 2, legacy)
	d.Holds(ptr, []byte{0, 7})
	d.OK("cuMemcpyHtoD_v2", ptr, &fixed[0], 2)
	d.Holds(ptr, []byte{0, 0})
	d.OK("cuMemHostUnregister", &fixed[0])
	stream := d.New("cuStreamCreate", 1)
	fill(d, at, 1, 1, stream) // the device may only read it
	d.Illegal("cuStreamSynchronize", stream)
	equal(t, "memory that is read-only to the device", data[0], 0)
}

// CU_MEMHOSTREGISTER_PORTABLE: "considered as pinned memory by all CUDA contexts, not just the one that performed the
// allocation"; without it, it is pageable memory to others.
func TestRegisteredMemoryIsPinnedInItsContext(t *testing.T) {
	d := gpusimtest.Start(t)
	data := pages(t, 2, unix.PROT_READ|unix.PROT_WRITE)
	private, shared := data[:1], data[page:page+1]
	d.OK("cuMemHostRegister_v2", &private[0], 1, 0)
	d.OK("cuMemHostRegister_v2", &shared[0], 1, portable)
	d.Run(t, "another context", func(t *testing.T, d *driver) {
		push(t, d, 1)
		ptr, stream := memory(t, d, 2), d.NewStream()
		private[0], shared[0] = 1, 1
		d.Hold()
		d.OK("cuMemcpyAsync", ptr, &private[0], 1, stream)
		d.OK("cuMemcpyAsync", ptr+1, &shared[0], 1, stream)
		private[0], shared[0] = 2, 2
		d.OK("cuStreamSynchronize", stream)
		d.Holds(ptr, []byte{1, 2})
	})
	d.OK("cuMemHostUnregister", &private[0])
	d.OK("cuMemHostUnregister", &shared[0])
}

// cuMemHostGetDevicePointer "will fail if the CU_MEMHOSTALLOC_DEVICEMAP flag was not specified", which with unified
// addresses all allocations have; cuMemHostGetFlags is for "the pinned host buffer allocated by cuMemHostAlloc".
func TestMappedMemoryOfTheHostHasADevicePointer(t *testing.T) {
	const invalid = gpusimtest.InvalidValue
	d := gpusimtest.Start(t)
	data, locked := pages(t, 2, unix.PROT_READ|unix.PROT_WRITE), d.Pinned(page)
	d.OK("cuMemHostRegister_v2", &data[0], page, deviceMap)
	d.OK("cuMemHostRegister_v2", &data[page], page, 0)
	equal(t, "pinned memory, to a device", d.New("cuMemHostGetDevicePointer_v2", &locked[0], 0), addressOf(locked))
	fill(d, d.New("cuMemHostGetDevicePointer_v2", &data[0], 0), 7, 1, legacy)
	d.OK("cuStreamSynchronize", legacy)
	equal(t, "what the device wrote", data[0], 7)
	equal(t, "the flags", d.New("cuMemHostGetFlags", &locked[0]), deviceMap)
	try(t, d, []attempt{
		{"flags", invalid, "cuMemHostGetDevicePointer_v2", []any{new(uint64), &data[0], 1}},
		{"memory that is not mapped", invalid, "cuMemHostGetDevicePointer_v2", []any{new(uint64), &data[page], 0}},
		{"registered memory", invalid, "cuMemHostGetFlags", []any{new(uint64), &data[0]}},
		{"the first page", 0, "cuMemHostUnregister", []any{&data[0]}},
		{"the second page", 0, "cuMemHostUnregister", []any{&data[page]}},
	})
}

// CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0, so that for registered memory "there will exist
// separate, disjoint host and device addresses": the host's "will correspond to an invalid unmapped device address".
// Copies take both.
func TestRegisteredMemoryHasAnAddressForDevices(t *testing.T) {
	const canUseHostPointer = 91
	d := gpusimtest.Start(t)
	data := pages(t, 1, unix.PROT_READ|unix.PROT_WRITE)
	host := addressOf(data[8:])
	equal(t, "the attribute", attribute(d, canUseHostPointer), 0)
	d.OK("cuMemHostRegister_v2", &data[8], 64, deviceMap)
	device := known(d, pointerDevice, host+1) - 1
	if device == host {
		t.Errorf("the host and devices find it at %#x", host)
	}
	wantKnown(t, d, device+1, map[int]uint64{pointerHost: host + 1, pointerStart: device, pointerType: onHost})
	ptr, stream := d.New("cuMemAlloc_v2", 2), d.New("cuStreamCreate", 1)
	data[8] = 1
	d.OK("cuMemcpyHtoD_v2", ptr, host, 1)
	d.OK("cuMemcpyAsync", ptr+1, device, 1, legacy)
	d.Holds(ptr, []byte{1, 1})
	fill(d, host, 2, 1, stream)
	d.Illegal("cuStreamSynchronize", stream)
}

// No section says that cuMemFreeHost waits: work that comes too late fails.
func TestFreeingMemoryOfTheHostWaitsForNothing(t *testing.T) {
	d := gpusimtest.Start(t)
	stream, locked := d.New("cuStreamCreate", 1), d.New("cuMemHostAlloc", page, 0)
	release := d.Hold()
	fill(d, locked, 1, page, stream)
	d.OK("cuMemFreeHost", locked)
	release()
	d.Illegal("cuStreamSynchronize", stream)
}

// "Unified Addressing", cuPointerGetAttribute.
func TestWhatIsKnownOfAnAddress(t *testing.T) {
	d := gpusimtest.Start(t)
	locked, managed := d.Pinned(page), d.New("cuMemAllocManaged", page, 1)
	for _, c := range []struct{ at, kind, managed uint64 }{
		{memory(t, d, page), onDevice, 0}, {addressOf(locked), onHost, 0}, {managed, onDevice, 1},
	} {
		wantKnown(t, d, c.at+7, map[int]uint64{
			pointerContext: d.Context(), pointerType: c.kind, pointerDevice: c.at + 7, pointerManaged: c.managed,
			pointerOrdinal: 0, pointerStart: c.at, pointerSize: page, pointerMapped: 1,
		})
	}
	wantKnown(t, d, managed+1, map[int]uint64{pointerHost: managed + 1})
	d.OK("cuMemFree_v2", managed)
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", new(uint64), pointerType, managed)
}

// cuPointerGetAttributes "will not return an error when the ptr encountered is not a valid CUDA pointer. Instead, the
// attributes are assigned default NULL values"; cuPointerGetAttribute returns CUDA_ERROR_INVALID_VALUE.
func TestMemoryThatTheDriverNeverSawHasNoAttributes(t *testing.T) {
	d := gpusimtest.Start(t)
	at := addressOf(make([]byte, 1))
	names := [2]int32{pointerType, pointerStart}
	kind, start := uint64(1), uint64(1)
	values := [2]uintptr{uintptr(unsafe.Pointer(&kind)), uintptr(unsafe.Pointer(&start))}
	d.OK("cuPointerGetAttributes", len(names), &names[0], &values[0], at)
	equal(t, "the type and the start", [2]uint64{kind, start}, [2]uint64{0, 0})
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", &kind, pointerType, at)
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttributes", len(names), nil, &values[0], at)
}

// CU_POINTER_ATTRIBUTE_DEVICE_POINTER: through which "kernels running in the current CUcontext" may access it;
// CUDA_ERROR_INVALID_CONTEXT where there is none. CU_POINTER_ATTRIBUTE_HOST_POINTER is not for memory of a device.
func TestADevicePointerIsForTheCurrentContext(t *testing.T) {
	d := gpusimtest.Start(t)
	near := memory(t, d, 1)
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", new(uint64), pointerHost, near)
	d.Run(t, "no context", func(_ *testing.T, d *driver) {
		d.OK("cuCtxPopCurrent_v2", nil)
		d.Want(gpusimtest.InvalidContext, "cuPointerGetAttribute", new(uint64), pointerDevice, near)
		d.OK("cuCtxPushCurrent_v2", d.Context())
	})
	push(t, d, 1)
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", new(uint64), pointerDevice, near)
}

// CU_POINTER_ATTRIBUTE_RANGE_START_ADDR is "not necessarily the address of the mapped region, but the address of the
// mappable address range"; "To retrieve the size of the mapped region, see cuMemGetAddressRange". That is for an
// "allocation by cuMemAlloc() or cuMemAllocPitch()"; both results are optional.
func TestRangesOfAddresses(t *testing.T) {
	d := gpusimtest.Start(t)
	plain, ptr := memory(t, d, page), reserve(t, d, 3*granularity)
	mapped, locked, pooled := ptr+granularity, d.Pinned(1), d.New("cuMemAllocAsync", page, legacy)
	d.OK("cuMemMap", mapped, granularity, 0, create(t, d, granularity), 0)
	wantKnown(t, d, ptr+5, map[int]uint64{pointerStart: ptr, pointerSize: 3 * granularity, pointerMapped: 0})
	wantKnown(t, d, mapped+5, map[int]uint64{pointerStart: ptr, pointerSize: 3 * granularity, pointerMapped: 1})
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", new(uint64), pointerType, ptr)
	var base, size uint64
	d.OK("cuMemGetAddressRange_v2", &base, &size, mapped+5)
	equal(t, "the mapped region", [2]uint64{base, size}, [2]uint64{mapped, granularity})
	d.OK("cuMemGetAddressRange_v2", &base, &size, plain+page-1)
	equal(t, "the allocation", [2]uint64{base, size}, [2]uint64{plain, page})
	d.OK("cuMemGetAddressRange_v2", nil, nil, plain)
	for _, other := range []uint64{ptr, plain + page, addressOf(locked), pooled} {
		d.Want(gpusimtest.NotFound, "cuMemGetAddressRange_v2", &base, &size, other)
	}
	d.OK("cuMemUnmap", mapped, granularity)
	d.OK("cuMemFree_v2", pooled)
	d.OK("cuCtxSynchronize") // the pool gives it back
}
