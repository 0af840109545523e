// stream.c: streams, events, what streams are captured into, and host functions.

#include "hip.h"

CUstream hip_stream_of(hipStream_t stream) {
    return stream == (hipStream_t)1 && hip_version() < 6 ? (CUstream)(uintptr_t)3 : (CUstream)stream;
}

int hip_gone(CUresult r) { return r == CUDA_ERROR_INVALID_HANDLE ? (int)hipErrorContextIsDestroyed : (int)r; }

hipError_t hipStreamCreateWithFlags(hipStream_t *out, unsigned flags) {
    HIP_ENTER(hipStreamCreateWithFlags, HIP_DEVICE);
    HIP_RETURN(cuStreamCreate((CUstream *)out, flags));
}

// "The queue may be destroyed while some commands are still inflight".
hipError_t hipStreamDestroy(hipStream_t stream) {
    HIP_ENTER(hipStreamDestroy, HIP_DEVICE | HIP_RELEASE);
    CUresult r = cuStreamDestroy((CUstream)stream);
    HIP_RETURN(r == CUDA_ERROR_INVALID_HANDLE && (uintptr_t)stream > 2 ? hip_gone(r) : (int)r);
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
    HIP_ENTER(hipStreamSynchronize, HIP_DEVICE);
    HIP_RETURN(hip_gone(cuStreamSynchronize(hip_stream_of(stream))));
}

hipError_t hipStreamQuery(hipStream_t stream) {
    HIP_ENTER(hipStreamQuery, HIP_DEVICE);
    HIP_RETURN(hip_gone(cuStreamQuery(hip_stream_of(stream))));
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned flags) {
    HIP_ENTER(hipStreamWaitEvent, HIP_DEVICE);
    if (flags != 0) HIP_RETURN(hipErrorInvalidValue);
    HIP_RETURN(cuStreamWaitEvent(hip_stream_of(stream), (CUevent)event, 0));
}

// device_of is the ordinal of a stream's device, or -1.
static int device_of(hipStream_t stream, CUresult *r) {
    sim_scope in __attribute__((cleanup(sim_leave))) = sim_enter(NULL, SIM_CONTEXT);
    *r = in.result;
    sim_stream *s = *r == CUDA_SUCCESS ? sim_stream_find(&in, hip_stream_of(stream), r) : NULL;
    if (s == NULL) return -1;
    *r = CUDA_SUCCESS;
    return s->ctx->device->ordinal;
}

// It returns no code.
int hipGetStreamDeviceId(hipStream_t stream) {
    hip_scope scope __attribute__((cleanup(hip_leave))) = hip_enter("hipGetStreamDeviceId", HIP_DEVICE);
    CUresult r;
    return scope.result == hipSuccess ? device_of(stream, &r) : -1;
}

static hipError_t stream_device(hipStream_t stream, hipDevice_t *out) {
    HIP_ENTER(hipStreamGetDevice, HIP_DEVICE);
    if (out == NULL) HIP_RETURN(hipErrorInvalidValue);
    CUresult r;
    int ordinal = device_of(stream, &r);
    if (r == CUDA_SUCCESS) *out = ordinal;
    HIP_RETURN(hip_gone(r));
}
HIP_SINCE(6, hipStreamGetDevice, stream_device);

// Its header declares it, but AMD's library of 5.2 does not have it.
static hipError_t launch_host_func(hipStream_t stream, hipHostFn_t function, void *data) {
    HIP_ENTER(hipLaunchHostFunc, HIP_DEVICE);
    HIP_RETURN(hip_gone(cuLaunchHostFunc(hip_stream_of(stream), (CUhostFn)function, data)));
}
HIP_SINCE(6, hipLaunchHostFunc, launch_host_func);

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function, void *data, unsigned flags) {
    HIP_ENTER(hipStreamAddCallback, HIP_DEVICE);
    CUstreamCallback f = (CUstreamCallback)(void (*)(void))function;
    HIP_RETURN(hip_gone(cuStreamAddCallback(hip_stream_of(stream), f, data, flags)));
}

// ---- Captures --------------------------------------------------------------------------

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode) {
    HIP_ENTER(hipThreadExchangeStreamCaptureMode, HIP_INIT);
    HIP_RETURN(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode) {
    HIP_ENTER(hipStreamBeginCapture, HIP_DEVICE);
    HIP_RETURN(hip_gone(cuStreamBeginCapture(hip_stream_of(stream), (CUstreamCaptureMode)mode)));
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *out) {
    HIP_ENTER(hipStreamEndCapture, HIP_DEVICE);
    HIP_RETURN(hip_gone(cuStreamEndCapture(hip_stream_of(stream), (CUgraph *)out)));
}

hipError_t hipStreamIsCapturing(hipStream_t stream, hipStreamCaptureStatus *status) {
    HIP_ENTER(hipStreamIsCapturing, HIP_DEVICE);
    HIP_RETURN(hip_gone(cuStreamIsCapturing(hip_stream_of(stream), (CUstreamCaptureStatus *)status)));
}

hipError_t hipGraphDestroy(hipGraph_t graph) {
    HIP_ENTER(hipGraphDestroy, HIP_DEVICE | HIP_RELEASE);
    HIP_RETURN(cuGraphDestroy((CUgraph)graph));
}

// ---- Events ----------------------------------------------------------------------------

hipError_t hipEventCreateWithFlags(hipEvent_t *out, unsigned flags) {
    HIP_ENTER(hipEventCreateWithFlags, HIP_DEVICE);
    const unsigned release = hipEventReleaseToDevice | hipEventReleaseToSystem;
    if ((flags & release) == release) HIP_RETURN(hipErrorInvalidValue);
    HIP_RETURN(cuEventCreate((CUevent *)out, flags & ~release));
}

hipError_t hipEventDestroy(hipEvent_t event) {
    HIP_ENTER(hipEventDestroy, HIP_DEVICE | HIP_RELEASE);
    CUresult r = cuEventDestroy((CUevent)event);
    HIP_RETURN(event ? hip_gone(r) : (int)r);
}

// An event of another device than the stream's is hipErrorInvalidHandle.
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
    HIP_ENTER(hipEventRecord, HIP_DEVICE);
    CUresult r;
    device_of(stream, &r);
    if (r != CUDA_SUCCESS && event) HIP_RETURN(hip_gone(r));
    HIP_RETURN(cuEventRecord((CUevent)event, hip_stream_of(stream)));
}

hipError_t hipEventQuery(hipEvent_t event) {
    HIP_ENTER(hipEventQuery, HIP_DEVICE);
    HIP_RETURN(cuEventQuery((CUevent)event));
}

hipError_t hipEventElapsedTime(float *ms, hipEvent_t from, hipEvent_t to) {
    HIP_ENTER(hipEventElapsedTime, HIP_DEVICE);
    if (ms == NULL) HIP_RETURN(hipErrorInvalidValue);
    HIP_RETURN(cuEventElapsedTime(ms, (CUevent)from, (CUevent)to));
}

_Static_assert((int)hipEventBlockingSync == CU_EVENT_BLOCKING_SYNC && (int)hipEventDisableTiming == CU_EVENT_DISABLE_TIMING &&
                   (int)hipEventInterprocess == CU_EVENT_INTERPROCESS && (int)hipStreamNonBlocking == CU_STREAM_NON_BLOCKING,
               "the engine's flags are HIP's");
_Static_assert((int)hipStreamCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED &&
                   (int)hipStreamCaptureStatusInvalidated == CU_STREAM_CAPTURE_STATUS_INVALIDATED,
               "and so are its modes of capture");
