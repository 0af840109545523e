// enter.c: what every entry point passes through, the errors, and the thread's device.

#include "hip.h"

#include <stdlib.h>
#include <string.h>

int hip_version(void) {
    static _Atomic int version;
    if (version == 0) version = (int)sim_environment("DLX_GPUSIM_HIP_VERSION", 6, 5, 7);
    return version;
}

int hip_runtime_version(void) {
    // HIP_VERSION_MAJOR * 10000000 + HIP_VERSION_MINOR * 100000 + HIP_VERSION_PATCH (hip_version.h)
    static const int versions[] = {[5] = 50221153, [6] = 60443482, [7] = 70151803};
    const int version = versions[hip_version()], minor = version / 100000 % 100;
    return version + ((int)sim_environment("DLX_GPUSIM_HIP_MINOR", minor, 0, 99) - minor) * 100000;
}

// ---- The thread ------------------------------------------------------------------------

static _Thread_local int device;
static _Thread_local hipError_t last_error;

// none is what a library without devices returns: those of 5.x fail to initialise.
static hipError_t none(void) { return hip_version() < 6 ? hipErrorInvalidDevice : hipErrorNoDevice; }

hip_scope hip_enter(const char *call, unsigned needs) {
    hip_scope scope = {.call = call, .outer = sim_outer, .device = device};
    if (sim_in_callback) {
        pthread_mutex_lock(&sim.mu);
        sim_misuse(call, "called from a host function, which must not call HIP");
        pthread_mutex_unlock(&sim.mu);
        scope.result = hipErrorNotSupported;
        return scope;
    }
    sim_outer = call;
    bool there = cuInit(0) == CUDA_SUCCESS;
    pthread_mutex_lock(&sim.mu);
    CUresult code = CUDA_SUCCESS;
    if (there && (needs & HIP_DEVICE) == HIP_DEVICE) code = sim_use_device(&sim.devices[device]);
    CUresult fault = sim_count_outer(call, &scope.call);
    sim_outer = scope.call;
    pthread_mutex_unlock(&sim.mu);
    if (code == CUDA_SUCCESS && !(needs & HIP_RELEASE)) code = fault;
    if (needs & HIP_RELEASE) scope.late = fault;
    scope.result = !there && (needs & HIP_INIT) ? none() : (hipError_t)code;
    return scope;
}

void hip_leave(hip_scope *scope) { sim_outer = scope->outer; }

sim_context *hip_context_of(int ordinal, CUresult *code) {
    sim_device *d = sim_device_get(ordinal);
    *code = CUDA_ERROR_INVALID_DEVICE;
    if (d == NULL) return NULL;
    if (d->primary == NULL) {
        *code = sim_use_device(d);
        if (*code != CUDA_SUCCESS) return NULL;
        *code = sim_use_device(&sim.devices[device]);
        if (*code != CUDA_SUCCESS) return NULL;
    }
    *code = CUDA_SUCCESS;
    return d->primary;
}

hipError_t hipSetDevice(int ordinal) {
    HIP_ENTER(hipSetDevice, HIP_INIT);
    if (sim_device_get(ordinal) == NULL) HIP_RETURN(hipErrorInvalidDevice);
    device = ordinal;
    HIP_RETURN(hipSuccess);
}

hipError_t hipGetDevice(int *out) {
    HIP_ENTER(hipGetDevice, HIP_INIT);
    if (out == NULL) HIP_RETURN(hipErrorInvalidValue);
    *out = device;
    HIP_RETURN(hipSuccess);
}

// ---- Errors ----------------------------------------------------------------------------

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
#define ERROR(code, text) {code, #code, text}
    ERROR(hipSuccess, "no error"),
    ERROR(hipErrorInvalidValue, "invalid argument"),
    ERROR(hipErrorOutOfMemory, "out of memory"),
    ERROR(hipErrorNotInitialized, "initialization error"),
    ERROR(hipErrorDeinitialized, "driver shutting down"),
    ERROR(hipErrorInvalidConfiguration, "invalid configuration argument"),
    ERROR(hipErrorInvalidPitchValue, "invalid pitch argument"),
    ERROR(hipErrorInvalidDevicePointer, "invalid device pointer"),
    ERROR(hipErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ERROR(hipErrorInvalidDeviceFunction, "invalid device function"),
    ERROR(hipErrorNoDevice, "no ROCm-capable device is detected"),
    ERROR(hipErrorInvalidDevice, "invalid device ordinal"),
    ERROR(hipErrorInvalidImage, "device kernel image is invalid"),
    ERROR(hipErrorInvalidContext, "invalid device context"),
    ERROR(hipErrorMapFailed, "mapping of buffer object failed"),
    ERROR(hipErrorAlreadyMapped, "resource already mapped"),
    ERROR(hipErrorNoBinaryForGpu, "no kernel image is available for execution on the device"),
    ERROR(hipErrorNotMapped, "resource not mapped"),
    ERROR(hipErrorECCNotCorrectable, "uncorrectable ECC error encountered"),
    ERROR(hipErrorPeerAccessUnsupported, "peer access is not supported between these two devices"),
    ERROR(hipErrorInvalidKernelFile, "invalid kernel file"),
    ERROR(hipErrorInvalidGraphicsContext, "invalid OpenGL or DirectX context"),
    ERROR(hipErrorInvalidSource, "device kernel image is invalid"),
    ERROR(hipErrorOperatingSystem, "OS call failed or operation not supported on this OS"),
    ERROR(hipErrorInvalidHandle, "invalid resource handle"),
    ERROR(hipErrorIllegalState, "the operation cannot be performed in the present state"),
    ERROR(hipErrorNotFound, "named symbol not found"),
    ERROR(hipErrorNotReady, "device not ready"),
    ERROR(hipErrorIllegalAddress, "an illegal memory access was encountered"),
    ERROR(hipErrorLaunchOutOfResources, "too many resources requested for launch"),
    ERROR(hipErrorLaunchTimeOut, "the launch timed out and was terminated"),
    ERROR(hipErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    ERROR(hipErrorPeerAccessNotEnabled, "peer access has not been enabled"),
    ERROR(hipErrorContextIsDestroyed, "context is destroyed"),
    ERROR(hipErrorAssert, "device-side assert triggered"),
    ERROR(hipErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"),
    ERROR(hipErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"),
    ERROR(hipErrorLaunchFailure, "unspecified launch failure"),
    ERROR(hipErrorNotSupported, "operation not supported"),
    ERROR(hipErrorStreamCaptureUnsupported, "operation not permitted when stream is capturing"),
    ERROR(hipErrorStreamCaptureInvalidated, "operation failed due to a previous error during capture"),
    ERROR(hipErrorStreamCaptureMerge, "operation would result in a merge of separate capture sequences"),
    ERROR(hipErrorStreamCaptureUnmatched, "capture was not ended in the same stream as it began"),
    ERROR(hipErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    ERROR(hipErrorStreamCaptureIsolation, "dependency created on uncaptured work in another stream"),
    ERROR(hipErrorStreamCaptureImplicit, "operation would make the legacy stream depend on a capturing blocking stream"),
    ERROR(hipErrorCapturedEvent, "operation not permitted on an event last recorded in a capturing stream"),
    ERROR(hipErrorStreamCaptureWrongThread, "attempt to terminate a thread-local capture sequence from another thread"),
    ERROR(hipErrorUnknown, "unknown error"),
#undef ERROR
};

// known finds a code in the table; codes that are not there are described as hipErrorUnknown, the last one.
static size_t known(int code) {
    size_t i = 0;
    while (i + 1 < sizeof errors / sizeof *errors && errors[i].code != code) i++;
    return i;
}

const char *hipGetErrorName(hipError_t code) { return errors[known((int)code)].name; }

// The libraries of 5.x return the name here, too.
const char *hipGetErrorString(hipError_t code) {
    return hip_version() < 6 ? hipGetErrorName(code) : errors[known((int)code)].text;
}

// translate is for the codes of CUDA that HIP has not.
static hipError_t translate(int code) {
    switch (code) {
    case CUDA_ERROR_NOT_PERMITTED: return hipErrorNotSupported;
    case CUDA_ERROR_MISALIGNED_ADDRESS: return hipErrorLaunchFailure;
    case CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE: return hipErrorSetOnActiveProcess;
    case CUDA_ERROR_DEVICE_UNAVAILABLE: return hipErrorInvalidDevice;
    default: return (hipError_t)code;
    }
}

// Before ROCm 7 every call sets the last error, also to hipSuccess; since then only failures do, and
// hipErrorNotReady is none.
hipError_t hip_result(const hip_scope *scope, int code) {
    hipError_t r = translate(code != CUDA_SUCCESS ? code : (int)scope->late);
    if (hip_version() < 7 || (r != hipSuccess && r != hipErrorNotReady)) last_error = r;
    return r;
}

// hipGetLastError counts as a call, and cannot fail by itself.
hipError_t hipGetLastError(void) {
    const char *call;
    pthread_mutex_lock(&sim.mu);
    sim_count_outer("hipGetLastError", &call);
    pthread_mutex_unlock(&sim.mu);
    hipError_t r = last_error;
    last_error = hipSuccess;
    return r;
}
