//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

struct dlx_pointer {
	uint64_t context, memory_type, managed, device, host, start, size;
};

// The members are as wide as the widest that a driver writes, and 0 before: for what is
// no memory of its own it writes nothing, or zeros.
static CUresult dlx_pointer(uintptr_t context, CUdeviceptr p, struct dlx_pointer *out) {
	CUpointer_attribute names[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	};
	void *values[] = {
		&out->context, &out->memory_type, &out->managed, &out->device, &out->host, &out->start, &out->size,
	};
	DLX_IN(context, cuPointerGetAttributes(sizeof names / sizeof *names, names, values, p));
}

static CUresult dlx_mapping(uintptr_t context, CUdeviceptr p, CUdeviceptr *start, size_t *size) {
	DLX_IN(context, cuMemGetAddressRange(start, size, p));
}

static CUresult dlx_host_flags(uintptr_t context, uintptr_t p, unsigned *flags) {
	DLX_IN(context, cuMemHostGetFlags(flags, (void *)p));
}
*/
import "C"

// MemoryType is a CUmemorytype.
type MemoryType uint32

// The memory types of addresses. 0 is what is no memory of CUDA.
const (
	HostMemory   MemoryType = C.CU_MEMORYTYPE_HOST
	DeviceMemory MemoryType = C.CU_MEMORYTYPE_DEVICE
)

// Pointer is what the driver knows of an address.
type Pointer struct {
	Type    MemoryType
	Managed bool
	Context Context // that the memory was allocated or registered in; 0 for memory of a pool and mapped memory
	Device  int32   // that the memory was allocated or registered for
	Host    uintptr // the address for the host, 0 where it has none
	Start   uintptr // of the allocation, or of the reserved addresses that it is mapped into
	Size    int64   // from Start on
}

// Pointer describes an address. One that is no memory of CUDA is no failure: its Type is 0.
func (c Context) Pointer(p uintptr) (Pointer, Status) {
	var a C.struct_dlx_pointer
	s := Status(C.dlx_pointer(C.uintptr_t(c), C.CUdeviceptr(p), &a))
	return Pointer{
		Type: MemoryType(a.memory_type), Managed: uint32(a.managed) != 0, Context: Context(a.context),
		Device: int32(a.device), Host: uintptr(a.host), Start: uintptr(a.start), Size: int64(a.size),
	}, s
}

// IsHostAllocation reports whether an address of the host lies in an allocation of
// cuMemHostAlloc, and not in memory that was registered: cuMemHostGetFlags knows only the former.
func (c Context) IsHostAllocation(p uintptr) bool {
	var flags C.uint
	return Status(C.dlx_host_flags(C.uintptr_t(c), C.uintptr_t(p), &flags)) == Success
}

// Mapping is the mapped range around an address, which may be a part of what is reserved.
func (c Context) Mapping(p uintptr) (start uintptr, size int64, s Status) {
	var at C.CUdeviceptr
	var n C.size_t
	s = Status(C.dlx_mapping(C.uintptr_t(c), C.CUdeviceptr(p), &at, &n))
	return uintptr(at), int64(n), s
}
