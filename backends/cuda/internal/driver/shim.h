// What the functions of this package do before and after a call of the driver.
#ifndef DLX_CUDA_SHIM_H
#define DLX_CUDA_SHIM_H

#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>

static inline CUresult dlx_try_enter(CUcontext context, int *pushed) {
	CUcontext current;
	CUresult r = cuCtxGetCurrent(&current);
	*pushed = 0;
	if (r != CUDA_SUCCESS || current == context) return r;
	r = cuCtxPushCurrent(context);
	*pushed = r == CUDA_SUCCESS;
	return r;
}

// dlx_enter makes a context current, unless it is current already. dlx_leave undoes that.
// dlx_enter tries twice, since a call that frees something is not repeated.
static inline CUresult dlx_enter(CUcontext context, int *pushed) {
	CUresult r = dlx_try_enter(context, pushed);
	return r == CUDA_SUCCESS ? r : dlx_try_enter(context, pushed);
}

static inline void dlx_leave(int pushed) {
	CUcontext ours;
	if (pushed) cuCtxPopCurrent(&ours);
}

// DLX_IN makes a call with a context current, and returns its result from the function.
#define DLX_IN(context, call)                              \
	do {                                                   \
		int pushed;                                        \
		CUresult r = dlx_enter((CUcontext)(context), &pushed); \
		if (r != CUDA_SUCCESS) return r;                   \
		r = (call);                                        \
		dlx_leave(pushed);                                 \
		return r;                                          \
	} while (0)

// dlx_relax sets the capture mode of the thread (CUstreamCaptureMode), and returns the previous one.
// In the relaxed mode, a call such as cuMemAlloc does not invalidate the capture of another thread.
// A second call with the returned mode restores it. The mode is DLX_SAME_MODE if it was not changed.
#define DLX_SAME_MODE ((CUstreamCaptureMode)-1)

static inline CUstreamCaptureMode dlx_relax(CUstreamCaptureMode mode) {
	if (mode == DLX_SAME_MODE || cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS) return DLX_SAME_MODE;
	return mode;
}

// dlx_enter_relaxed is dlx_enter and dlx_relax. dlx_leave_relaxed undoes both.
static inline CUresult dlx_enter_relaxed(uintptr_t context, int *pushed, CUstreamCaptureMode *mode) {
	CUresult r = dlx_enter((CUcontext)context, pushed);
	if (r == CUDA_SUCCESS) *mode = dlx_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
	return r;
}

static inline void dlx_leave_relaxed(int pushed, CUstreamCaptureMode mode) {
	dlx_relax(mode);
	dlx_leave(pushed);
}

// DLX_RELAXED is DLX_IN in the relaxed mode.
#define DLX_RELAXED(context, call)                                              \
	do {                                                                        \
		int pushed;                                                             \
		CUstreamCaptureMode mode;                                               \
		CUresult r = dlx_enter_relaxed(context, &pushed, &mode);                \
		if (r != CUDA_SUCCESS) return r;                                        \
		r = (call);                                                             \
		dlx_leave_relaxed(pushed, mode);                                        \
		return r;                                                               \
	} while (0)

#endif
