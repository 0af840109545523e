//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

static inline hipError_t dlx_event_record(hipEvent_t event, hipStream_t stream) {
	hipError_t r = dlx_captured(stream);
	return r == hipSuccess ? dlx_hip.hipEventRecord(event, stream) : r;
}

static inline hipError_t dlx_event_wait(hipEvent_t event, hipStream_t stream) {
	hipError_t r = dlx_captured(stream);
	return r == hipSuccess ? dlx_hip.hipStreamWaitEvent(stream, event, 0) : r;
}

static inline hipError_t dlx_stream_wait(hipStream_t stream) {
	hipError_t r = dlx_captured(stream);
	return r == hipSuccess ? dlx_hip.hipStreamSynchronize(stream) : r;
}

static hipError_t dlx_stream(int device, hipStream_t *out) {
	DLX_RELAXED(device, dlx_hip.hipStreamCreateWithFlags(out, hipStreamNonBlocking));
}

static hipError_t dlx_destroy_stream(int device, uintptr_t stream) {
	DLX_RELAXED(device, dlx_hip.hipStreamDestroy((hipStream_t)stream));
}

static hipError_t dlx_synchronize(int device, uintptr_t stream) {
	DLX_RELAXED(device, dlx_stream_wait((hipStream_t)stream));
}

static hipError_t dlx_check_capture(int device, uintptr_t stream) {
	DLX_RELAXED(device, dlx_captured((hipStream_t)stream));
}

// dlx_device_of returns the device of a stream by the function of 5.6, or else by an older one, which returns the device.
static inline hipError_t dlx_device_of(hipStream_t stream, int *out) {
	if ((void *)dlx_hip.hipStreamGetDevice != dlx_hip_missing) return dlx_hip.hipStreamGetDevice(stream, out);
	if ((void *)dlx_hip.hipGetStreamDeviceId == dlx_hip_missing) return hipErrorNotSupported;
	*out = (int)dlx_hip.hipGetStreamDeviceId(stream);
	return *out < 0 ? hipErrorInvalidHandle : hipSuccess;
}

static hipError_t dlx_stream_device(int device, uintptr_t stream, int *out) {
	DLX_RELAXED(device, dlx_device_of((hipStream_t)stream, out));
}

static hipError_t dlx_event(int device, hipEvent_t *out, unsigned flags) {
	DLX_RELAXED(device, dlx_hip.hipEventCreateWithFlags(out, flags));
}

static hipError_t dlx_destroy_event(int device, uintptr_t event) {
	DLX_RELAXED(device, dlx_hip.hipEventDestroy((hipEvent_t)event));
}

static hipError_t dlx_record(int device, uintptr_t event, uintptr_t stream) {
	DLX_RELAXED(device, dlx_event_record((hipEvent_t)event, (hipStream_t)stream));
}

static hipError_t dlx_wait(int device, uintptr_t event, uintptr_t stream) {
	DLX_RELAXED(device, dlx_event_wait((hipEvent_t)event, (hipStream_t)stream));
}

static hipError_t dlx_query(int device, uintptr_t event) {
	DLX_RELAXED(device, dlx_hip.hipEventQuery((hipEvent_t)event));
}

static hipError_t dlx_elapsed(int device, float *ms, uintptr_t from, uintptr_t to) {
	DLX_RELAXED(device, dlx_hip.hipEventElapsedTime(ms, (hipEvent_t)from, (hipEvent_t)to));
}
*/
import "C"

import (
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

// NewStream may be the first call for which the runtime makes a queue of the hardware, with all that it needs.
func (c context) NewStream() (uintptr, cudalike.Status) {
	defer dl.KeepHandlers()()
	var made C.hipStream_t
	s := answer("hipStreamCreateWithFlags", C.dlx_stream(c.device(), &made))
	return uintptr(unsafe.Pointer(made)), s
}

func (c context) DestroyStream(raw uintptr) cudalike.Status {
	return answer("hipStreamDestroy", C.dlx_destroy_stream(c.device(), C.uintptr_t(raw)))
}

func (c context) StreamContext(raw uintptr) (cudalike.ContextID, cudalike.Status) {
	var of C.int
	s := answer("hipStreamGetDevice", C.dlx_stream_device(c.device(), C.uintptr_t(raw), &of))
	return context(of).ID(), s
}

// StreamID is not supported. It is for streams of threads, which have no number in DLPack's numbers for ROCm.
func (c context) StreamID(uintptr) (uint64, cudalike.Status) { return 0, unsupported("StreamID") }

func (c context) Synchronize(raw uintptr) cudalike.Status {
	return answer("hipStreamSynchronize", C.dlx_synchronize(c.device(), C.uintptr_t(raw)))
}

func (c context) CheckCapture(raw uintptr) cudalike.Status {
	return answer("hipStreamIsCapturing", C.dlx_check_capture(c.device(), C.uintptr_t(raw)))
}

// newEvent makes an event with the flags of hipEventCreateWithFlags.
func (c context) newEvent(flags C.uint) (uintptr, cudalike.Status) {
	var made C.hipEvent_t
	s := answer("hipEventCreateWithFlags", C.dlx_event(c.device(), &made, flags))
	return uintptr(unsafe.Pointer(made)), s
}

func (c context) NewEvent(timed bool) (uintptr, cudalike.Status) {
	if timed {
		return c.newEvent(C.hipEventDefault)
	}
	return c.newEvent(C.hipEventDisableTiming)
}

func (c context) DestroyEvent(raw uintptr) cudalike.Status {
	return answer("hipEventDestroy", C.dlx_destroy_event(c.device(), C.uintptr_t(raw)))
}

func (c context) RecordEvent(event, stream uintptr) cudalike.Status {
	return answer("hipEventRecord", C.dlx_record(c.device(), C.uintptr_t(event), C.uintptr_t(stream)))
}

func (c context) WaitEvent(stream, event uintptr) cudalike.Status {
	return answer("hipStreamWaitEvent", C.dlx_wait(c.device(), C.uintptr_t(event), C.uintptr_t(stream)))
}

func (c context) Query(event uintptr) cudalike.Status {
	return answer("hipEventQuery", C.dlx_query(c.device(), C.uintptr_t(event)))
}

func (c context) Elapsed(from, to uintptr) (time.Duration, cudalike.Status) {
	var ms C.float
	s := answer("hipEventElapsedTime", C.dlx_elapsed(c.device(), &ms, C.uintptr_t(from), C.uintptr_t(to)))
	return time.Duration(float64(ms) * float64(time.Millisecond)), s
}
