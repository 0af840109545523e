//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

struct dlx_pointer {
	uint64_t context, memory_type, managed, device, host, start, size, pool;
};

// All members have the width of the widest attribute, and are 0 before the call. For memory that is
// not its own, the driver writes zeros or nothing.
static CUresult dlx_attributes(CUdeviceptr p, struct dlx_pointer *out) {
	CUpointer_attribute names[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	};
	void *values[] = {
		&out->context, &out->memory_type, &out->managed, &out->device, &out->host, &out->start, &out->size,
	};
	CUresult r = cuPointerGetAttributes(sizeof names / sizeof *names, names, values, p);
	// By itself, since drivers before CUDA 11.3 do not know it, and have no pools that it could name.
	if (r == CUDA_SUCCESS && out->memory_type != 0 && out->context == 0 &&
		cuPointerGetAttribute(&out->pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p) != CUDA_SUCCESS)
		out->pool = 0;
	return r;
}

static CUresult dlx_pointer(uintptr_t context, CUdeviceptr p, struct dlx_pointer *out) {
	DLX_IN(context, dlx_attributes(p, out));
}

static CUresult dlx_access(uintptr_t context, int device, CUdeviceptr p, unsigned long long *flags) {
	CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
	DLX_IN(context, cuMemGetAccess(flags, &location, p));
}

static CUresult dlx_mapping(uintptr_t context, CUdeviceptr p, CUdeviceptr *start, size_t *size) {
	DLX_IN(context, cuMemGetAddressRange(start, size, p));
}

static CUresult dlx_host_flags(uintptr_t context, uintptr_t p, unsigned *flags) {
	DLX_IN(context, cuMemHostGetFlags(flags, (void *)p));
}
*/
import "C"

import "github.com/dlx-go/dlx/backends/internal/cudalike"

// memoryType converts a CUmemorytype.
func memoryType(t C.uint64_t) cudalike.MemoryType {
	switch uint32(t) {
	case C.CU_MEMORYTYPE_HOST:
		return cudalike.HostMemory
	case C.CU_MEMORYTYPE_DEVICE:
		return cudalike.DeviceMemory
	}
	return 0
}

func (c context) Pointer(p uintptr) (cudalike.Pointer, cudalike.Status) {
	var a C.struct_dlx_pointer
	s := answer("cuPointerGetAttributes", C.dlx_pointer(C.uintptr_t(c), C.CUdeviceptr(p), &a))
	return cudalike.Pointer{
		Type: memoryType(a.memory_type), Managed: uint32(a.managed) != 0, Context: cudalike.ContextID(a.context),
		Device: int32(a.device), Host: uintptr(a.host), Start: uintptr(a.start), Size: int64(a.size),
		Pool: a.pool != 0,
	}, s
}

func (c context) HasAccess(ordinal int32, p uintptr) bool {
	var flags C.ulonglong
	r := C.dlx_access(C.uintptr_t(c), C.int(ordinal), C.CUdeviceptr(p), &flags)
	return r != C.CUDA_SUCCESS || flags != C.CU_MEM_ACCESS_FLAGS_PROT_NONE
}

func (c context) IsHostAllocation(p uintptr) bool {
	var flags C.uint
	return C.dlx_host_flags(C.uintptr_t(c), C.uintptr_t(p), &flags) == C.CUDA_SUCCESS
}

func (c context) Mapping(p uintptr) (start uintptr, size int64, s cudalike.Status) {
	var at C.CUdeviceptr
	var n C.size_t
	s = answer("cuMemGetAddressRange", C.dlx_mapping(C.uintptr_t(c), C.CUdeviceptr(p), &at, &n))
	return uintptr(at), int64(n), s
}
