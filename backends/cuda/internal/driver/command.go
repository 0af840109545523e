//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

static CUresult dlx_copy(uintptr_t context, CUdeviceptr dst, CUdeviceptr src, size_t n, uintptr_t stream) {
	DLX_RELAXED(context, cuMemcpyAsync(dst, src, n, (CUstream)stream));
}

// By unified addresses the driver knows what lies where, of the host's memory too
// (CU_MEMORYTYPE_UNIFIED). Rectangles are boxes of one slice: cuMemcpy2DAsync may refuse
// pitches on the device that cuMemAllocPitch has not chosen.
static CUresult dlx_copy_box(uintptr_t context, CUdeviceptr dst, CUdeviceptr src, size_t row, size_t rows, size_t slices,
		size_t dst_pitch, size_t dst_height, size_t src_pitch, size_t src_height, uintptr_t stream) {
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = src, .srcPitch = src_pitch, .srcHeight = src_height,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = dst, .dstPitch = dst_pitch, .dstHeight = dst_height,
		.WidthInBytes = row, .Height = rows, .Depth = slices,
	};
	DLX_RELAXED(context, cuMemcpy3DAsync(&c, (CUstream)stream));
}

static CUresult dlx_launch(uintptr_t context, uintptr_t function, const uint32_t *grid, unsigned block,
		CUdeviceptr dst, CUdeviceptr src, void *constants, uintptr_t stream) {
	void *arguments[] = {&dst, &src, constants};
	DLX_RELAXED(context, cuLaunchKernel((CUfunction)function, grid[0], grid[1], grid[2], block, 1, 1, 0, (CUstream)stream, arguments, NULL));
}
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/strided"
)

// Copy enqueues a copy of n bytes between any two of memory of the device, pinned and
// managed memory. Memory of the host that is not pinned is read before it returns, or
// written (API synchronization behavior).
func (c Context) Copy(dst, src uintptr, n int64, stream uintptr) Status {
	return Status(C.dlx_copy(C.uintptr_t(c), C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(n), C.uintptr_t(stream)))
}

// CopyBox enqueues the copy of a box; its pitches are within the device's MaxPitch.
func (c Context) CopyBox(dst, src uintptr, b strided.Box, stream uintptr) Status {
	return Status(C.dlx_copy_box(C.uintptr_t(c), C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(b.Row), C.size_t(b.Rows), C.size_t(b.Slices),
		C.size_t(b.DstRowPitch), C.size_t(b.DstSlicePitch/b.DstRowPitch), C.size_t(b.SrcRowPitch), C.size_t(b.SrcSlicePitch/b.SrcRowPitch), C.uintptr_t(stream)))
}

// Launch enqueues a kernel whose parameters are two addresses and constants, which
// are copied.
func (c Context) Launch(function uintptr, grid [3]uint32, block uint32, dst, src uintptr, constants unsafe.Pointer, stream uintptr) Status {
	return Status(C.dlx_launch(C.uintptr_t(c), C.uintptr_t(function), (*C.uint32_t)(&grid[0]), C.uint(block),
		C.CUdeviceptr(dst), C.CUdeviceptr(src), constants, C.uintptr_t(stream)))
}
