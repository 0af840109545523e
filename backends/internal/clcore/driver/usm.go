//go:build (opencl || oneapi) && linux && cgo

package driver

/*
#include "shim.h"

static const char *const dlx_usm_names[] = {
#define DLX_USM_NAME(name, since, optional, handle) #name,
	DLX_USM_FUNCTIONS(DLX_USM_NAME)
};
static const char *dlx_usm_name(int i) { return dlx_usm_names[i]; }
enum { dlx_usm_count = sizeof(struct dlx_usm_table) / sizeof(uintptr_t) };
*/
import "C"

import (
	"encoding/binary"
	"unsafe"

	"github.com/dlx-go/dlx/internal/live"
)

// USMExtension is the extension of devices with unified shared memory.
const USMExtension = "cl_intel_unified_shared_memory"

// USM has the addresses of a platform's functions for unified shared memory, in the order of table.h.
type USM [C.dlx_usm_count]uintptr

var liveUSM = live.NewCounter("opencl.usm")

// USMOf asks a platform for its functions. missing is the name of one that it lacks, or "".
func USMOf(p Platform) (u *USM, missing string) {
	u = new(USM)
	for i := range u {
		name := C.GoString(C.dlx_usm_name(C.int(i)))
		if u[i] = Extension(p, name); u[i] == 0 {
			return nil, name
		}
	}
	return u, ""
}

func (u *USM) table() *C.struct_dlx_usm_table { return (*C.struct_dlx_usm_table)(unsafe.Pointer(u)) }

// USMKind is where an allocation lies, and who may use it.
type USMKind uint32

// The kinds. USMUnknown is memory that is not an allocation of the context that was asked.
const (
	USMUnknown USMKind = C.CL_MEM_TYPE_UNKNOWN_INTEL
	USMHost    USMKind = C.CL_MEM_TYPE_HOST_INTEL
	USMDevice  USMKind = C.CL_MEM_TYPE_DEVICE_INTEL
	USMShared  USMKind = C.CL_MEM_TYPE_SHARED_INTEL
)

// What a device can do with a kind of memory, as bits: see [DeviceUSMShared].
const (
	USMAccess     = C.CL_UNIFIED_SHARED_MEMORY_ACCESS_INTEL
	USMConcurrent = C.CL_UNIFIED_SHARED_MEMORY_CONCURRENT_ACCESS_INTEL
)

// Alloc makes an allocation of a kind, for the device d of the context. Its address is a multiple of align.
func (u *USM) Alloc(kind USMKind, c Context, d Device, size, align int64) (p uintptr, s Status) {
	var code C.cl_int
	switch kind {
	case USMHost:
		code = C.dlx_usm_host(u.table(), C.dlx_handle(c), C.size_t(size), C.cl_uint(align), out(&p))
	case USMShared:
		code = C.dlx_usm_shared(u.table(), C.dlx_handle(c), C.dlx_handle(d), C.size_t(size), C.cl_uint(align), out(&p))
	default:
		code = C.dlx_usm_device(u.table(), C.dlx_handle(c), C.dlx_handle(d), C.size_t(size), C.cl_uint(align), out(&p))
	}
	return p, counted(liveUSM, code)
}

// Free calls clMemFreeINTEL, which does not wait for commands that use the allocation.
func (u *USM) Free(c Context, p uintptr) Status {
	return dropped(liveUSM, C.dlx_usm_free(u.table(), C.dlx_handle(c), C.uintptr_t(p)))
}

// Allocation is what a context knows of an address.
type Allocation struct {
	Kind   USMKind
	Base   uintptr // the first byte
	Size   int64   // bytes from Base
	Device Device  // 0 for memory of the host, and for shared memory of no device
}

// Find calls clGetMemAllocInfoINTEL for an address. The Kind is USMUnknown if no allocation of the context has it; the
// other fields are then 0.
func (u *USM) Find(c Context, p uintptr) (a Allocation, s Status) {
	ask := func(param C.cl_uint, room int) (n uint64) {
		var value [8]byte
		if s == Success {
			s = Status(C.dlx_usm_info(u.table(), C.dlx_handle(c), C.uintptr_t(p), param, C.size_t(room), unsafe.Pointer(&value)))
		}
		if room == 4 {
			return uint64(binary.NativeEndian.Uint32(value[:]))
		}
		return binary.NativeEndian.Uint64(value[:])
	}
	a.Kind = USMKind(ask(C.CL_MEM_ALLOC_TYPE_INTEL, 4))
	if s != Success || a.Kind == USMUnknown {
		return a, s
	}
	a.Base = uintptr(ask(C.CL_MEM_ALLOC_BASE_PTR_INTEL, 8))
	a.Size = int64(ask(C.CL_MEM_ALLOC_SIZE_INTEL, 8))
	a.Device = Device(ask(C.CL_MEM_ALLOC_DEVICE_INTEL, 8))
	return a, s
}

// SetArg calls clSetKernelArgMemPointerINTEL.
func (u *USM) SetArg(k Kernel, index int, p uintptr) Status {
	return Status(C.dlx_usm_arg(u.table(), C.dlx_handle(k), C.cl_uint(index), C.uintptr_t(p)))
}

// Copy calls clEnqueueMemcpyINTEL without blocking. Each address is an allocation's or the host's.
func (u *USM) Copy(q Queue, dst, src uintptr, n int64) Status {
	return Status(C.dlx_usm_copy(u.table(), C.dlx_handle(q), C.uintptr_t(dst), C.uintptr_t(src), C.size_t(n)))
}
