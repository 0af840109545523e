//go:build linux && cgo

package gpusim_test

import (
	"math"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// "API synchronization behavior", Asynchronous, 1: pageable memory "will be copied to a staging buffer" before the
// call returns; pinned memory is read when the copy runs. 2: to pageable memory "the function will return only once the
// copy has completed"; to pinned memory it may be fully asynchronous.
func TestCopiesOfPageableMemoryAreDoneAtTheCall(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr, stream := memory(t, d, 2), d.NewStream()
	pageable, locked := []byte{1}, d.Pinned(1)
	locked[0] = 1
	d.Hold()
	d.OK("cuMemcpyAsync", ptr, &pageable[0], 1, stream)
	d.OK("cuMemcpyAsync", ptr+1, &locked[0], 1, stream)
	pageable[0], locked[0] = 2, 2
	d.OK("cuStreamSynchronize", stream)
	wantByte(t, d, ptr, 1, "from pageable memory")
	wantByte(t, d, ptr+1, 2, "from pinned memory")

	fill(d, ptr, 7, 1, stream)
	d.OK("cuMemcpyAsync", &pageable[0], ptr, 1, stream)
	equal(t, "pageable memory after the call", pageable[0], 7)
	d.OK("cuMemcpyAsync", &locked[0], ptr, 1, stream)
	equal(t, "pinned memory after the call", locked[0], 2)
	d.OK("cuStreamSynchronize", stream)
	equal(t, "pinned memory after the wait", locked[0], 7)
}

// "API synchronization behavior", Synchronous, 4: between device memory "no host-side synchronization is performed".
func TestWhatStaysOnTheDeviceDoesNotWait(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 2)
	d.Hold()
	fill(d, ptr, 3, 1, legacy)
	d.OK("cuMemcpyHtoD_v2", ptr+1, ptr, 1) // which takes every address
	d.Want(gpusimtest.NotReady, "cuStreamQuery", legacy)
	wantByte(t, d, ptr+1, 0, "after a copy within the device")
	d.OK("cuStreamSynchronize", legacy)
	wantByte(t, d, ptr+1, 3, "after a wait")
}

// side2D and side3D are how CUDA_MEMCPY2D and CUDA_MEMCPY3D describe a side, box2D and box3D the whole; sidePeer and
// box3DPeer are those of CUDA_MEMCPY3D_PEER.
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
	_             uint64 // an array
	context       uint64 // between contexts
	pitch, height uint64
}

type box3D struct {
	src, dst                    side3D
	widthInBytes, height, depth uint64
}

// addressOf is the address of memory of the host.
func addressOf(data []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&data[0]))) }

// "Memory Management", cuMemcpy2D: rows of WidthInBytes, from pitch to pitch; what lies between stays. cuMemcpy3D: slices of
// Height rows; "the starting address is srcDevice+(srcZ*srcHeight+srcY)*srcPitch+srcXInBytes".
func TestABoxLeavesWhatLiesBetween(t *testing.T) {
	d := gpusimtest.Start(t)
	src, dst, locked := memory(t, d, 64), memory(t, d, 32), d.Pinned(16)
	p := gpusimtest.Pattern(1, 64)
	copy(locked, p)
	d.OK("cuMemcpy2DAsync_v2", &box2D{src: side2D{kind: onHost, host: addressOf(locked), x: 1, y: 1, pitch: 4},
		dst: side2D{kind: onDevice, device: dst, pitch: 8}, widthInBytes: 2, height: 2}, legacy)
	d.Holds(dst, []byte{p[5], p[6], 0, 0, 0, 0, 0, 0, p[9], p[10], 0, 0, 0, 0, 0, 0})
	d.Write(src, p)
	d.Write(dst, make([]byte, 32))
	d.OK("cuMemcpy3DAsync_v2", &box3D{src: side3D{kind: onDevice, device: src, x: 1, y: 1, z: 1, pitch: 4, height: 3},
		dst: side3D{kind: onDevice, device: dst, pitch: 4, height: 2}, widthInBytes: 2, height: 2, depth: 2}, legacy)
	d.Holds(dst, []byte{p[17], p[18], 0, 0, p[21], p[22], 0, 0, p[29], p[30], 0, 0, p[33], p[34], 0, 0})
}

// "srcPitch must be greater than or equal to WidthInBytes + srcXInBytes", "srcHeight must be greater than or equal to
// Height + srcY", no pitch is "greater than the maximum allowed (CU_DEVICE_ATTRIBUTE_MAX_PITCH)", and "srcLOD and dstLOD
// must be set to 0".
func TestABoxLiesWithinItsPitchesAndHeights(t *testing.T) {
	const invalid = gpusimtest.InvalidValue
	d := gpusimtest.Start(t)
	good := side3D{kind: onDevice, device: memory(t, d, 256), pitch: 8, height: 4}
	for _, c := range []struct {
		name   string
		change func(*side3D)
		want   result
	}{
		{"as it should be", func(*side3D) {}, 0},
		{"up to the end of a row and a slice", func(s *side3D) { s.x, s.y = 4, 2 }, 0},
		{"beyond the end of a row", func(s *side3D) { s.x = 5 }, invalid},
		{"beyond the end of a slice", func(s *side3D) { s.y = 3 }, invalid},
		{"a pitch of nothing", func(s *side3D) { s.pitch = 0 }, invalid},
		{"a height of nothing", func(s *side3D) { s.height = 0 }, invalid},
		{"a pitch beyond all", func(s *side3D) { s.pitch = 1 << 31 }, invalid},
		{"a level of detail", func(s *side3D) { s.level = 1 }, invalid},
		{"an array", func(s *side3D) { s.kind = 3 }, invalid},
	} {
		changed := good
		c.change(&changed)
		for _, b := range []box3D{{src: changed, dst: good}, {src: good, dst: changed}} {
			b.widthInBytes, b.height, b.depth = 4, 2, 2
			equal(t, c.name, d.Result("cuMemcpy3DAsync_v2", &b, legacy), c.want)
		}
	}
	row := good
	row.pitch, row.height = 0, 0 // "may be 0 if Depth==1"
	d.OK("cuMemcpy3DAsync_v2", &box3D{src: row, dst: row, widthInBytes: 4, height: 1, depth: 1}, legacy)
}

// A copy that leaves an allocation, or all memory, is refused and nothing is enqueued. Pointers that CUDA does not know are
// no device memory. "On intra-device memory copies [...] cuMemcpy2D() may fail for pitches not computed by
// cuMemAllocPitch()."
func TestWhatLeavesAnAllocationIsRefused(t *testing.T) {
	const invalid = gpusimtest.InvalidValue
	d := gpusimtest.Start(t)
	ptr, large := memory(t, d, 16), memory(t, d, 2048)
	host, locked := make([]byte, 32), d.Pinned(16)
	rows := box2D{src: side2D{kind: onDevice, device: ptr, pitch: 8},
		dst: side2D{kind: onHost, host: addressOf(locked), pitch: 8}, widthInBytes: 8, height: 2}
	narrow, far, huge := rows, rows, rows
	narrow.src.pitch = 7
	far.src.y = math.MaxUint64 / 8
	huge.src.pitch, huge.height = math.MaxInt32, math.MaxUint64/2
	odd, even := side2D{kind: onDevice, device: large, pitch: 8}, side2D{kind: onDevice, device: large, pitch: 1024}
	const rowsOf4 = 4
	try(t, d, []attempt{
		{"a byte too many", invalid, "cuMemcpyHtoD_v2", []any{ptr, &host[0], 17}},
		{"a byte too far", invalid, "cuMemcpyDtoH_v2", []any{&host[0], ptr + 1, 16}},
		{"all memory", invalid, "cuMemcpyDtoDAsync_v2", []any{ptr, ptr, uint64(math.MaxUint64), legacy}},
		{"a fill beyond", invalid, "cuMemsetD32Async", []any{ptr, 0, 5, legacy}},
		{"a fill that overflows", invalid, "cuMemsetD32Async", []any{ptr, 0, uint64(1 << 62), legacy}},
		{"a fill that is not aligned", invalid, "cuMemsetD32Async", []any{ptr + 2, 0, 1, legacy}},
		{"nothing", invalid, "cuMemcpyHtoD_v2", []any{0, &host[0], 1}},
		{"a pitch below the width", invalid, "cuMemcpy2DAsync_v2", []any{&narrow, legacy}},
		{"a row beyond all memory", invalid, "cuMemcpy2DAsync_v2", []any{&far, legacy}},
		{"rows beyond all memory", invalid, "cuMemcpy2DAsync_v2", []any{&huge, legacy}},
		{"no bytes", 0, "cuMemcpyDtoDAsync_v2", []any{ptr, ptr, 0, legacy}},
		{"all rows", 0, "cuMemcpy2DAsync_v2", []any{&rows, legacy}},
		{"from an odd pitch", invalid, "cuMemcpy2DAsync_v2", []any{&box2D{odd, even, rowsOf4, 2}, legacy}},
		{"to an odd pitch", invalid, "cuMemcpy2DAsync_v2", []any{&box2D{even, odd, rowsOf4, 2}, legacy}},
		{"with pitches of the device", 0, "cuMemcpy2DAsync_v2", []any{&box2D{even, even, rowsOf4, 2}, legacy}},
		{"from the host", 0, "cuMemcpy2DAsync_v2", []any{&box2D{rows.dst, odd, rowsOf4, 2}, legacy}},
	})
	d.OK("cuStreamSynchronize", legacy)
	d.WantMisuse(invalid, "cuMemcpyHtoD_v2", &host[0], &host[1], 1)
	d.WantMisuse(invalid, "cuMemsetD8Async", &host[0], 1, 1, legacy)
	d.WantMisuse(invalid, "cuMemcpyDtoH_v2", &host[0], 4096, 1)
}

// A reservation is one range of addresses (CU_POINTER_ATTRIBUTE_RANGE_SIZE), whatever it is mapped to: PyTorch's
// expandable segments have tensors across mappings. A copy does not leave what is mapped, nor what is open to it.
func TestACopyGoesOnInTheNextMapping(t *testing.T) {
	d := gpusimtest.Start(t)
	const size = 2 * granularity
	ptr := reserve(t, d, 3*granularity)
	for i := range uint64(2) {
		d.OK("cuMemMap", ptr+i*granularity, granularity, 0, create(t, d, granularity), 0)
	}
	d.OK("cuMemSetAccess", ptr, size, &openTo0, 1)
	want := gpusimtest.Pattern(3, 100)
	d.Write(ptr+granularity-50, want)
	d.Holds(ptr+granularity-50, want)
	d.Holds(ptr+granularity, want[50:])
	d.OK("cuMemcpyAsync", ptr, ptr+granularity-50, 100, legacy)
	d.Holds(ptr, want)
	d.Want(gpusimtest.InvalidValue, "cuMemsetD8Async", ptr+size-1, 1, 2, legacy)
	d.OK("cuMemSetAccess", ptr+granularity, granularity, &access{device0, readOnly}, 1)
	d.Want(gpusimtest.InvalidValue, "cuMemsetD8Async", ptr+granularity-1, 1, 2, legacy)
	d.OK("cuCtxSynchronize")
	d.OK("cuMemUnmap", ptr, size)
}

// "Memory Management", cuMemset: values of 8 and 32 bits.
func TestFillsHaveTheWidthsOfTheirNames(t *testing.T) {
	d := gpusimtest.Start(t)
	ptr := memory(t, d, 10)
	d.OK("cuMemsetD32Async", ptr, 0x04030201, 2, legacy)
	d.Holds(ptr, []byte{1, 2, 3, 4, 1, 2, 3, 4, 0, 0})
	fill(d, ptr, 5, 2, legacy)
	d.Holds(ptr, []byte{5, 5, 3, 4, 1, 2, 3, 4, 0, 0})
}

// "Peer Context Memory Access": memory of another device is reached by copies between contexts at any time, by other
// work only while access is enabled, and access is enabled once. cuCtxEnablePeerAccess:
// CUDA_ERROR_PEER_ACCESS_UNSUPPORTED "if cuDeviceCanAccessPeer() indicates that the CUdevice of the current context cannot
// directly access memory" (DLX_GPUSIM_PEERS); copies between contexts work nevertheless.
func TestMemoryOfAnotherDeviceNeedsAccess(t *testing.T) {
	const alreadyEnabled, unsupported result = 704, 217
	d := gpusimtest.Start(t)
	alone := runAlone(t, "DLX_GPUSIM_PEERS=0")
	var there, far uint64
	near, here := memory(t, d, 1), d.Context()
	d.Run(t, "there", func(t *testing.T, d *driver) {
		there = push(t, d, 1)
		d.OK("cuDevicePrimaryCtxRetain", &there, 1)
		far = d.New("cuMemAlloc_v2", 1)
		fill(d, far, 9, 1, legacy)
		d.OK("cuCtxSynchronize")
	})
	d.OK("cuMemcpyPeerAsync", near, here, far, there, 1, legacy)
	d.Holds(near, []byte{9})
	d.Want(gpusimtest.InvalidValue, "cuMemcpyPeerAsync", near, there, far, here, 1, legacy)
	if alone {
		equal(t, "access", canAccess(d, 0, 1), 1)
		equal(t, "access to itself", canAccess(d, 0, 0), 0)
		d.OK("cuCtxEnablePeerAccess", there, 0)
		d.Want(alreadyEnabled, "cuCtxEnablePeerAccess", there, 0)
		d.Want(gpusimtest.InvalidContext, "cuCtxEnablePeerAccess", here, 0)
		fill(d, far, 8, 1, legacy)
		d.OK("cuCtxSynchronize")
		d.OK("cuMemcpyPeerAsync", near, here, far, there, 1, legacy)
		d.Holds(near, []byte{8})
	} else {
		equal(t, "access", canAccess(d, 0, 1), 0)
		d.Want(unsupported, "cuCtxEnablePeerAccess", there, 0)
		ptr := mapping(t, d, create(t, d, granularity), granularity)
		d.Want(gpusimtest.InvalidDevice, "cuMemSetAccess", ptr, granularity, &access{device1, readWrite}, 1)
	}
	d.OK("cuMemFree_v2", far)
	d.OK("cuDevicePrimaryCtxRelease_v2", 1)
}

// cuMemcpy3DPeer copies between contexts; each side is reached as its own device reaches it, so that memory which
// cuMemSetAccess did not open there is not.
func TestCopiesBetweenContextsReachEachSideAtHome(t *testing.T) {
	d := gpusimtest.Start(t)
	near, here := memory(t, d, 16), d.Context()
	there := push(t, d, 1)
	far := d.New("cuMemAlloc_v2", 16)
	defer d.OK("cuMemFree_v2", far)
	d.Write(far, gpusimtest.Pattern(3, 16))
	c := box3D{src: side3D{kind: onDevice, device: far, context: there, pitch: 4, height: 2},
		dst: side3D{kind: onDevice, device: near, context: here, pitch: 4, height: 2}, widthInBytes: 4, height: 2, depth: 2}
	d.OK("cuMemcpy3DPeerAsync", &c, legacy)
	d.OK("cuCtxSynchronize")
	c.src.context = here
	d.Want(gpusimtest.InvalidValue, "cuMemcpy3DPeerAsync", &c, legacy)
	d.Run(t, "what came", func(_ *testing.T, d *driver) {
		d.OK("cuCtxSetCurrent", here)
		d.Holds(near, gpusimtest.Pattern(3, 16))
	})

	closed := reserve(t, d, granularity)
	d.OK("cuMemMap", closed, granularity, 0, create(t, d, granularity), 0)
	d.OK("cuMemSetAccess", closed, granularity, &access{device1, readWrite}, 1)
	other, stream := d.New("cuCtxCreate_v2", 0, 1), d.New("cuStreamCreate", 1)
	d.OK("cuMemcpyPeerAsync", far, there, closed, here, 4, stream)
	d.WantMisuse(gpusimtest.IllegalAddress, "cuStreamSynchronize", stream)
	d.OK("cuCtxDestroy_v2", other)
	d.OK("cuMemUnmap", closed, granularity)
}
