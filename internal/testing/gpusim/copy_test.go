//go:build linux && cgo

package gpusim_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// "API synchronization behavior", Asynchronous, 1: pageable memory "will be copied to a staging buffer" before the
// call returns; pinned memory is read when the copy runs.
func TestPageableMemoryIsReadAtTheCallAndPinnedMemoryLate(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 2), d.NewStream()
	pageable, locked := []byte{1}, d.Pinned(1)
	locked[0] = 1
	hold(t, d)
	d.OK("cuMemcpyAsync", ptr, &pageable[0], 1, stream)
	d.OK("cuMemcpyAsync", ptr+1, &locked[0], 1, stream)
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
	d.OK("cuMemcpyAsync", &pageable[0], ptr, 1, stream)
	if pageable[0] != 7 {
		t.Error("the copy to pageable memory is not done")
	}
	d.OK("cuMemcpyAsync", &locked[0], ptr, 1, stream)
	if locked[0] != 0 {
		t.Error("the copy to pinned memory is done")
	}
	d.OK("cuStreamSynchronize", stream)
	if locked[0] != 7 {
		t.Error("the copy to pinned memory is never done")
	}
}

// "API synchronization behavior", Synchronous, 4: between device memory "no host-side synchronization is performed".
func TestWhatStaysOnTheDeviceDoesNotWait(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 2)
	hold(t, d)
	d.OK("cuMemsetD8Async", ptr, 3, 1, legacy)
	d.OK("cuMemcpyHtoD_v2", ptr+1, ptr, 1) // which takes every address
	d.Want(gpusimtest.NotReady, "cuStreamQuery", legacy)
	wantByte(t, d, ptr+1, 0, "after a copy within the device")
	d.OK("cuStreamSynchronize", legacy)
	wantByte(t, d, ptr+1, 3, "after a wait")
}

// side2D and side3D are how CUDA_MEMCPY2D and CUDA_MEMCPY3D describe a side, box2D and box3D the whole.
type side2D struct {
	x, y         uint64
	kind         int32
	_            int32
	host, device uint64
	_            uint64 // an array
	pitch        uint64
}

type box2D struct {
	src, dst             side2D
	widthInBytes, height uint64
}

type side3D struct {
	x, y, z       uint64
	level         uint64
	kind          int32
	_             int32
	_             uint64 // an address of the host
	device        uint64
	_, _          uint64 // an array, and what is reserved
	pitch, height uint64
}

type box3D struct {
	src, dst                    side3D
	widthInBytes, height, depth uint64
}

// "Memory Management", cuMemcpy2D: rows of WidthInBytes, from pitch to pitch; what lies between stays.
func TestACopyOfRowsLeavesWhatLiesBetween(t *testing.T) {
	d := gpusimtest.Start(t)
	dst, locked := memory(t, d, 16), d.Pinned(16)
	p := gpusimtest.Pattern(1, 16)
	copy(locked, p)
	c := box2D{src: side2D{kind: onHost, host: uint64(uintptr(unsafe.Pointer(&locked[0]))), x: 1, y: 1, pitch: 4},
		dst: side2D{kind: onDevice, device: dst, pitch: 8}, widthInBytes: 2, height: 2}
	d.OK("cuMemcpy2DAsync_v2", &c, legacy)
	d.Holds(dst, []byte{p[5], p[6], 0, 0, 0, 0, 0, 0, p[9], p[10], 0, 0, 0, 0, 0, 0})
}

// cuMemcpy3D: slices of Height rows; "the starting address is srcDevice+(srcZ*srcHeight+srcY)*srcPitch+srcXInBytes".
func TestACopyOfSlicesLeavesWhatLiesBetween(t *testing.T) {
	d := gpusimtest.Start(t)
	src, dst := memory(t, d, 64), memory(t, d, 32)
	p := gpusimtest.Pattern(1, 64)
	d.Write(src, p)
	c := box3D{src: side3D{kind: onDevice, device: src, x: 1, y: 1, z: 1, pitch: 4, height: 3},
		dst: side3D{kind: onDevice, device: dst, pitch: 4, height: 2}, widthInBytes: 2, height: 2, depth: 2}
	d.OK("cuMemcpy3DAsync_v2", &c, legacy)
	d.Holds(dst, []byte{p[17], p[18], 0, 0, p[21], p[22], 0, 0, p[29], p[30], 0, 0, p[33], p[34], 0, 0})
}

// "srcPitch must be greater than or equal to WidthInBytes + srcXInBytes", "srcHeight must be greater than or equal to
// Height + srcY", no pitch is "greater than the maximum allowed (CU_DEVICE_ATTRIBUTE_MAX_PITCH)", and "srcLOD and dstLOD
// must be set to 0".
func TestABoxLiesWithinItsPitchesAndHeights(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 256)
	good := side3D{kind: onDevice, device: ptr, pitch: 8, height: 4}
	for _, c := range []struct {
		name   string
		change func(*side3D)
		ok     bool
	}{
		{"as it should be", func(*side3D) {}, true},
		{"up to the end of a row and a slice", func(s *side3D) { s.x, s.y = 4, 2 }, true},
		{"beyond the end of a row", func(s *side3D) { s.x = 5 }, false},
		{"beyond the end of a slice", func(s *side3D) { s.y = 3 }, false},
		{"a pitch of nothing", func(s *side3D) { s.pitch = 0 }, false},
		{"a height of nothing", func(s *side3D) { s.height = 0 }, false},
		{"a pitch beyond all", func(s *side3D) { s.pitch = 1 << 31 }, false},
		{"a level of detail", func(s *side3D) { s.level = 1 }, false},
		{"an array", func(s *side3D) { s.kind = 3 }, false},
	} {
		d.Run(t, c.name, func(_ *testing.T, d *gpusimtest.Driver) {
			want := gpusimtest.InvalidValue
			if c.ok {
				want = gpusimtest.Success
			}
			changed := good
			c.change(&changed)
			d.Want(want, "cuMemcpy3DAsync_v2", &box3D{src: changed, dst: good, widthInBytes: 4, height: 2, depth: 2}, legacy)
			d.Want(want, "cuMemcpy3DAsync_v2", &box3D{src: good, dst: changed, widthInBytes: 4, height: 2, depth: 2}, legacy)
		})
	}
	row := good
	row.pitch, row.height = 0, 0 // "may be 0 if Depth==1"
	d.OK("cuMemcpy3DAsync_v2", &box3D{src: row, dst: row, widthInBytes: 4, height: 1, depth: 1}, legacy)
}

// "On intra-device memory copies [...] cuMemcpy2D() may fail for pitches not computed by cuMemAllocPitch()."
func TestRowsWithinADeviceHaveAnAlignedPitch(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 2048), d.NewStream()
	locked := d.Pinned(16)
	odd, even := side2D{kind: onDevice, device: ptr, pitch: 8}, side2D{kind: onDevice, device: ptr, pitch: 1024}
	host := side2D{kind: onHost, host: uint64(uintptr(unsafe.Pointer(&locked[0]))), pitch: 8}
	copying := func(src, dst side2D) *box2D { return &box2D{src: src, dst: dst, widthInBytes: 4, height: 2} }
	d.Want(gpusimtest.InvalidValue, "cuMemcpy2DAsync_v2", copying(odd, even), stream)
	d.Want(gpusimtest.InvalidValue, "cuMemcpy2DAsync_v2", copying(even, odd), stream)
	d.OK("cuMemcpy2DAsync_v2", copying(even, even), stream)
	d.OK("cuMemcpy2DAsync_v2", copying(host, odd), stream)
	d.OK("cuStreamSynchronize", stream)
}

// A copy that leaves an allocation, or all memory, is refused and nothing is enqueued.
func TestWhatLeavesAnAllocationIsRefused(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 16)
	host, locked := make([]byte, 32), d.Pinned(16)
	rows := box2D{src: side2D{kind: onDevice, device: ptr, pitch: 8},
		dst: side2D{kind: onHost, host: uint64(uintptr(unsafe.Pointer(&locked[0]))), pitch: 8}, widthInBytes: 8, height: 2}
	narrow, far, huge := rows, rows, rows
	narrow.src.pitch = 7
	far.src.y = math.MaxUint64 / 8
	huge.src.pitch, huge.height = math.MaxInt32, math.MaxUint64/2
	for _, c := range []struct {
		name string
		call string
		args []any
	}{
		{"a byte too many", "cuMemcpyHtoD_v2", []any{ptr, &host[0], 17}},
		{"a byte too far", "cuMemcpyDtoH_v2", []any{&host[0], ptr + 1, 16}},
		{"all memory", "cuMemcpyDtoDAsync_v2", []any{ptr, ptr, uint64(math.MaxUint64), legacy}},
		{"a fill beyond", "cuMemsetD32Async", []any{ptr, 0, 5, legacy}},
		{"a fill that overflows", "cuMemsetD32Async", []any{ptr, 0, uint64(1 << 62), legacy}},
		{"a fill that is not aligned", "cuMemsetD32Async", []any{ptr + 2, 0, 1, legacy}},
		{"nothing", "cuMemcpyHtoD_v2", []any{0, &host[0], 1}},
		{"a pitch below the width", "cuMemcpy2DAsync_v2", []any{&narrow, legacy}},
		{"a row beyond all memory", "cuMemcpy2DAsync_v2", []any{&far, legacy}},
		{"rows beyond all memory", "cuMemcpy2DAsync_v2", []any{&huge, legacy}},
	} {
		d.Run(t, c.name, func(_ *testing.T, d *gpusimtest.Driver) { d.Want(gpusimtest.InvalidValue, c.call, c.args...) })
	}
	d.OK("cuMemcpyDtoDAsync_v2", ptr, ptr, 0, legacy)
	d.OK("cuMemcpy2DAsync_v2", &rows, legacy)
	d.OK("cuStreamSynchronize", legacy)
}

// A reservation is one range of addresses (CU_POINTER_ATTRIBUTE_RANGE_SIZE), whatever it is mapped to: PyTorch's
// expandable segments have tensors across mappings. A copy does not leave what is mapped, nor what is open to it.
func TestACopyGoesOnInTheNextMapping(t *testing.T) {
	d := gpusimtest.Start(t)
	var ptr uint64
	d.OK("cuMemAddressReserve", &ptr, 3*granularity, 0, 0, 0)
	for i := range uint64(2) {
		d.OK("cuMemMap", ptr+i*granularity, granularity, 0, create(t, d, granularity), 0)
	}
	const size = 2 * granularity
	d.OK("cuMemSetAccess", ptr, size, &access{location{kind: 1}, readWrite}, 1)
	want := gpusimtest.Pattern(3, 100)
	d.Write(ptr+granularity-50, want)
	d.Holds(ptr+granularity-50, want)
	d.Holds(ptr+granularity, want[50:])
	d.OK("cuMemcpyAsync", ptr, ptr+granularity-50, 100, legacy)
	d.Holds(ptr, want)
	d.Want(gpusimtest.InvalidValue, "cuMemsetD8Async", ptr+size-1, 1, 2, legacy)
	d.OK("cuMemSetAccess", ptr+granularity, granularity, &access{location{kind: 1}, readOnly}, 1)
	d.Want(gpusimtest.InvalidValue, "cuMemsetD8Async", ptr+granularity-1, 1, 2, legacy)
	d.OK("cuCtxSynchronize")
	d.OK("cuMemUnmap", ptr, size)
	d.OK("cuMemAddressFree", ptr, 3*granularity)
}

// "Memory Management", cuMemset: values of 8 and 32 bits.
func TestFillsHaveTheWidthsOfTheirNames(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 10)
	d.OK("cuMemsetD32Async", ptr, 0x04030201, 2, legacy)
	d.Holds(ptr, []byte{1, 2, 3, 4, 1, 2, 3, 4, 0, 0})
	d.OK("cuMemsetD8Async", ptr, 5, 2, legacy)
	d.Holds(ptr, []byte{5, 5, 3, 4, 1, 2, 3, 4, 0, 0})
}

// Pointers that CUDA does not know are no device memory.
func TestMemoryOfTheHostIsNoMemoryOfADevice(t *testing.T) {
	d := gpusimtest.Start(t)
	host := make([]byte, 2)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemcpyHtoD_v2", &host[0], &host[1], 1)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemsetD8Async", &host[0], 1, 1, legacy)
	d.WantMisuse(gpusimtest.InvalidValue, "cuMemcpyDtoH_v2", &host[0], 4096, 1)
}

// "Peer Context Memory Access": memory of another device is reached by copies between contexts at any time, by other
// work only while access is enabled, and access is enabled once.
func TestMemoryOfAnotherDeviceNeedsAccess(t *testing.T) {
	const alreadyEnabled gpusimtest.Result = 704
	d := gpusimtest.Start(t)
	near := memory(t, d, 1)
	var there, before, far uint64
	here := d.Context()
	d.OK("cuDevicePrimaryCtxRetain", &there, 1)
	d.OK("cuCtxPushCurrent_v2", there)
	d.OK("cuMemAlloc_v2", &far, 1)
	d.OK("cuMemsetD8Async", far, 9, 1, legacy)
	d.OK("cuCtxSynchronize")
	d.OK("cuCtxPopCurrent_v2", &before)

	d.OK("cuMemcpyPeerAsync", near, here, far, there, 1, legacy)
	d.OK("cuCtxSynchronize")
	d.Holds(near, []byte{9})
	d.Want(gpusimtest.InvalidValue, "cuMemcpyPeerAsync", near, there, far, here, 1, legacy)
	d.OK("cuCtxEnablePeerAccess", there, 0)
	d.Want(alreadyEnabled, "cuCtxEnablePeerAccess", there, 0)
	d.Want(gpusimtest.InvalidContext, "cuCtxEnablePeerAccess", here, 0)
	d.OK("cuMemsetD8Async", far, 8, 1, legacy)
	d.OK("cuCtxSynchronize")
	d.OK("cuMemcpyPeerAsync", near, here, far, there, 1, legacy)
	d.Holds(near, []byte{8})
	d.OK("cuMemFree_v2", far)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
}

// box3DPeer is CUDA_MEMCPY3D_PEER.
type sidePeer struct {
	_, _, _, _    uint64 // x, y, z, level
	kind          int32
	_             int32
	_             uint64 // an address of the host
	device        uint64
	_             uint64 // an array
	context       uint64
	pitch, height uint64
}

type box3DPeer struct {
	src, dst                    sidePeer
	widthInBytes, height, depth uint64
}

// cuMemcpy3DPeer copies between contexts; each side is reached as its own device reaches it, so that memory which
// cuMemSetAccess did not open there is not.
func TestCopiesBetweenContextsReachEachSideAtHome(t *testing.T) {
	d := gpusimtest.Start(t)
	near := memory(t, d, 16)
	var far uint64
	here := d.Context()
	there := push(t, d, 1)
	d.OK("cuMemAlloc_v2", &far, 16)
	defer d.OK("cuMemFree_v2", far)
	d.Write(far, gpusimtest.Pattern(3, 16))
	c := box3DPeer{src: sidePeer{kind: onDevice, device: far, context: there, pitch: 4, height: 2},
		dst: sidePeer{kind: onDevice, device: near, context: here, pitch: 4, height: 2}, widthInBytes: 4, height: 2, depth: 2}
	d.OK("cuMemcpy3DPeerAsync", &c, legacy)
	d.OK("cuCtxSynchronize")
	c.src.context = here
	d.Want(gpusimtest.InvalidValue, "cuMemcpy3DPeerAsync", &c, legacy)
	d.Run(t, "what came", func(_ *testing.T, d *gpusimtest.Driver) {
		d.OK("cuCtxSetCurrent", here)
		d.Holds(near, gpusimtest.Pattern(3, 16))
	})

	var closed uint64
	handle := create(t, d, granularity)
	d.OK("cuMemAddressReserve", &closed, granularity, 0, 0, 0)
	d.OK("cuMemMap", closed, granularity, 0, handle, 0)
	d.OK("cuMemSetAccess", closed, granularity, &access{location{1, 1}, readWrite}, 1)
	var other, stream uint64
	d.OK("cuCtxCreate_v2", &other, 0, 1)
	d.OK("cuStreamCreate", &stream, 1)
	d.OK("cuMemcpyPeerAsync", far, there, closed, here, 4, stream)
	d.WantMisuse(gpusimtest.IllegalAddress, "cuStreamSynchronize", stream)
	d.OK("cuCtxDestroy_v2", other)
	d.OK("cuMemUnmap", closed, granularity)
	d.OK("cuMemAddressFree", closed, granularity)
}
