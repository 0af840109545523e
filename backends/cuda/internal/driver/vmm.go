//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

// The result of dlx_vmm_open. If it failed, call is the function that failed.
struct dlx_vmm {
	CUmemGenericAllocationHandle memory;
	CUdeviceptr address;
	const char *call;
};

// dlx_vmm_properties describes memory that can be exported as a dma-buf, or else as an opaque descriptor. A dma-buf
// is for other devices, which use only memory that is "RDMA capable".
static CUmemAllocationProp dlx_vmm_properties(int device, int dma_buf) {
	CUmemAllocationProp p = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = dma_buf ? CU_MEM_HANDLE_TYPE_NONE : CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
		.allocFlags = {.gpuDirectRDMACapable = dma_buf},
	};
	return p;
}

static CUresult dlx_vmm_granularity(int device, int dma_buf, size_t *bytes, CUmemAllocationGranularity_flags which) {
	CUmemAllocationProp p = dlx_vmm_properties(device, dma_buf);
	return cuMemGetAllocationGranularity(bytes, &p, which);
}

// dlx_vmm_access gives a device access. The fields are set one by one because id is a field of CUmemLocation or, from
// CUDA 13.5 on, of a union in it.
static CUresult dlx_vmm_access(CUdeviceptr address, size_t size, int device) {
	CUmemAccessDesc access = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access.location.id = device;
	return cuMemSetAccess(address, size, &access, 1);
}

static CUresult dlx_vmm_open_to(uintptr_t context, CUdeviceptr address, size_t size, int device) {
	DLX_RELAXED(context, dlx_vmm_access(address, size, device));
}

// dlx_vmm_map maps v->memory for a device.
static CUresult dlx_vmm_map(struct dlx_vmm *v, size_t size, int device) {
	v->call = "cuMemAddressReserve";
	CUresult r = cuMemAddressReserve(&v->address, size, 0, 0, 0);
	if (r != CUDA_SUCCESS) return r;
	v->call = "cuMemMap";
	r = cuMemMap(v->address, size, 0, v->memory, 0);
	if (r == CUDA_SUCCESS) {
		v->call = "cuMemSetAccess";
		r = dlx_vmm_access(v->address, size, device);
		if (r == CUDA_SUCCESS) return r;
		cuMemUnmap(v->address, size);
	}
	cuMemAddressFree(v->address, size);
	return r;
}

// dlx_vmm_steps maps the memory of the descriptor fd, or new memory of the device if fd is -1.
// If a step fails, it undoes the others.
static CUresult dlx_vmm_steps(struct dlx_vmm *v, int fd, int dma_buf, size_t size, int device) {
	CUresult r;
	if (fd == -1) {
		CUmemAllocationProp p = dlx_vmm_properties(device, dma_buf);
		v->call = "cuMemCreate";
		r = cuMemCreate(&v->memory, size, &p, 0);
	} else {
		v->call = "cuMemImportFromShareableHandle";
		r = cuMemImportFromShareableHandle(&v->memory, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	}
	if (r != CUDA_SUCCESS) return r;
	r = dlx_vmm_map(v, size, device);
	if (r != CUDA_SUCCESS) cuMemRelease(v->memory);
	return r;
}

static CUresult dlx_vmm_open(uintptr_t context, struct dlx_vmm *v, int fd, int dma_buf, size_t size, int device) {
	v->call = "cuCtxPushCurrent";
	DLX_RELAXED(context, dlx_vmm_steps(v, fd, dma_buf, size, device));
}

// dlx_vmm_undo takes all three steps, and returns the first error.
static CUresult dlx_vmm_undo(CUmemGenericAllocationHandle memory, CUdeviceptr address, size_t size) {
	CUresult unmapped = cuMemUnmap(address, size), freed = cuMemAddressFree(address, size), released = cuMemRelease(memory);
	return unmapped ? unmapped : freed ? freed : released;
}

static CUresult dlx_vmm_close(uintptr_t context, CUmemGenericAllocationHandle memory, CUdeviceptr address, size_t size) {
	DLX_RELAXED(context, dlx_vmm_undo(memory, address, size));
}

// dlx_vmm_retain finds the memory that is mapped to an address, and takes a reference to its handle, which dlx_vmm_release
// gives back. The mapping begins with the memory: cuMemMap knows no other offset.
static CUresult dlx_vmm_retain_steps(struct dlx_vmm *v, CUdeviceptr p, size_t *size) {
	v->call = "cuMemRetainAllocationHandle";
	CUresult r = cuMemRetainAllocationHandle(&v->memory, (void *)p);
	if (r != CUDA_SUCCESS) return r;
	v->call = "cuMemGetAddressRange";
	r = cuMemGetAddressRange(&v->address, size, p);
	if (r != CUDA_SUCCESS) cuMemRelease(v->memory);
	return r;
}

static CUresult dlx_vmm_retain(uintptr_t context, struct dlx_vmm *v, CUdeviceptr p, size_t *size) {
	v->call = "cuCtxPushCurrent";
	DLX_IN(context, dlx_vmm_retain_steps(v, p, size));
}

static CUresult dlx_vmm_release(uintptr_t context, CUmemGenericAllocationHandle memory) {
	DLX_IN(context, cuMemRelease(memory));
}

static CUresult dlx_vmm_export(uintptr_t context, CUmemGenericAllocationHandle memory, int *fd) {
	DLX_IN(context, cuMemExportToShareableHandle(fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

static CUresult dlx_vmm_dma_buf(uintptr_t context, CUdeviceptr address, size_t size, int *fd) {
	DLX_IN(context, cuMemGetHandleForAddressRange(fd, address, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}
*/
import "C"

import (
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

// dmaBuf is 1 for memory that is exported as a dma-buf, and 0 for other memory.
func dmaBuf(t core.HandleType) C.int {
	if t == core.HandleDMABuf {
		return 1
	}
	return 0
}

func (library) Granularity(ordinal int32, t core.HandleType, best bool) (int64, cudalike.Status) {
	which := C.CUmemAllocationGranularity_flags(C.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
	if best {
		which = C.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
	}
	var n C.size_t
	s := answer("cuMemGetAllocationGranularity", C.dlx_vmm_granularity(C.int(ordinal), dmaBuf(t), &n, which))
	return int64(n), s
}

func (c context) NewMapped(size int64, t core.HandleType, ordinal int32) (cudalike.Mapped, cudalike.Status) {
	return c.openMapped(-1, size, t, ordinal)
}

func (c context) ImportMapped(fd int, size int64, ordinal int32) (cudalike.Mapped, cudalike.Status) {
	return c.openMapped(fd, size, 0, ordinal)
}

func (c context) OpenMapped(m cudalike.Mapped, ordinal int32) cudalike.Status {
	return answer("cuMemSetAccess", C.dlx_vmm_open_to(C.uintptr_t(c), C.CUdeviceptr(m.Address), C.size_t(m.Size), C.int(ordinal)))
}

func (c context) openMapped(fd int, size int64, t core.HandleType, ordinal int32) (cudalike.Mapped, cudalike.Status) {
	var v C.struct_dlx_vmm
	if r := C.dlx_vmm_open(C.uintptr_t(c), &v, C.int(fd), dmaBuf(t), C.size_t(size), C.int(ordinal)); r != C.CUDA_SUCCESS {
		return cudalike.Mapped{}, answer(C.GoString(v.call), r)
	}
	return cudalike.Mapped{Memory: uint64(v.memory), Address: uintptr(v.address), Size: size, Type: t}, cudalike.Status{}
}

func (c context) CloseMapped(m cudalike.Mapped) cudalike.Status {
	return answer("cuMemUnmap", C.dlx_vmm_close(C.uintptr_t(c), C.CUmemGenericAllocationHandle(m.Memory), C.CUdeviceptr(m.Address), C.size_t(m.Size)))
}

func (c context) RetainMapped(p uintptr, t core.HandleType) (cudalike.Mapped, cudalike.Status) {
	var v C.struct_dlx_vmm
	var size C.size_t
	if r := C.dlx_vmm_retain(C.uintptr_t(c), &v, C.CUdeviceptr(p), &size); r != C.CUDA_SUCCESS {
		return cudalike.Mapped{}, answer(C.GoString(v.call), r)
	}
	return cudalike.Mapped{Memory: uint64(v.memory), Address: uintptr(v.address), Size: int64(size), Type: t}, cudalike.Status{}
}

func (c context) ReleaseMapped(m cudalike.Mapped) cudalike.Status {
	return answer("cuMemRelease", C.dlx_vmm_release(C.uintptr_t(c), C.CUmemGenericAllocationHandle(m.Memory)))
}

func (c context) ExportMapped(m cudalike.Mapped) (fd int, s cudalike.Status) {
	var n C.int = -1
	if m.Type == core.HandleDMABuf {
		s = answer("cuMemGetHandleForAddressRange", C.dlx_vmm_dma_buf(C.uintptr_t(c), C.CUdeviceptr(m.Address), C.size_t(m.Size), &n))
		return int(n), s
	}
	s = answer("cuMemExportToShareableHandle", C.dlx_vmm_export(C.uintptr_t(c), C.CUmemGenericAllocationHandle(m.Memory), &n))
	return int(n), s
}
