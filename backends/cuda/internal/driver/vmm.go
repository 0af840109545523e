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

static CUmemAllocationProp dlx_vmm_properties(int device) {
	CUmemAllocationProp p = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
	};
	return p;
}

static CUresult dlx_vmm_granularity(int device, size_t *bytes, CUmemAllocationGranularity_flags which) {
	CUmemAllocationProp p = dlx_vmm_properties(device);
	return cuMemGetAllocationGranularity(bytes, &p, which);
}

// dlx_vmm_access describes access for a device. It is C because id is a field of CUmemLocation or, from CUDA 13.5 on, of
// a union in it, which has no name in Go.
static void dlx_vmm_access(CUmemAccessDesc *access, int device) {
	access->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	access->location.id = device;
	access->flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

// dlx_vmm_map maps v->memory.
static CUresult dlx_vmm_map(struct dlx_vmm *v, size_t size, const CUmemAccessDesc *access, size_t count) {
	v->call = "cuMemAddressReserve";
	CUresult r = cuMemAddressReserve(&v->address, size, 0, 0, 0);
	if (r != CUDA_SUCCESS) return r;
	v->call = "cuMemMap";
	r = cuMemMap(v->address, size, 0, v->memory, 0);
	if (r == CUDA_SUCCESS) {
		v->call = "cuMemSetAccess";
		r = cuMemSetAccess(v->address, size, access, count);
		if (r == CUDA_SUCCESS) return r;
		cuMemUnmap(v->address, size);
	}
	cuMemAddressFree(v->address, size);
	return r;
}

// dlx_vmm_steps maps the memory of the descriptor fd, or new memory on the first device if fd is -1.
// If a step fails, it undoes the others.
static CUresult dlx_vmm_steps(struct dlx_vmm *v, int fd, size_t size, const CUmemAccessDesc *access, size_t count) {
	CUresult r;
	if (fd == -1) {
		CUmemAllocationProp p = dlx_vmm_properties(access->location.id);
		v->call = "cuMemCreate";
		r = cuMemCreate(&v->memory, size, &p, 0);
	} else {
		v->call = "cuMemImportFromShareableHandle";
		r = cuMemImportFromShareableHandle(&v->memory, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	}
	if (r != CUDA_SUCCESS) return r;
	r = dlx_vmm_map(v, size, access, count);
	if (r != CUDA_SUCCESS) cuMemRelease(v->memory);
	return r;
}

static CUresult dlx_vmm_open(uintptr_t context, struct dlx_vmm *v, int fd, size_t size, const CUmemAccessDesc *access, size_t count) {
	v->call = "cuCtxPushCurrent";
	DLX_RELAXED(context, dlx_vmm_steps(v, fd, size, access, count));
}

// dlx_vmm_undo takes all three steps, and returns the first error.
static CUresult dlx_vmm_undo(CUmemGenericAllocationHandle memory, CUdeviceptr address, size_t size) {
	CUresult unmapped = cuMemUnmap(address, size), freed = cuMemAddressFree(address, size), released = cuMemRelease(memory);
	return unmapped ? unmapped : freed ? freed : released;
}

static CUresult dlx_vmm_close(uintptr_t context, CUmemGenericAllocationHandle memory, CUdeviceptr address, size_t size) {
	DLX_RELAXED(context, dlx_vmm_undo(memory, address, size));
}

static CUresult dlx_vmm_export(uintptr_t context, CUmemGenericAllocationHandle memory, int *fd) {
	DLX_IN(context, cuMemExportToShareableHandle(fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}
*/
import "C"

import "github.com/dlx-go/dlx/backends/internal/cudalike"

func (library) Granularity(ordinal int32, best bool) (int64, cudalike.Status) {
	which := C.CUmemAllocationGranularity_flags(C.CU_MEM_ALLOC_GRANULARITY_MINIMUM)
	if best {
		which = C.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
	}
	var n C.size_t
	s := answer("cuMemGetAllocationGranularity", C.dlx_vmm_granularity(C.int(ordinal), &n, which))
	return int64(n), s
}

func (c context) NewMapped(size int64, ordinals []int32) (cudalike.Mapped, cudalike.Status) {
	return c.openMapped(-1, size, ordinals)
}

func (c context) ImportMapped(fd int, size int64, ordinals []int32) (cudalike.Mapped, cudalike.Status) {
	return c.openMapped(fd, size, ordinals)
}

func (c context) openMapped(fd int, size int64, ordinals []int32) (cudalike.Mapped, cudalike.Status) {
	access := make([]C.CUmemAccessDesc, len(ordinals))
	for i, ordinal := range ordinals {
		C.dlx_vmm_access(&access[i], C.int(ordinal))
	}
	var v C.struct_dlx_vmm
	if r := C.dlx_vmm_open(C.uintptr_t(c), &v, C.int(fd), C.size_t(size), &access[0], C.size_t(len(access))); r != C.CUDA_SUCCESS {
		return cudalike.Mapped{}, answer(C.GoString(v.call), r)
	}
	return cudalike.Mapped{Memory: uint64(v.memory), Address: uintptr(v.address), Size: size}, cudalike.Status{}
}

func (c context) CloseMapped(m cudalike.Mapped) cudalike.Status {
	return answer("cuMemUnmap", C.dlx_vmm_close(C.uintptr_t(c), C.CUmemGenericAllocationHandle(m.Memory), C.CUdeviceptr(m.Address), C.size_t(m.Size)))
}

func (c context) ExportMapped(m cudalike.Mapped) (fd int, s cudalike.Status) {
	var n C.int = -1
	s = answer("cuMemExportToShareableHandle", C.dlx_vmm_export(C.uintptr_t(c), C.CUmemGenericAllocationHandle(m.Memory), &n))
	return int(n), s
}
