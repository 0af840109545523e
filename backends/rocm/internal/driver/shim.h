// What the functions of this package do before and after a call of HIP.
#ifndef DLX_HIP_SHIM_H
#define DLX_HIP_SHIM_H

#include <stdlib.h>
#include <string.h>

#include "table.h"

// dlx_forget forgets the error of a failed call, and returns it: other code of the thread asks hipGetLastError about its own.
static inline hipError_t dlx_forget(hipError_t r) {
	if (r != hipSuccess) (void)dlx_hip.hipGetLastError();
	return r;
}

// HIP's context is a device, which is current for a thread. dlx_enter makes a device current, and dlx_leave the one that
// was current before. Each tries twice, since a call that frees something is not repeated.
static inline hipError_t dlx_make_current(int device) {
	hipError_t r = dlx_hip.hipSetDevice(device);
	if (dlx_forget(r) == hipSuccess) return r;
	return dlx_forget(dlx_hip.hipSetDevice(device));
}

static inline hipError_t dlx_enter(int device, int *before) {
	hipError_t r = dlx_forget(dlx_hip.hipGetDevice(before));
	if (r != hipSuccess) r = dlx_forget(dlx_hip.hipGetDevice(before));
	return r != hipSuccess || *before == device ? r : dlx_make_current(device);
}

// dlx_leave also forgets the error of the call that was made.
static inline void dlx_leave(int device, int before, hipError_t r) {
	if (before != device) dlx_make_current(before);
	(void)dlx_forget(r);
}

// DLX_IN makes a call with a device current, and returns its result from the function.
#define DLX_IN(device, call)                        \
	do {                                            \
		int before;                                 \
		hipError_t r = dlx_enter(device, &before);  \
		if (r != hipSuccess) return r;              \
		r = (call);                                 \
		dlx_leave(device, before, r);               \
		return r;                                   \
	} while (0)

// dlx_relax sets the capture mode of the thread (hipStreamCaptureMode), and returns the previous one. In the relaxed mode,
// a call such as hipMalloc does not fail or invalidate a capture of another thread. A second call with the returned mode
// restores it. The mode is DLX_SAME_MODE if it was not changed.
#define DLX_SAME_MODE ((hipStreamCaptureMode)-1)

static inline hipStreamCaptureMode dlx_relax(hipStreamCaptureMode mode) {
	if (mode == DLX_SAME_MODE) return mode;
	return dlx_forget(dlx_hip.hipThreadExchangeStreamCaptureMode(&mode)) == hipSuccess ? mode : DLX_SAME_MODE;
}

// DLX_RELAXED is DLX_IN in the relaxed mode.
#define DLX_RELAXED(device, call)                                                  \
	do {                                                                           \
		int before;                                                                \
		hipError_t r = dlx_enter(device, &before);                                 \
		if (r != hipSuccess) return r;                                             \
		hipStreamCaptureMode mode = dlx_relax(hipStreamCaptureModeRelaxed);        \
		r = (call);                                                                \
		dlx_relax(mode);                                                           \
		dlx_leave(device, before, r);                                              \
		return r;                                                                  \
	} while (0)

// dlx_captured returns hipErrorStreamCaptureUnsupported for a stream that is being captured into a graph. It is called
// before anything is enqueued, so that the capture stays valid.
static inline hipError_t dlx_captured(hipStream_t stream) {
	hipStreamCaptureStatus state;
	hipError_t r = dlx_hip.hipStreamIsCapturing(stream, &state);
	if (r != hipSuccess) return r;
	return state == hipStreamCaptureStatusNone ? hipSuccess : hipErrorStreamCaptureUnsupported;
}

// dlx_arch copies the name of the architecture, which is in the struct alone. The struct of HIP 6 has a function of its
// own, so the function says which struct it fills. The struct is not thread-local: glibc has some 1.6 KiB for the
// thread-local variables of all libraries that are opened at run time, as libdlx is by Python.
static inline hipError_t dlx_arch(int device, char *out) {
	size_t at = DLX_ARCH_6;
	char *properties = calloc(1, DLX_PROPERTIES);
	if (properties == NULL) return hipErrorOutOfMemory;
	hipError_t r = hipErrorNotSupported;
	if ((void *)dlx_hip.hipGetDevicePropertiesR0600 != dlx_hip_missing) {
		r = dlx_hip.hipGetDevicePropertiesR0600(properties, device);
	} else {
		at = DLX_ARCH_5;
		r = dlx_hip.hipGetDeviceProperties(properties, device);
	}
	if (dlx_forget(r) == hipSuccess) memcpy(out, properties + at, DLX_ARCH_SIZE - 1);
	free(properties);
	return r;
}

#endif
