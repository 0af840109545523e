//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

static CUresult dlx_copy(uintptr_t context, CUdeviceptr dst, CUdeviceptr src, size_t n, uintptr_t stream) {
	DLX_RELAXED(context, cuMemcpyAsync(dst, src, n, (CUstream)stream));
}

// With unified addressing the driver finds out where an address lies, in host memory too
// (CU_MEMORYTYPE_UNIFIED). A rectangle is a box of one slice, since cuMemcpy2DAsync may fail
// for pitches that cuMemAllocPitch has not chosen.
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

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/strided"
)

func (c context) Copy(dst, src uintptr, n int64, stream uintptr) cudalike.Status {
	return answer("cuMemcpyAsync", C.dlx_copy(C.uintptr_t(c), C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(n), C.uintptr_t(stream)))
}

func (c context) CopyBox(dst, src uintptr, b strided.Box, stream uintptr) cudalike.Status {
	return answer("cuMemcpy3DAsync", C.dlx_copy_box(C.uintptr_t(c), C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(b.Row), C.size_t(b.Rows), C.size_t(b.Slices),
		C.size_t(b.DstRowPitch), C.size_t(b.DstSlicePitch/b.DstRowPitch), C.size_t(b.SrcRowPitch), C.size_t(b.SrcSlicePitch/b.SrcRowPitch), C.uintptr_t(stream)))
}

func (c context) Launch(function uintptr, grid [3]uint32, block uint32, dst, src uintptr, constants unsafe.Pointer, stream uintptr) cudalike.Status {
	return answer("cuLaunchKernel", C.dlx_launch(C.uintptr_t(c), C.uintptr_t(function), (*C.uint32_t)(&grid[0]), C.uint(block),
		C.CUdeviceptr(dst), C.CUdeviceptr(src), constants, C.uintptr_t(stream)))
}
