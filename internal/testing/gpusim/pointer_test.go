//go:build linux && cgo

package gpusim_test

import (
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// Of CUpointer_attribute and CUmemorytype.
const (
	pointerContext, pointerType, pointerDevice, pointerHost = 1, 2, 3, 4
	pointerManaged, pointerOrdinal                          = 8, 9
	pointerStart, pointerSize, pointerMapped                = 11, 12, 13

	onHost   = 1
	onDevice = 2
)

// known is an attribute of an address.
func known(d *gpusimtest.Driver, attribute int, at uint64) (value uint64) {
	d.OK("cuPointerGetAttribute", &value, attribute, at)
	return value
}

// "Unified Addressing", cuPointerGetAttribute.
func TestWhatIsKnownOfAnAddress(t *testing.T) {
	d := gpusimtest.Start(t)
	device := memory(t, d, page)
	var locked, managed uint64
	ctx := d.Context()
	d.OK("cuMemHostAlloc", &locked, page, 0)
	d.OK("cuMemAllocManaged", &managed, page, 1)
	for _, c := range []struct {
		name          string
		at            uint64
		kind, managed uint64
	}{{"device", device, onDevice, 0}, {"pinned", locked, onHost, 0}, {"managed", managed, onDevice, 1}} {
		d.Run(t, c.name, func(t *testing.T, d *gpusimtest.Driver) {
			for attribute, want := range map[int]uint64{
				pointerContext: ctx, pointerType: c.kind, pointerDevice: c.at + 7, pointerManaged: c.managed, pointerOrdinal: 0,
				pointerStart: c.at, pointerSize: page, pointerMapped: 1,
			} {
				if got := known(d, attribute, c.at+7); got != want {
					t.Errorf("attribute %d is %#x, want %#x", attribute, got, want)
				}
			}
		})
	}
	var value uint64
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", &value, pointerHost, device)
	if got := known(d, pointerHost, managed+1); got != managed+1 {
		t.Errorf("the host finds managed memory at %#x", got)
	}
	d.OK("cuMemFreeHost", locked)
	d.OK("cuMemFree_v2", managed)
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", &value, pointerType, managed)
}

// cuPointerGetAttributes "will not return an error when the ptr encountered is not a valid CUDA pointer. Instead, the
// attributes are assigned default NULL values"; cuPointerGetAttribute returns CUDA_ERROR_INVALID_VALUE.
func TestMemoryThatTheDriverNeverSawHasNoAttributes(t *testing.T) {
	d := gpusimtest.Start(t)
	host := make([]byte, 1)
	at := uint64(uintptr(unsafe.Pointer(&host[0])))
	names := [2]int32{pointerType, pointerStart}
	kind, start := uint64(1), uint64(1)
	values := [2]uintptr{uintptr(unsafe.Pointer(&kind)), uintptr(unsafe.Pointer(&start))}
	d.OK("cuPointerGetAttributes", len(names), &names[0], &values[0], at)
	if kind != 0 || start != 0 {
		t.Errorf("the type is %d, the start %#x", kind, start)
	}
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", &kind, pointerType, at)
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttributes", len(names), nil, &values[0], at)
}

// CU_POINTER_ATTRIBUTE_DEVICE_POINTER: through which "kernels running in the current CUcontext" may access it;
// CUDA_ERROR_INVALID_CONTEXT where there is none.
func TestADevicePointerIsForTheCurrentContext(t *testing.T) {
	d := gpusimtest.Start(t)
	near := memory(t, d, 1)
	d.Run(t, "no context", func(_ *testing.T, d *gpusimtest.Driver) {
		var ctx, at uint64
		d.OK("cuCtxPopCurrent_v2", &ctx)
		d.Want(gpusimtest.InvalidContext, "cuPointerGetAttribute", &at, pointerDevice, near)
		d.OK("cuCtxPushCurrent_v2", ctx)
	})
	push(t, d, 1)
	var at uint64
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", &at, pointerDevice, near)
}

// CU_POINTER_ATTRIBUTE_RANGE_START_ADDR is "not necessarily the address of the mapped region, but the address of the
// mappable address range"; "To retrieve the size of the mapped region, see cuMemGetAddressRange".
func TestMappedMemoryTellsOfItsReservation(t *testing.T) {
	d := gpusimtest.Start(t)
	handle := create(t, d, granularity)
	var ptr, base, size, value uint64
	d.OK("cuMemAddressReserve", &ptr, 3*granularity, 0, 0, 0)
	mapped := ptr + granularity
	d.OK("cuMemMap", mapped, granularity, 0, handle, 0)
	for at, isMapped := range map[uint64]uint64{ptr + 5: 0, mapped + 5: 1} {
		if start, n := known(d, pointerStart, at), known(d, pointerSize, at); start != ptr || n != 3*granularity {
			t.Errorf("%#x is of [%#x, +%d)", at, start, n)
		}
		if m := known(d, pointerMapped, at); m != isMapped {
			t.Errorf("%#x: mapped is %d", at, m)
		}
	}
	d.OK("cuMemGetAddressRange_v2", &base, &size, mapped+5)
	if base != mapped || size != granularity {
		t.Errorf("the mapped region is [%#x, +%d)", base, size)
	}
	d.Want(gpusimtest.InvalidValue, "cuPointerGetAttribute", &value, pointerType, ptr)
	d.Want(gpusimtest.NotFound, "cuMemGetAddressRange_v2", &base, &size, ptr)
	d.OK("cuMemUnmap", mapped, granularity)
	d.OK("cuMemAddressFree", ptr, 3*granularity)
}

// cuMemGetAddressRange is for an "allocation by cuMemAlloc() or cuMemAllocPitch()"; both results are optional.
func TestAddressRangesAreThoseOfDeviceMemory(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, page)
	var base, size uint64
	d.OK("cuMemGetAddressRange_v2", &base, &size, ptr+page-1)
	if base != ptr || size != page {
		t.Errorf("the range is [%#x, +%d)", base, size)
	}
	d.OK("cuMemGetAddressRange_v2", nil, nil, ptr)
	d.Want(gpusimtest.NotFound, "cuMemGetAddressRange_v2", &base, &size, ptr+page)
	locked := d.Pinned(1)
	d.Want(gpusimtest.NotFound, "cuMemGetAddressRange_v2", &base, &size, uint64(uintptr(unsafe.Pointer(&locked[0]))))
	var pooled uint64
	d.OK("cuMemAllocAsync", &pooled, page, legacy)
	d.Want(gpusimtest.NotFound, "cuMemGetAddressRange_v2", &base, &size, pooled)
	d.OK("cuMemFree_v2", pooled)
	d.OK("cuCtxSynchronize") // the pool gives it back
}
