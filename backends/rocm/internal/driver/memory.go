//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

static hipError_t dlx_host_alloc(int device, void **out, size_t size) {
	DLX_RELAXED(device, dlx_hip.hipHostMalloc(out, size, hipHostMallocPortable));
}

static hipError_t dlx_host_free(int device, uintptr_t p) {
	DLX_RELAXED(device, dlx_hip.hipHostFree((void *)p));
}

static inline hipError_t dlx_host_steps(void **out, void *p, size_t size, int *registered) {
	hipError_t r = dlx_hip.hipHostRegister(p, size, hipHostRegisterPortable | hipHostRegisterMapped);
	*registered = r == hipSuccess;
	if (r != hipSuccess) return r;
	r = dlx_hip.hipHostGetDevicePointer(out, p, 0);
	if (r != hipSuccess) dlx_hip.hipHostUnregister(p);
	return r;
}

static hipError_t dlx_host_map(int device, void **out, uintptr_t p, size_t size, int *registered) {
	*registered = 0;
	DLX_RELAXED(device, dlx_host_steps(out, (void *)p, size, registered));
}

static hipError_t dlx_host_unmap(int device, uintptr_t p) {
	DLX_RELAXED(device, dlx_hip.hipHostUnregister((void *)p));
}

static hipError_t dlx_alloc(int device, void **out, size_t size) {
	DLX_RELAXED(device, dlx_hip.hipMalloc(out, size));
}

static hipError_t dlx_managed(int device, void **out, size_t size) {
	DLX_RELAXED(device, dlx_hip.hipMallocManaged(out, size, hipMemAttachGlobal));
}

static hipError_t dlx_free(int device, uintptr_t p) {
	DLX_RELAXED(device, dlx_hip.hipFree((void *)p));
}

static hipError_t dlx_room(int device, size_t *free) {
	size_t total;
	DLX_RELAXED(device, dlx_hip.hipMemGetInfo(free, &total));
}
*/
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

func (c context) Alloc(size int64) (uintptr, cudalike.Status) {
	var p unsafe.Pointer
	s := answer("hipMalloc", C.dlx_alloc(c.device(), &p, C.size_t(size)))
	return uintptr(p), s
}

func (c context) AllocManaged(size int64) (uintptr, cudalike.Status) {
	var p unsafe.Pointer
	s := answer("hipMallocManaged", C.dlx_managed(c.device(), &p, C.size_t(size)))
	return uintptr(p), s
}

func (c context) Free(address uintptr) cudalike.Status {
	return answer("hipFree", C.dlx_free(c.device(), C.uintptr_t(address)))
}

func (c context) AllocHost(size int64) (uintptr, cudalike.Status) {
	var p unsafe.Pointer
	s := answer("hipHostMalloc", C.dlx_host_alloc(c.device(), &p, C.size_t(size)))
	return uintptr(p), s
}

func (c context) FreeHost(address uintptr) cudalike.Status {
	return answer("hipHostFree", C.dlx_host_free(c.device(), C.uintptr_t(address)))
}

// MapHost does not use readOnly, which is never true: see Describe.
func (c context) MapHost(p uintptr, size int64, _ bool) (address uintptr, s cudalike.Status) {
	var out unsafe.Pointer
	var registered C.int
	r := C.dlx_host_map(c.device(), &out, C.uintptr_t(p), C.size_t(size), &registered)
	if registered == 0 {
		return 0, answer("hipHostRegister", r)
	}
	return uintptr(out), answer("hipHostGetDevicePointer", r)
}

func (c context) UnmapHost(p uintptr) cudalike.Status {
	return answer("hipHostUnregister", C.dlx_host_unmap(c.device(), C.uintptr_t(p)))
}

func (c context) FreeMemory() (int64, cudalike.Status) {
	var free C.size_t
	s := answer("hipMemGetInfo", C.dlx_room(c.device(), &free))
	return int64(free), s
}
