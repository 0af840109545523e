//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

// dlx_copied is the result of copies with an event behind them: the code of the step that failed, and whether the
// event was recorded. An event that cannot be recorded is no failure of the copies.
enum dlx_step { DLX_ENTER, DLX_CAPTURE, DLX_COPY, DLX_BATCH };
typedef struct { CUresult code; enum dlx_step step; int recorded; } dlx_copied;

// DLX_COPIED does everything that copies need in one call from Go: the context, the check, the copies, the event.
#define DLX_COPIED(context, event, stream, what, copies)                                                       \
	do {                                                                                                       \
		CUstreamCaptureMode mode;                                                                              \
		dlx_copied done = {.step = DLX_ENTER};                                                                 \
		done.code = dlx_enter_relaxed(context, &mode);                                                         \
		if (done.code != CUDA_SUCCESS) return done;                                                            \
		done.step = DLX_CAPTURE;                                                                               \
		done.code = dlx_captured((CUstream)(stream));                                                          \
		if (done.code == CUDA_SUCCESS) {                                                                       \
			done.step = (what);                                                                                \
			done.code = (copies);                                                                              \
		}                                                                                                      \
		if (done.code == CUDA_SUCCESS && (event) != 0)                                                         \
			done.recorded = cuEventRecord((CUevent)(event), (CUstream)(stream)) == CUDA_SUCCESS;               \
		dlx_leave_relaxed(mode);                                                                               \
		return done;                                                                                           \
	} while (0)

static dlx_copied dlx_copy(uintptr_t context, CUdeviceptr dst, CUdeviceptr src, size_t n, uintptr_t stream, uintptr_t event) {
	DLX_COPIED(context, event, stream, DLX_COPY, cuMemcpyAsync(dst, src, n, (CUstream)stream));
}

// dlx_attributes is CUmemcpyAttributes of CUDA 12.8: all sources are read in the order of the stream, and no place is
// hinted at.
typedef struct { int order, source_hint[2], destination_hint[2]; unsigned flags; } dlx_batch_attributes;
#if CUDA_VERSION >= 12080
_Static_assert(sizeof(dlx_batch_attributes) == sizeof(CUmemcpyAttributes), "CUmemcpyAttributes");
_Static_assert(CU_MEMCPY_SRC_ACCESS_ORDER_STREAM == 1, "CU_MEMCPY_SRC_ACCESS_ORDER_STREAM");
#endif

// cuMemcpyBatchAsync(...) of CUDA 12.8, and of CUDA 13, which has no failIdx. The header has one of them, or none.
CUresult CUDAAPI dlx_batch_12(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, dlx_batch_attributes *attrs,
		size_t *attrsIdxs, size_t numAttrs, size_t *failIdx, CUstream stream) __asm__("cuMemcpyBatchAsync");
CUresult CUDAAPI dlx_batch_13(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count, dlx_batch_attributes *attrs,
		size_t *attrsIdxs, size_t numAttrs, CUstream stream) __asm__("cuMemcpyBatchAsync_v2");

// dlx_copies makes the copies by the newest function that the driver has. The batch takes no legacy stream.
static CUresult dlx_copies(CUdeviceptr *dst, CUdeviceptr *src, size_t *size, size_t count, CUstream stream, enum dlx_step *step) {
	dlx_batch_attributes attributes = {.order = 1};
	size_t first = 0, failed;
	CUresult r = CUDA_ERROR_NOT_SUPPORTED;
	*step = DLX_BATCH;
	if (stream != CU_STREAM_LEGACY) {
		r = dlx_batch_13(dst, src, size, count, &attributes, &first, 1, stream);
		if (r == CUDA_ERROR_NOT_SUPPORTED) r = dlx_batch_12(dst, src, size, count, &attributes, &first, 1, &failed, stream);
	}
	if (r != CUDA_ERROR_NOT_SUPPORTED) return r;
	*step = DLX_COPY;
	r = CUDA_SUCCESS;
	for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) r = cuMemcpyAsync(dst[i], src[i], size[i], stream);
	return r;
}

static dlx_copied dlx_copy_batch(uintptr_t context, CUdeviceptr *dst, CUdeviceptr *src, size_t *size, size_t count, uintptr_t stream, uintptr_t event) {
	DLX_COPIED(context, event, stream, done.step, dlx_copies(dst, src, size, count, (CUstream)stream, &done.step));
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

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// steps are the functions that enum dlx_step stands for.
var steps = [...]string{C.DLX_ENTER: "cuCtxPushCurrent", C.DLX_CAPTURE: "cuStreamIsCapturing", C.DLX_COPY: "cuMemcpyAsync", C.DLX_BATCH: "cuMemcpyBatchAsync"}

func copied(r C.dlx_copied) (recorded bool, s cudalike.Status) {
	return r.recorded != 0, answer(steps[r.step], r.code)
}

func (c context) Copy(dst, src uintptr, n int64, stream, event uintptr) (recorded bool, s cudalike.Status) {
	return copied(C.dlx_copy(C.uintptr_t(c), C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(n), C.uintptr_t(stream), C.uintptr_t(event)))
}

func (c context) CopyBatch(p cudalike.Pieces, stream, event uintptr) (recorded bool, s cudalike.Status) {
	return copied(C.dlx_copy_batch(C.uintptr_t(c), (*C.CUdeviceptr)(unsafe.Pointer(&p.Dst[0])), (*C.CUdeviceptr)(unsafe.Pointer(&p.Src[0])),
		(*C.size_t)(unsafe.Pointer(&p.Size[0])), C.size_t(len(p.Dst)), C.uintptr_t(stream), C.uintptr_t(event)))
}

func (c context) CopyBox(dst, src uintptr, b copyplan.Box, stream uintptr) cudalike.Status {
	return answer("cuMemcpy3DAsync", C.dlx_copy_box(C.uintptr_t(c), C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(b.Row), C.size_t(b.Rows), C.size_t(b.Slices),
		C.size_t(b.DstRowPitch), C.size_t(b.DstSlicePitch/b.DstRowPitch), C.size_t(b.SrcRowPitch), C.size_t(b.SrcSlicePitch/b.SrcRowPitch), C.uintptr_t(stream)))
}

func (c context) Launch(function uintptr, grid [3]uint32, block uint32, dst, src uintptr, constants unsafe.Pointer, stream uintptr) cudalike.Status {
	return answer("cuLaunchKernel", C.dlx_launch(C.uintptr_t(c), C.uintptr_t(function), (*C.uint32_t)(&grid[0]), C.uint(block),
		C.CUdeviceptr(dst), C.CUdeviceptr(src), constants, C.uintptr_t(stream)))
}
