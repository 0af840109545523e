//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

struct dlx_external {
	CUexternalMemory memory;
	CUdeviceptr address;
	const char *call; // that failed
	int taken;        // the driver has had the descriptor, which it has on success only
};

static CUresult dlx_external_steps(struct dlx_external *x, int fd, size_t size, int dedicated) {
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC handle = {
		.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
		.handle = {.fd = fd},
		.size = size,
		.flags = dedicated ? CUDA_EXTERNAL_MEMORY_DEDICATED : 0,
	};
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC buffer = {.offset = 0, .size = size};
	x->call = "cuImportExternalMemory";
	CUresult r = cuImportExternalMemory(&x->memory, &handle);
	if (r != CUDA_SUCCESS) return r;
	x->taken = 1;
	x->call = "cuExternalMemoryGetMappedBuffer";
	r = cuExternalMemoryGetMappedBuffer(&x->address, x->memory, &buffer);
	if (r != CUDA_SUCCESS) cuDestroyExternalMemory(x->memory);
	return r;
}

static CUresult dlx_external_open(uintptr_t context, struct dlx_external *x, int fd, size_t size, int dedicated) {
	x->call = "cuCtxPushCurrent";
	DLX_RELAXED(context, dlx_external_steps(x, fd, size, dedicated));
}

// dlx_external_undo frees the buffer first, "using cuMemFree" (cuExternalMemoryGetMappedBuffer).
static CUresult dlx_external_undo(CUexternalMemory memory, CUdeviceptr address) {
	CUresult freed = cuMemFree(address), destroyed = cuDestroyExternalMemory(memory);
	return freed ? freed : destroyed;
}

static CUresult dlx_external_close(uintptr_t context, uintptr_t memory, CUdeviceptr address) {
	DLX_RELAXED(context, dlx_external_undo((CUexternalMemory)memory, address));
}

static CUresult dlx_timeline_open(uintptr_t context, CUexternalSemaphore *out, int fd) {
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC handle = {
		.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD,
		.handle = {.fd = fd},
	};
	DLX_RELAXED(context, cuImportExternalSemaphore(out, &handle));
}

static CUresult dlx_timeline_close(uintptr_t context, uintptr_t timeline) {
	DLX_RELAXED(context, cuDestroyExternalSemaphore((CUexternalSemaphore)timeline));
}

static CUresult dlx_timeline_signal(uintptr_t context, uintptr_t timeline, uint64_t value, uintptr_t stream) {
	CUexternalSemaphore one = (CUexternalSemaphore)timeline;
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = {.params = {.fence = {.value = value}}};
	DLX_IN(context, cuSignalExternalSemaphoresAsync(&one, &params, 1, (CUstream)stream));
}

static CUresult dlx_timeline_wait(uintptr_t context, uintptr_t timeline, uint64_t value, uintptr_t stream) {
	CUexternalSemaphore one = (CUexternalSemaphore)timeline;
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = {.params = {.fence = {.value = value}}};
	DLX_IN(context, cuWaitExternalSemaphoresAsync(&one, &params, 1, (CUstream)stream));
}
*/
import "C"

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// External is memory that another API made, mapped as a whole: what it asks of the
// alignment of parts it alone knows.
type External struct {
	memory  uintptr // a CUexternalMemory
	Address uintptr
}

// ImportExternal opens an allocation of size bytes behind an opaque descriptor, which
// it takes over, on failure too. If a step fails, call is its name. dedicated says
// that the allocation belongs to one resource of the other API.
func (c Context) ImportExternal(fd int, size int64, dedicated bool) (x External, call string, s Status) {
	var out C.struct_dlx_external
	var flag C.int
	if dedicated {
		flag = 1
	}
	if s = Status(C.dlx_external_open(C.uintptr_t(c), &out, C.int(fd), C.size_t(size), flag)); s != Success {
		if out.taken == 0 {
			_ = unix.Close(fd)
		}
		return External{}, C.GoString(out.call), s
	}
	return External{memory: uintptr(unsafe.Pointer(out.memory)), Address: uintptr(out.address)}, "", s
}

// CloseExternal gives back what ImportExternal opened. No work may be using it.
func (c Context) CloseExternal(x External) Status {
	return Status(C.dlx_external_close(C.uintptr_t(c), C.uintptr_t(x.memory), C.CUdeviceptr(x.Address)))
}

// Timeline is a CUexternalSemaphore: a timeline semaphore that another API made.
type Timeline uintptr

// ImportTimeline opens a timeline semaphore behind an opaque descriptor, which it takes
// over, on failure too.
func (c Context) ImportTimeline(fd int) (Timeline, Status) {
	var out C.CUexternalSemaphore
	s := Status(C.dlx_timeline_open(C.uintptr_t(c), &out, C.int(fd)))
	if s != Success {
		_ = unix.Close(fd)
	}
	return Timeline(unsafe.Pointer(out)), s
}

// CloseTimeline gives the semaphore back. The work that signals it or waits for it must be done.
func (c Context) CloseTimeline(t Timeline) Status {
	return Status(C.dlx_timeline_close(C.uintptr_t(c), C.uintptr_t(t)))
}

// SignalTimeline enqueues on a stream that the value is set.
func (c Context) SignalTimeline(t Timeline, value uint64, stream uintptr) Status {
	return Status(C.dlx_timeline_signal(C.uintptr_t(c), C.uintptr_t(t), C.uint64_t(value), C.uintptr_t(stream)))
}

// WaitTimeline holds later work of a stream back until the value is reached.
func (c Context) WaitTimeline(t Timeline, value uint64, stream uintptr) Status {
	return Status(C.dlx_timeline_wait(C.uintptr_t(c), C.uintptr_t(t), C.uint64_t(value), C.uintptr_t(stream)))
}
