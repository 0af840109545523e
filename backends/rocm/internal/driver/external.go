//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

struct dlx_external {
	void *memory, *address;
	const char *call; // the function that failed
};

static hipError_t dlx_external_steps(struct dlx_external *x, int fd, size_t size, int dedicated) {
	dlx_external_handle handle = {
		.type = DLX_OPAQUE_FD, .handle = {.fd = fd}, .size = size, .flags = dedicated ? DLX_DEDICATED : 0,
	};
	dlx_external_buffer buffer = {.size = size};
	x->call = "hipImportExternalMemory";
	hipError_t r = dlx_hip.hipImportExternalMemory(&x->memory, &handle);
	if (r != hipSuccess) return r;
	x->call = "hipExternalMemoryGetMappedBuffer";
	r = dlx_hip.hipExternalMemoryGetMappedBuffer(&x->address, x->memory, &buffer);
	if (r != hipSuccess) dlx_hip.hipDestroyExternalMemory((hipExternalMemory_t)x->memory);
	return r;
}

static hipError_t dlx_external_open(int device, struct dlx_external *x, int fd, size_t size, int dedicated) {
	x->call = "hipSetDevice";
	DLX_RELAXED(device, dlx_external_steps(x, fd, size, dedicated));
}

// The mapped buffer has a reference to the memory, which hipFree releases.
static inline hipError_t dlx_external_release(void *address, hipExternalMemory_t memory) {
	hipError_t r = dlx_hip.hipFree(address), destroyed = dlx_hip.hipDestroyExternalMemory(memory);
	return r == hipSuccess ? destroyed : r;
}

static hipError_t dlx_external_close(int device, uintptr_t address, uintptr_t memory) {
	DLX_RELAXED(device, dlx_external_release((void *)address, (hipExternalMemory_t)memory));
}
*/
import "C"

import (
	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// ImportExternal closes the descriptor in any case: HIP maps its memory, and neither keeps nor closes it.
func (c context) ImportExternal(fd int, size int64, dedicated bool) (cudalike.External, cudalike.Status) {
	defer func() { _ = unix.Close(fd) }()
	var out C.struct_dlx_external
	var flag C.int
	if dedicated {
		flag = 1
	}
	if r := C.dlx_external_open(c.device(), &out, C.int(fd), C.size_t(size), flag); r != C.hipSuccess {
		return cudalike.External{}, answer(C.GoString(out.call), r)
	}
	return cudalike.External{Memory: uintptr(out.memory), Address: uintptr(out.address)}, cudalike.Status{}
}

func (c context) CloseExternal(x cudalike.External) cudalike.Status {
	return answer("hipDestroyExternalMemory", C.dlx_external_close(c.device(), C.uintptr_t(x.Address), C.uintptr_t(x.Memory)))
}
