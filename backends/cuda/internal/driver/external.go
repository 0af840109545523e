//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

struct dlx_external {
	CUexternalMemory memory;
	CUdeviceptr address;
	const char *call; // the function that failed
	int taken;        // cuImportExternalMemory has succeeded, and so taken the descriptor
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

// dlx_external_undo frees the mapped buffer first, by cuMemFree: see cuExternalMemoryGetMappedBuffer.
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

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

func (c context) ImportExternal(fd int, size int64, dedicated bool) (cudalike.External, cudalike.Status) {
	var out C.struct_dlx_external
	var flag C.int
	if dedicated {
		flag = 1
	}
	if r := C.dlx_external_open(C.uintptr_t(c), &out, C.int(fd), C.size_t(size), flag); r != C.CUDA_SUCCESS {
		if out.taken == 0 {
			_ = unix.Close(fd)
		}
		return cudalike.External{}, answer(C.GoString(out.call), r)
	}
	return cudalike.External{Memory: uintptr(unsafe.Pointer(out.memory)), Address: uintptr(out.address)}, cudalike.Status{}
}

func (c context) CloseExternal(x cudalike.External) cudalike.Status {
	return answer("cuDestroyExternalMemory", C.dlx_external_close(C.uintptr_t(c), C.uintptr_t(x.Memory), C.CUdeviceptr(x.Address)))
}

func (c context) ImportTimeline(fd int) (uintptr, cudalike.Status) {
	var out C.CUexternalSemaphore
	s := answer("cuImportExternalSemaphore", C.dlx_timeline_open(C.uintptr_t(c), &out, C.int(fd)))
	if !s.OK() {
		_ = unix.Close(fd)
	}
	return uintptr(unsafe.Pointer(out)), s
}

func (c context) CloseTimeline(timeline uintptr) cudalike.Status {
	return answer("cuDestroyExternalSemaphore", C.dlx_timeline_close(C.uintptr_t(c), C.uintptr_t(timeline)))
}

func (c context) SignalTimeline(timeline uintptr, value uint64, stream uintptr) cudalike.Status {
	return answer("cuSignalExternalSemaphoresAsync", C.dlx_timeline_signal(C.uintptr_t(c), C.uintptr_t(timeline), C.uint64_t(value), C.uintptr_t(stream)))
}

func (c context) WaitTimeline(timeline uintptr, value uint64, stream uintptr) cudalike.Status {
	return answer("cuWaitExternalSemaphoresAsync", C.dlx_timeline_wait(C.uintptr_t(c), C.uintptr_t(timeline), C.uint64_t(value), C.uintptr_t(stream)))
}
