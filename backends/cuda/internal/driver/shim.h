// What the functions of this package do before and after a call of the driver.
#ifndef DLX_CUDA_SHIM_H
#define DLX_CUDA_SHIM_H

#include <cuda.h>
#include <stdint.h>
#include <stdlib.h>

// dlx_enter makes a context current. dlx_leave undoes that. It is pushed even if it is current
// already: the threads of a Go program mostly have none, and to ask would be one more call.
// dlx_enter tries twice, since a call that frees something is not repeated.
static inline CUresult dlx_enter(CUcontext context) {
	CUresult r = cuCtxPushCurrent(context);
	return r == CUDA_SUCCESS ? r : cuCtxPushCurrent(context);
}

static inline void dlx_leave(void) {
	CUcontext ours;
	cuCtxPopCurrent(&ours);
}

// DLX_IN makes a call with a context current, and returns its result from the function.
#define DLX_IN(context, call)                              \
	do {                                                   \
		CUresult r = dlx_enter((CUcontext)(context));      \
		if (r != CUDA_SUCCESS) return r;                   \
		r = (call);                                        \
		dlx_leave();                                       \
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
static inline CUresult dlx_enter_relaxed(uintptr_t context, CUstreamCaptureMode *mode) {
	CUresult r = dlx_enter((CUcontext)context);
	if (r == CUDA_SUCCESS) *mode = dlx_relax(CU_STREAM_CAPTURE_MODE_RELAXED);
	return r;
}

static inline void dlx_leave_relaxed(CUstreamCaptureMode mode) {
	dlx_relax(mode);
	dlx_leave();
}

// DLX_RELAXED is DLX_IN in the relaxed mode.
#define DLX_RELAXED(context, call)                                              \
	do {                                                                        \
		CUstreamCaptureMode mode;                                               \
		CUresult r = dlx_enter_relaxed(context, &mode);                         \
		if (r != CUDA_SUCCESS) return r;                                        \
		r = (call);                                                             \
		dlx_leave_relaxed(mode);                                                \
		return r;                                                               \
	} while (0)

// dlx_captured returns CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED for a stream that is being captured
// into a graph. It is called before anything is enqueued, so that the capture stays valid.
static inline CUresult dlx_captured(CUstream stream) {
	CUstreamCaptureStatus state;
	CUresult r = cuStreamIsCapturing(stream, &state);
	if (r != CUDA_SUCCESS) return r;
	return state == CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

#endif
