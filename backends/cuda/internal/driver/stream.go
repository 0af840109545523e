//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

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

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

func (c context) NewStream() (raw uintptr, s cudalike.Status) {
	defer dl.KeepHandlers()()
	s = c.do("cuStreamCreate", func() error {
		made, err := cu.MakeStream(cu.NonBlocking)
		raw = handle(made)
		return err
	})
	return raw, s
}

func (c context) DestroyStream(raw uintptr) cudalike.Status {
	return c.do("cuStreamDestroy", func() error {
		stream := object[cu.Stream](raw)
		return stream.Destroy()
	})
}

func (c context) StreamContext(raw uintptr) (cudalike.ContextID, cudalike.Status) {
	var of C.CUcontext
	s := answer("cuStreamGetCtx", C.dlx_stream_context(C.uintptr_t(c), C.uintptr_t(raw), &of))
	return cudalike.ContextID(unsafe.Pointer(of)), s
}

func (c context) StreamID(raw uintptr) (uint64, cudalike.Status) {
	var id C.ulonglong
	s := answer("cuStreamGetId", C.dlx_stream_id(C.uintptr_t(c), C.uintptr_t(raw), &id))
	return uint64(id), s
}

func (c context) Synchronize(raw uintptr) cudalike.Status {
	return answer("cuStreamSynchronize", C.dlx_synchronize(C.uintptr_t(c), C.uintptr_t(raw)))
}

func (c context) CheckCapture(raw uintptr) cudalike.Status {
	return answer("cuStreamIsCapturing", C.dlx_check_capture(C.uintptr_t(c), C.uintptr_t(raw)))
}

func (c context) NewEvent(timed bool) (raw uintptr, s cudalike.Status) {
	flags := cu.DisableTiming
	if timed {
		flags = cu.DefaultEvent
	}
	s = c.do("cuEventCreate", func() error {
		made, err := cu.MakeEvent(flags)
		raw = handle(made)
		return err
	})
	return raw, s
}

func (c context) DestroyEvent(raw uintptr) cudalike.Status {
	return answer("cuEventDestroy", C.dlx_destroy_event(C.uintptr_t(c), C.uintptr_t(raw)))
}

func (c context) RecordEvent(event, stream uintptr) cudalike.Status {
	return answer("cuEventRecord", C.dlx_record(C.uintptr_t(c), C.uintptr_t(event), C.uintptr_t(stream)))
}

func (c context) WaitEvent(stream, event uintptr) cudalike.Status {
	return answer("cuStreamWaitEvent", C.dlx_wait(C.uintptr_t(c), C.uintptr_t(event), C.uintptr_t(stream)))
}

func (c context) Query(event uintptr) cudalike.Status {
	return answer("cuEventQuery", C.dlx_query(C.uintptr_t(c), C.uintptr_t(event)))
}

func (c context) Elapsed(from, to uintptr) (d time.Duration, s cudalike.Status) {
	s = c.do("cuEventElapsedTime", func() error {
		ms, err := object[cu.Event](from).Elapsed(object[cu.Event](to))
		d = time.Duration(ms * float64(time.Millisecond))
		return err
	})
	return d, s
}
