//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

// dlx_captured answers CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED for a stream that is being
// captured into a graph, before anything is enqueued: the capture stays as it is.
static inline CUresult dlx_captured(CUstream stream) {
	CUstreamCaptureStatus state;
	CUresult r = cuStreamIsCapturing(stream, &state);
	if (r != CUDA_SUCCESS) return r;
	return state == CU_STREAM_CAPTURE_STATUS_NONE ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static inline CUresult dlx_event_record(CUevent event, CUstream stream) {
	CUresult r = dlx_captured(stream);
	return r == CUDA_SUCCESS ? cuEventRecord(event, stream) : r;
}

static inline CUresult dlx_event_wait(CUevent event, CUstream stream) {
	CUresult r = dlx_captured(stream);
	return r == CUDA_SUCCESS ? cuStreamWaitEvent(stream, event, 0) : r;
}

static CUresult dlx_record(uintptr_t context, uintptr_t event, uintptr_t stream) {
	DLX_RELAXED(context, dlx_event_record((CUevent)event, (CUstream)stream));
}

static CUresult dlx_wait(uintptr_t context, uintptr_t event, uintptr_t stream) {
	DLX_RELAXED(context, dlx_event_wait((CUevent)event, (CUstream)stream));
}

static CUresult dlx_query(uintptr_t context, uintptr_t event) {
	DLX_RELAXED(context, cuEventQuery((CUevent)event));
}

static CUresult dlx_check_capture(uintptr_t context, uintptr_t stream) {
	DLX_RELAXED(context, dlx_captured((CUstream)stream));
}

static inline CUresult dlx_stream_synchronize(CUstream stream) {
	CUresult r = dlx_captured(stream);
	return r == CUDA_SUCCESS ? cuStreamSynchronize(stream) : r;
}

static CUresult dlx_synchronize(uintptr_t context, uintptr_t stream) {
	DLX_RELAXED(context, dlx_stream_synchronize((CUstream)stream));
}

static CUresult dlx_stream_context(uintptr_t context, uintptr_t stream, CUcontext *out) {
	DLX_RELAXED(context, cuStreamGetCtx((CUstream)stream, out));
}

static CUresult dlx_stream_id(uintptr_t context, uintptr_t stream, unsigned long long *out) {
	DLX_RELAXED(context, cuStreamGetId((CUstream)stream, out));
}

static CUresult dlx_destroy_event(uintptr_t context, uintptr_t event) {
	DLX_RELAXED(context, cuEventDestroy((CUevent)event));
}
*/
import "C"

import (
	"time"
	"unsafe"

	"gorgonia.org/cu"
)

// NewStream makes a stream that does not wait for the legacy stream, nor that for it.
func (c Context) NewStream() (raw uintptr, s Status) {
	s = c.Do(func() error {
		made, err := cu.MakeStream(cu.NonBlocking)
		raw = handle(made)
		return err
	})
	return raw, s
}

// DestroyStream gives a stream back, when its work is done.
func (c Context) DestroyStream(raw uintptr) Status {
	return c.Do(func() error {
		stream := object[cu.Stream](raw)
		return stream.Destroy()
	})
}

// StreamContext is the context of a stream that somebody made.
func (c Context) StreamContext(raw uintptr) (Context, Status) {
	var of C.CUcontext
	s := Status(C.dlx_stream_context(C.uintptr_t(c), C.uintptr_t(raw), &of))
	return Context(unsafe.Pointer(of)), s
}

// StreamID is never that of another stream in the life of the process, and not 0. That of
// CU_STREAM_PER_THREAD is the calling thread's.
func (c Context) StreamID(raw uintptr) (uint64, Status) {
	var id C.ulonglong
	s := Status(C.dlx_stream_id(C.uintptr_t(c), C.uintptr_t(raw), &id))
	return uint64(id), s
}

// Synchronize blocks until the work of a stream is done. It answers CaptureUnsupported at
// once if the stream is being captured into a graph.
func (c Context) Synchronize(raw uintptr) Status {
	return Status(C.dlx_synchronize(C.uintptr_t(c), C.uintptr_t(raw)))
}

// CheckCapture answers CaptureUnsupported for a stream that is being captured into a graph.
func (c Context) CheckCapture(raw uintptr) Status {
	return Status(C.dlx_check_capture(C.uintptr_t(c), C.uintptr_t(raw)))
}

// NewEvent makes an event without times, or with.
func (c Context) NewEvent(timed bool) (raw uintptr, s Status) {
	flags := cu.DisableTiming
	if timed {
		flags = cu.DefaultEvent
	}
	s = c.Do(func() error {
		made, err := cu.MakeEvent(flags)
		raw = handle(made)
		return err
	})
	return raw, s
}

// DestroyEvent gives an event back. Streams that wait for it go on waiting.
func (c Context) DestroyEvent(raw uintptr) Status {
	return Status(C.dlx_destroy_event(C.uintptr_t(c), C.uintptr_t(raw)))
}

// RecordEvent has an event stand for all that a stream was given. Like StreamWaitEvent, it
// answers CaptureUnsupported and does nothing if the stream is being captured into a graph.
func (c Context) RecordEvent(event, stream uintptr) Status {
	return Status(C.dlx_record(C.uintptr_t(c), C.uintptr_t(event), C.uintptr_t(stream)))
}

// StreamWaitEvent holds later work of a stream back until an event, which may be
// another context's, is done.
func (c Context) StreamWaitEvent(stream, event uintptr) Status {
	return Status(C.dlx_wait(C.uintptr_t(c), C.uintptr_t(event), C.uintptr_t(stream)))
}

// Query answers Success for an event that is done and NotReady for one that is not.
func (c Context) Query(event uintptr) Status {
	return Status(C.dlx_query(C.uintptr_t(c), C.uintptr_t(event)))
}

// Elapsed is the time between two events with times, both done.
func (c Context) Elapsed(from, to uintptr) (d time.Duration, s Status) {
	s = c.Do(func() error {
		ms, err := object[cu.Event](from).Elapsed(object[cu.Event](to))
		d = time.Duration(ms * float64(time.Millisecond))
		return err
	})
	return d, s
}
