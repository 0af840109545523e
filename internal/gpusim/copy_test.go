//go:build linux && cgo

package gpusim_test

import (
	"bytes"
	"math"
	"testing"

	"github.com/dlx-go/dlx/internal/gpusim/gpusimtest"
)

// "API synchronization behavior", Asynchronous, 1: pageable memory "will be copied to a staging buffer" before the
// call returns; pinned memory is read when the copy runs.
func TestPageableMemoryIsReadAtTheCallAndPinnedMemoryLate(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 2), d.NewStream()
	pageable, locked := []byte{1}, d.Pinned(1)
	locked[0] = 1
	hold(t, d)
	d.OK("cuMemcpyHtoDAsync_v2", ptr, &pageable[0], 1, stream)
	d.OK("cuMemcpyHtoDAsync_v2", ptr+1, &locked[0], 1, stream)
	pageable[0], locked[0] = 2, 2
	d.OK("cuStreamSynchronize", stream)
	wantByte(t, d, ptr, 1, "from pageable memory")
	wantByte(t, d, ptr+1, 2, "from pinned memory")
}

// "API synchronization behavior", Asynchronous, 2: to pageable memory "the function will return only once the copy
// has completed"; to pinned memory it may be fully asynchronous.
func TestACopyToPageableMemoryIsDoneAtItsReturn(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 1), d.NewStream()
	pageable, locked := make([]byte, 1), d.Pinned(1)
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 7, 1, stream)
	d.OK("cuMemcpyDtoHAsync_v2", &pageable[0], ptr, 1, stream)
	if pageable[0] != 7 {
		t.Error("the copy to pageable memory is not done")
	}
	d.OK("cuMemcpyDtoHAsync_v2", &locked[0], ptr, 1, stream)
	if locked[0] != 0 {
		t.Error("the copy to pinned memory is done")
	}
	d.OK("cuStreamSynchronize", stream)
	if locked[0] != 7 {
		t.Error("the copy to pinned memory is never done")
	}
}

// "API synchronization behavior", Synchronous, 4: between device memory "no host-side synchronization is performed";
// Memset: "asynchronous with respect to the host except when the target memory is pinned host memory".
func TestWhatStaysOnTheDeviceDoesNotWait(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 2)
	locked := d.Pinned(1)
	hold(t, d)
	d.OK("cuMemsetD8_v2", ptr, 3, 1)
	d.OK("cuMemcpyDtoD_v2", ptr+1, ptr, 1)
	d.Want(gpusimtest.NotReady, "cuStreamQuery", legacy)
	wantByte(t, d, ptr+1, 0, "after a copy within the device")
	d.OK("cuMemsetD8_v2", &locked[0], 4, 1)
	if locked[0] != 4 {
		t.Error("a fill of pinned memory did not wait")
	}
	wantByte(t, d, ptr+1, 3, "after a fill of pinned memory")
}

// CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: operations that the API calls synchronous are so on this memory.
func TestMemoryCanAskForSynchronousCopies(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 1)
	on := uint32(1)
	const synchronous = 6
	d.OK("cuPointerSetAttribute", &on, synchronous, ptr)
	hold(t, d)
	d.OK("cuMemsetD8_v2", ptr, 3, 1)
	d.OK("cuStreamQuery", legacy)
	wantByte(t, d, ptr, 3, "after the fill")
	d.Want(gpusimtest.InvalidValue, "cuPointerSetAttribute", &on, 1, ptr)
}

// box2D is CUDA_MEMCPY2D, without what the tests leave at zero.
type box2D struct {
	srcX, srcY           uint64
	srcType              int32
	_                    int32
	_, srcDevice         uint64
	_, srcPitch          uint64
	_, _                 uint64
	dstType              int32
	_                    int32
	_, dstDevice         uint64
	_, dstPitch          uint64
	widthInBytes, height uint64
}

const onDevice = 2 // CU_MEMORYTYPE_DEVICE

// "Memory Management", cuMemcpy2D: rows of WidthInBytes, from pitch to pitch; what lies between stays.
func TestACopyOfRowsLeavesWhatLiesBetween(t *testing.T) {
	d := gpusimtest.Start(t)
	src, dst := memory(t, d, 16), memory(t, d, 16)
	d.Write(src, gpusimtest.Pattern(1, 16))
	c := box2D{srcType: onDevice, srcDevice: src, srcX: 1, srcY: 1, srcPitch: 4,
		dstType: onDevice, dstDevice: dst, dstPitch: 8, widthInBytes: 2, height: 2}
	d.OK("cuMemcpy2D_v2", &c)
	p := gpusimtest.Pattern(1, 16)
	want := []byte{p[5], p[6], 0, 0, 0, 0, 0, 0, p[9], p[10], 0, 0, 0, 0, 0, 0}
	if got := d.Read(dst, 16); !bytes.Equal(got, want) {
		t.Errorf("the copy is %v, want %v", got, want)
	}
	d.OK("cuMemsetD2D16_v2", dst, 8, 0x0101, 1, 2)
	d.Holds(dst, []byte{1, 1, 0, 0, 0, 0, 0, 0, 1, 1})
}

// A copy that leaves an allocation, or all memory, is refused and nothing is enqueued.
func TestWhatLeavesAnAllocationIsRefused(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 16)
	host := make([]byte, 32)
	rows := box2D{srcType: onDevice, srcDevice: ptr, srcPitch: 8, dstType: onDevice, dstDevice: ptr, dstPitch: 8, widthInBytes: 8, height: 2}
	narrow, far, huge := rows, rows, rows
	narrow.srcPitch = 7
	far.srcY = math.MaxUint64 / 8
	huge.srcPitch, huge.height = math.MaxUint64/2, 3
	for _, c := range []struct {
		name string
		call string
		args []any
	}{
		{"a byte too many", "cuMemcpyHtoD_v2", []any{ptr, &host[0], 17}},
		{"a byte too far", "cuMemcpyDtoH_v2", []any{&host[0], ptr + 1, 16}},
		{"all memory", "cuMemcpyDtoD_v2", []any{ptr, ptr, uint64(math.MaxUint64)}},
		{"a fill beyond", "cuMemsetD32_v2", []any{ptr, 0, 5}},
		{"a fill that overflows", "cuMemsetD32_v2", []any{ptr, 0, uint64(1 << 62)}},
		{"a fill that is not aligned", "cuMemsetD16_v2", []any{ptr + 1, 0, 1}},
		{"nothing", "cuMemcpyHtoD_v2", []any{0, &host[0], 1}},
		{"a pitch below the width", "cuMemcpy2D_v2", []any{&narrow}},
		{"a row beyond all memory", "cuMemcpy2D_v2", []any{&far}},
		{"rows beyond all memory", "cuMemcpy2D_v2", []any{&huge}},
	} {
		d.Run(t, c.name, func(_ *testing.T, d *gpusimtest.Driver) { d.Want(gpusimtest.InvalidValue, c.call, c.args...) })
	}
	d.OK("cuMemcpyDtoD_v2", ptr, ptr, 0)
}

// Pointers that CUDA does not know are no device memory.
func TestMemoryOfTheHostIsNoMemoryOfADevice(t *testing.T) {
	d := gpusimtest.Start(t)
	host := make([]byte, 2)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemcpyHtoD_v2", &host[0], &host[1], 1)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemsetD8_v2", &host[0], 1, 1)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemcpyDtoH_v2", &host[0], 4096, 1)
}

// "Peer Context Memory Access": memory of another device is reached by copies between contexts at any time, by other
// work only while access is enabled, and access is enabled once.
func TestMemoryOfAnotherDeviceNeedsAccess(t *testing.T) {
	const (
		alreadyEnabled gpusimtest.Result = 704
		notEnabled     gpusimtest.Result = 705
	)
	d := gpusimtest.Start(t)
	near := memory(t, d, 1)
	var here, there, before, far uint64
	d.OK("cuCtxGetCurrent", &here)
	d.OK("cuDevicePrimaryCtxRetain", &there, 1)
	d.OK("cuCtxPushCurrent_v2", there)
	d.OK("cuMemAlloc_v2", &far, 1)
	d.OK("cuMemsetD8_v2", far, 9, 1)
	d.OK("cuCtxSynchronize")
	d.OK("cuCtxPopCurrent_v2", &before)

	d.OK("cuMemcpyPeer", near, here, far, there, 1)
	d.OK("cuCtxSynchronize")
	d.Holds(near, []byte{9})
	d.Want(gpusimtest.InvalidValue, "cuMemcpyPeer", near, there, far, here, 1)
	d.Want(notEnabled, "cuCtxDisablePeerAccess", there)
	d.OK("cuCtxEnablePeerAccess", there, 0)
	d.Want(alreadyEnabled, "cuCtxEnablePeerAccess", there, 0)
	d.Want(gpusimtest.InvalidDevice, "cuCtxEnablePeerAccess", here, 0)
	d.OK("cuMemsetD8_v2", far, 8, 1)
	d.OK("cuCtxSynchronize")
	d.OK("cuCtxDisablePeerAccess", there)
	d.OK("cuMemcpyPeer", near, here, far, there, 1)
	d.Holds(near, []byte{8})
	d.OK("cuMemFree_v2", far)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
}
