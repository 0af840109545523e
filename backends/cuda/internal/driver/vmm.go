//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

// What dlx_vmm_open made, and the call that failed where it made nothing.
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

// dlx_vmm_map maps memory that is there.
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

// dlx_vmm_steps makes memory on the first device, or opens that of a descriptor that is
// not -1, and maps it; it undoes all where a step fails.
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

// dlx_vmm_undo does all that it can, and tells the first failure.
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

import "gorgonia.org/cu"

// Mapped is memory of the driver's virtual memory management, mapped to addresses of its own.
type Mapped struct {
	memory  uint64 // a CUmemGenericAllocationHandle
	Address uintptr
	Size    int64
}

// Granularity is what the sizes of memory on a device are multiples of.
type Granularity uint32

// The granularities: CUmemAllocationGranularity_flags.
const (
	LeastGranularity Granularity = C.CU_MEM_ALLOC_GRANULARITY_MINIMUM
	BestGranularity  Granularity = C.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED // for speed
)

// Of tells the bytes for a device.
func (g Granularity) Of(d cu.Device) (int64, Status) {
	var n C.size_t
	s := Status(C.dlx_vmm_granularity(C.int(d), &n, C.CUmemAllocationGranularity_flags(g)))
	return int64(n), s
}

// NewMapped makes memory on the first of the devices that can be exported as a
// descriptor, and maps it for all of them: cuCtxEnablePeerAccess does not reach it. If
// a step fails, call is its name and everything is undone.
func (c Context) NewMapped(size int64, devices []cu.Device) (m Mapped, call string, s Status) {
	return c.openMapped(-1, size, devices)
}

// ImportMapped opens the memory behind a descriptor of [Context.ExportMapped], of
// another process mostly, and maps it as NewMapped does. The descriptor stays the caller's.
func (c Context) ImportMapped(fd int, size int64, devices []cu.Device) (m Mapped, call string, s Status) {
	return c.openMapped(fd, size, devices)
}

func (c Context) openMapped(fd int, size int64, devices []cu.Device) (Mapped, string, Status) {
	access := make([]C.CUmemAccessDesc, len(devices))
	for i, d := range devices {
		access[i].location._type = C.CU_MEM_LOCATION_TYPE_DEVICE
		access[i].location.id = C.int(d)
		access[i].flags = C.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
	}
	var v C.struct_dlx_vmm
	s := Status(C.dlx_vmm_open(C.uintptr_t(c), &v, C.int(fd), C.size_t(size), &access[0], C.size_t(len(access))))
	if s != Success {
		return Mapped{}, C.GoString(v.call), s
	}
	return Mapped{memory: uint64(v.memory), Address: uintptr(v.address), Size: size}, "", s
}

// CloseMapped unmaps the memory and gives it back: it lives on while a descriptor or
// another mapping of it does. No work may be using it.
func (c Context) CloseMapped(m Mapped) Status {
	return Status(C.dlx_vmm_close(C.uintptr_t(c), C.CUmemGenericAllocationHandle(m.memory), C.CUdeviceptr(m.Address), C.size_t(m.Size)))
}

// ExportMapped makes a descriptor, which is the caller's.
func (c Context) ExportMapped(m Mapped) (fd int, s Status) {
	var n C.int = -1
	s = Status(C.dlx_vmm_export(C.uintptr_t(c), C.CUmemGenericAllocationHandle(m.memory), &n))
	return int(n), s
}
