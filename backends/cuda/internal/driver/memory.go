//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

static CUresult dlx_host_alloc(uintptr_t context, void **out, size_t size) {
	DLX_RELAXED(context, cuMemHostAlloc(out, size, CU_MEMHOSTALLOC_PORTABLE));
}

static CUresult dlx_host_free(uintptr_t context, uintptr_t p) {
	DLX_RELAXED(context, cuMemFreeHost((void *)p));
}

static inline CUresult dlx_host_steps(CUdeviceptr *out, void *p, size_t size, int *registered) {
	CUresult r = cuMemHostRegister(p, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP);
	*registered = r == CUDA_SUCCESS;
	if (r != CUDA_SUCCESS) return r;
	r = cuMemHostGetDevicePointer(out, p, 0);
	if (r != CUDA_SUCCESS) cuMemHostUnregister(p);
	return r;
}

static CUresult dlx_host_map(uintptr_t context, CUdeviceptr *out, uintptr_t p, size_t size, int *registered) {
	*registered = 0;
	DLX_RELAXED(context, dlx_host_steps(out, (void *)p, size, registered));
}

static CUresult dlx_host_unmap(uintptr_t context, uintptr_t p) {
	DLX_RELAXED(context, cuMemHostUnregister((void *)p));
}

static CUresult dlx_alloc(uintptr_t context, CUdeviceptr *out, size_t size) {
	DLX_RELAXED(context, cuMemAlloc(out, size));
}

static CUresult dlx_free(uintptr_t context, CUdeviceptr p) {
	DLX_RELAXED(context, cuMemFree(p));
}
*/
import "C"

import (
	"unsafe"

	"gorgonia.org/cu"
)

// Alloc allocates memory of the device.
func (c Context) Alloc(size int64) (uintptr, Status) {
	var p C.CUdeviceptr
	s := Status(C.dlx_alloc(C.uintptr_t(c), &p, C.size_t(size)))
	return uintptr(p), s
}

// Free gives back what Alloc or AllocManaged returned, after all work of the device.
func (c Context) Free(address uintptr) Status {
	return Status(C.dlx_free(C.uintptr_t(c), C.CUdeviceptr(address)))
}

// AllocHost allocates pinned memory of the host, for every context of the process.
func (c Context) AllocHost(size int64) (uintptr, Status) {
	var p unsafe.Pointer
	s := Status(C.dlx_host_alloc(C.uintptr_t(c), &p, C.size_t(size)))
	return uintptr(p), s
}

// FreeHost gives back what AllocHost returned. No work may be using it.
func (c Context) FreeHost(address uintptr) Status {
	return Status(C.dlx_host_free(C.uintptr_t(c), C.uintptr_t(address)))
}

// MapHost has the device use memory of the host, at an address of its own. call is the
// one that failed.
func (c Context) MapHost(p uintptr, size int64) (address uintptr, call string, s Status) {
	var out C.CUdeviceptr
	var registered C.int
	s = Status(C.dlx_host_map(C.uintptr_t(c), &out, C.uintptr_t(p), C.size_t(size), &registered))
	if registered == 0 {
		return 0, "cuMemHostRegister", s
	}
	return uintptr(out), "cuMemHostGetDevicePointer", s
}

// UnmapHost ends what MapHost began. No work may be using the memory.
func (c Context) UnmapHost(p uintptr) Status {
	return Status(C.dlx_host_unmap(C.uintptr_t(c), C.uintptr_t(p)))
}

// AllocManaged allocates memory that the driver moves between the host and the
// device as either touches it.
func (c Context) AllocManaged(size int64) (p uintptr, s Status) {
	s = c.Do(func() error {
		m, err := cu.MemAllocManaged(size, cu.AttachGlobal)
		p = m.Uintptr()
		return err
	})
	return p, s
}

// FreeMemory is how many bytes of the device nobody has.
func (c Context) FreeMemory() (free int64, s Status) {
	s = c.Do(func() (err error) {
		free, _, err = cu.MemInfo()
		return err
	})
	return free, s
}
