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

static inline CUresult dlx_host_steps(CUdeviceptr *out, void *p, size_t size, unsigned flags, int *registered) {
	CUresult r = cuMemHostRegister(p, size, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | flags);
	*registered = r == CUDA_SUCCESS;
	if (r != CUDA_SUCCESS) return r;
	r = cuMemHostGetDevicePointer(out, p, 0);
	if (r != CUDA_SUCCESS) cuMemHostUnregister(p);
	return r;
}

static CUresult dlx_host_map(uintptr_t context, CUdeviceptr *out, uintptr_t p, size_t size, unsigned flags, int *registered) {
	*registered = 0;
	DLX_RELAXED(context, dlx_host_steps(out, (void *)p, size, flags, registered));
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

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

func (c context) Alloc(size int64) (uintptr, cudalike.Status) {
	var p C.CUdeviceptr
	s := answer("cuMemAlloc", C.dlx_alloc(C.uintptr_t(c), &p, C.size_t(size)))
	return uintptr(p), s
}

func (c context) Free(address uintptr) cudalike.Status {
	return answer("cuMemFree", C.dlx_free(C.uintptr_t(c), C.CUdeviceptr(address)))
}

func (c context) AllocHost(size int64) (uintptr, cudalike.Status) {
	var p unsafe.Pointer
	s := answer("cuMemHostAlloc", C.dlx_host_alloc(C.uintptr_t(c), &p, C.size_t(size)))
	return uintptr(p), s
}

func (c context) FreeHost(address uintptr) cudalike.Status {
	return answer("cuMemFreeHost", C.dlx_host_free(C.uintptr_t(c), C.uintptr_t(address)))
}

func (c context) MapHost(p uintptr, size int64, readOnly bool) (address uintptr, s cudalike.Status) {
	var out C.CUdeviceptr
	var flags C.uint
	var registered C.int
	if readOnly {
		flags = C.CU_MEMHOSTREGISTER_READ_ONLY
	}
	r := C.dlx_host_map(C.uintptr_t(c), &out, C.uintptr_t(p), C.size_t(size), flags, &registered)
	if registered == 0 {
		return 0, answer("cuMemHostRegister", r)
	}
	return uintptr(out), answer("cuMemHostGetDevicePointer", r)
}

func (c context) UnmapHost(p uintptr) cudalike.Status {
	return answer("cuMemHostUnregister", C.dlx_host_unmap(C.uintptr_t(c), C.uintptr_t(p)))
}

func (c context) AllocManaged(size int64) (p uintptr, s cudalike.Status) {
	s = c.do("cuMemAllocManaged", func() error {
		m, err := cu.MemAllocManaged(size, cu.AttachGlobal)
		p = m.Uintptr()
		return err
	})
	return p, s
}

func (c context) FreeMemory() (free int64, s cudalike.Status) {
	s = c.do("cuMemGetInfo", func() (err error) {
		free, _, err = cu.MemInfo()
		return err
	})
	return free, s
}
