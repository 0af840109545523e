//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

// The result of copies with an event behind them: the code and the call that failed, and whether the event was recorded.
// An event that cannot be recorded is no failure of the copies.
struct dlx_copies {
	hipError_t code;
	const char *call;
	int recorded;
};

static inline hipError_t dlx_copy_all(void **dst, void **src, size_t *size, size_t count, hipStream_t stream) {
	hipError_t r = hipSuccess;
	for (size_t i = 0; i < count && r == hipSuccess; i++)
		r = dlx_hip.hipMemcpyAsync(dst[i], src[i], size[i], hipMemcpyDefault, stream);
	return r;
}

// dlx_copy does everything that copies need in one call from Go: the device, the check, the copies, the event.
static struct dlx_copies dlx_copy(int device, void *dst, void *src, size_t *size, size_t count, uintptr_t on, uintptr_t event) {
	hipStream_t stream = (hipStream_t)on;
	struct dlx_copies done = {.call = "hipSetDevice"};
	int before;
	done.code = dlx_enter(device, &before);
	if (done.code != hipSuccess) return done;
	hipStreamCaptureMode mode = dlx_relax(hipStreamCaptureModeRelaxed);
	done.call = "hipStreamIsCapturing";
	done.code = dlx_captured(stream);
	if (done.code == hipSuccess) {
		done.call = "hipMemcpyAsync";
		done.code = dlx_copy_all(dst, src, size, count, stream);
	}
	if (done.code == hipSuccess && event) {
		done.recorded = dlx_hip.hipEventRecord((hipEvent_t)event, stream) == hipSuccess;
		if (!done.recorded) (void)dlx_hip.hipGetLastError();
	}
	dlx_relax(mode);
	dlx_leave(device, before, done.code);
	return done;
}

static struct dlx_copies dlx_copy_one(int device, uintptr_t dst, uintptr_t src, size_t n, uintptr_t stream, uintptr_t event) {
	return dlx_copy(device, &dst, &src, &n, 1, stream, event);
}

static hipError_t dlx_copy_box(int device, hipMemcpy3DParms box, uintptr_t stream) {
	DLX_RELAXED(device, dlx_hip.hipMemcpy3DAsync(&box, (hipStream_t)stream));
}

static hipError_t dlx_launch(int device, uintptr_t function, const uint32_t *grid, unsigned block,
		uintptr_t dst, uintptr_t src, void *constants, uintptr_t stream) {
	void *arguments[] = {&dst, &src, constants};
	DLX_RELAXED(device, dlx_hip.hipModuleLaunchKernel((hipFunction_t)function, grid[0], grid[1], grid[2], block, 1, 1, 0,
		(hipStream_t)stream, arguments, NULL));
}
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

func copied(r C.struct_dlx_copies) (recorded bool, s cudalike.Status) {
	if r.code != C.hipSuccess {
		s = answer(C.GoString(r.call), r.code)
	}
	return r.recorded != 0, s
}

func (c context) Copy(dst, src uintptr, n int64, stream, event uintptr) (recorded bool, s cudalike.Status) {
	return copied(C.dlx_copy_one(c.device(), C.uintptr_t(dst), C.uintptr_t(src), C.size_t(n), C.uintptr_t(stream), C.uintptr_t(event)))
}

// CopyBatch makes one copy after the other: HIP has no call for many.
func (c context) CopyBatch(p cudalike.Pieces, stream, event uintptr) (recorded bool, s cudalike.Status) {
	return copied(C.dlx_copy(c.device(), unsafe.Pointer(&p.Dst[0]), unsafe.Pointer(&p.Src[0]), (*C.size_t)(unsafe.Pointer(&p.Size[0])),
		C.size_t(len(p.Dst)), C.uintptr_t(stream), C.uintptr_t(event)))
}

// CopyBox lets HIP find out where an address lies, in host memory too (hipMemcpyDefault).
func (c context) CopyBox(dst, src uintptr, b copyplan.Box, stream uintptr) cudalike.Status {
	box := C.hipMemcpy3DParms{
		extent: C.struct_hipExtent{width: C.size_t(b.Row), height: C.size_t(b.Rows), depth: C.size_t(b.Slices)},
		kind:   C.hipMemcpyDefault,
	}
	setSide(&box.dstPtr, dst, b.Row, b.DstRowPitch, b.DstSlicePitch)
	setSide(&box.srcPtr, src, b.Row, b.SrcRowPitch, b.SrcSlicePitch)
	return answer("hipMemcpy3DAsync", C.dlx_copy_box(c.device(), box, C.uintptr_t(stream)))
}

// setSide describes the memory on one side of a box.
func setSide(p *C.struct_hipPitchedPtr, address uintptr, row, rowPitch, slicePitch int64) {
	*(*uintptr)(unsafe.Pointer(&p.ptr)) = address
	p.pitch, p.xsize, p.ysize = C.size_t(rowPitch), C.size_t(row), C.size_t(slicePitch/rowPitch)
}

func (c context) Launch(function uintptr, grid [3]uint32, block uint32, dst, src uintptr, constants unsafe.Pointer, stream uintptr) cudalike.Status {
	return answer("hipModuleLaunchKernel", C.dlx_launch(c.device(), C.uintptr_t(function), (*C.uint32_t)(&grid[0]), C.uint(block),
		C.uintptr_t(dst), C.uintptr_t(src), constants, C.uintptr_t(stream)))
}
