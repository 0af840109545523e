//go:build (opencl || oneapi) && linux && cgo

package driver

/*
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/internal/live"
)

var liveEvents = live.NewCounter("opencl.cl_event")

// Flush calls clFlush.
func Flush(q Queue) Status { return Status(C.dlx_flush(C.dlx_handle(q))) }

// Finish calls clFinish.
func Finish(q Queue) Status { return Status(C.dlx_finish(C.dlx_handle(q))) }

// Read calls clEnqueueReadBuffer without blocking.
func Read(q Queue, m Mem, at, n int64, host uintptr) Status {
	return Status(C.dlx_read(C.dlx_handle(q), C.dlx_handle(m), C.size_t(at), C.size_t(n), C.uintptr_t(host)))
}

// Write calls clEnqueueWriteBuffer without blocking.
func Write(q Queue, m Mem, at, n int64, host uintptr) Status {
	return Status(C.dlx_write(C.dlx_handle(q), C.dlx_handle(m), C.size_t(at), C.size_t(n), C.uintptr_t(host)))
}

// Copy calls clEnqueueCopyBuffer.
func Copy(q Queue, dst Mem, to int64, src Mem, from, n int64) Status {
	return Status(C.dlx_copy(C.dlx_handle(q), C.dlx_handle(dst), C.size_t(to), C.dlx_handle(src), C.size_t(from), C.size_t(n)))
}

// Box is a copy of Slices of Rows of Row bytes, with the pitches of either side,
// from byte SrcAt to byte DstAt.
type Box struct {
	Row, Rows, Slices          int64
	DstRowPitch, DstSlicePitch int64
	SrcRowPitch, SrcSlicePitch int64
	DstAt, SrcAt               int64
}

func (b *Box) c() *C.struct_dlx_box { return (*C.struct_dlx_box)(unsafe.Pointer(b)) }

// Box has the layout of struct dlx_box.
var _ = [1]struct{}{}[unsafe.Sizeof(Box{})-unsafe.Sizeof(C.struct_dlx_box{})]

// ReadBox calls clEnqueueReadBufferRect without blocking.
func ReadBox(q Queue, m Mem, host uintptr, b Box) Status {
	return Status(C.dlx_read_box(C.dlx_handle(q), C.dlx_handle(m), C.uintptr_t(host), b.c()))
}

// WriteBox calls clEnqueueWriteBufferRect without blocking.
func WriteBox(q Queue, m Mem, host uintptr, b Box) Status {
	return Status(C.dlx_write_box(C.dlx_handle(q), C.dlx_handle(m), C.uintptr_t(host), b.c()))
}

// CopyBox calls clEnqueueCopyBufferRect.
func CopyBox(q Queue, dst, src Mem, b Box) Status {
	return Status(C.dlx_copy_box(C.dlx_handle(q), C.dlx_handle(dst), C.dlx_handle(src), b.c()))
}

// MapDiscard calls clEnqueueMapBuffer with CL_MAP_WRITE_INVALIDATE_REGION, without blocking.
func MapDiscard(q Queue, m Mem, at, n int64) (p uintptr, s Status) {
	s = Status(C.dlx_map(C.dlx_handle(q), C.dlx_handle(m), C.CL_MAP_WRITE_INVALIDATE_REGION, C.size_t(at), C.size_t(n), out(&p)))
	return p, s
}

// MapRead calls clEnqueueMapBuffer with CL_MAP_READ, without blocking.
func MapRead(q Queue, m Mem, at, n int64) (p uintptr, s Status) {
	s = Status(C.dlx_map(C.dlx_handle(q), C.dlx_handle(m), C.CL_MAP_READ, C.size_t(at), C.size_t(n), out(&p)))
	return p, s
}

// Unmap calls clEnqueueUnmapMemObject.
func Unmap(q Queue, m Mem, p uintptr) Status {
	return Status(C.dlx_unmap(C.dlx_handle(q), C.dlx_handle(m), C.uintptr_t(p)))
}

// Launch calls clEnqueueNDRangeKernel for one dimension; local divides global.
func Launch(q Queue, k Kernel, global, local int64) Status {
	return Status(C.dlx_launch(C.dlx_handle(q), C.dlx_handle(k), C.size_t(global), C.size_t(local)))
}

// Transfer calls clEnqueueAcquireExternalMemObjectsKHR or
// clEnqueueReleaseExternalMemObjectsKHR, whose address [Extension] gave.
func Transfer(function uintptr, q Queue, m Mem) Status {
	return Status(C.dlx_external(C.uintptr_t(function), C.dlx_handle(q), C.dlx_handle(m)))
}

// Marker calls clEnqueueMarkerWithWaitList: the event is done when everything enqueued before is done.
func Marker(q Queue) (e Event, s Status) {
	s = counted(liveEvents, C.dlx_marker(C.dlx_handle(q), out(&e)))
	return e, s
}

// Barrier calls clEnqueueBarrierWithWaitList: later commands wait for e or, if e is 0, for everything
// enqueued before.
func Barrier(q Queue, e Event) Status {
	return Status(C.dlx_barrier(C.dlx_handle(q), C.dlx_handle(e)))
}

// Wait calls clWaitForEvents, which blocks.
func Wait(e Event) Status { return Status(C.dlx_wait(C.dlx_handle(e))) }

// EndTime returns when the command of an event ended, in nanoseconds of the device's clock. The event is complete, and
// its queue has the property QueueTimed.
func EndTime(e Event) (ns uint64, s Status) {
	var at C.cl_ulong
	s = Status(C.dlx_end_time(C.dlx_handle(e), &at))
	return uint64(at), s
}

// RetainEvent calls clRetainEvent.
func RetainEvent(e Event) Status { return counted(liveEvents, C.dlx_retain_event(C.dlx_handle(e))) }

// ReleaseEvent calls clReleaseEvent.
func ReleaseEvent(e Event) Status { return dropped(liveEvents, C.dlx_release_event(C.dlx_handle(e))) }

// CreateUserEvent calls clCreateUserEvent.
func CreateUserEvent(c Context) (e Event, s Status) {
	s = counted(liveEvents, C.dlx_create_user_event(C.dlx_handle(c), out(&e)))
	return e, s
}

// CompleteUserEvent calls clSetUserEventStatus with CL_COMPLETE.
func CompleteUserEvent(e Event) Status { return Status(C.dlx_complete(C.dlx_handle(e))) }
