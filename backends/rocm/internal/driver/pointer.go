//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

// A library may write more than the struct that is known here.
typedef union { dlx_pointer_attributes known; char room[512]; } dlx_attributes_buffer;

// What dlx_pointer found. known is 0 for memory that is not HIP's.
struct dlx_pointer {
	int known, host, managed, device;
	void *host_pointer, *start;
	size_t size;
};

static hipError_t dlx_pointer_steps(void *p, struct dlx_pointer *out) {
	dlx_attributes_buffer b = {.known = {.device = -1}};
	hipError_t r = dlx_hip.hipPointerGetAttributes(&b, p);
	if (r == hipErrorInvalidValue) return hipSuccess; // memory that is not HIP's, before 6.0
	if (r != hipSuccess) return r;
	int old = dlx_hip_version < DLX_HIP_6_0, type = b.known.type;
	out->managed = b.known.managed != 0 || (!old && type == DLX_MANAGED_6);
	out->host = !out->managed && type == (old ? DLX_HOST_5 : DLX_HOST_6); // before 6.0 managed memory is the host's, too
	out->known = out->managed || out->host || type == (old ? DLX_DEVICE_5 : DLX_DEVICE_6);
	out->device = b.known.device;
	out->host_pointer = b.known.host_pointer;
	hipDeviceptr_t start = 0;
	// Not all memory has a range: registered memory may have none.
	if (out->known && dlx_hip.hipMemGetAddressRange(&start, &out->size, (hipDeviceptr_t)p) == hipSuccess) out->start = (void *)start;
	else out->size = 0;
	return hipSuccess;
}

static hipError_t dlx_pointer(int device, uintptr_t p, struct dlx_pointer *out) {
	int before;
	hipError_t r = dlx_enter(device, &before);
	if (r != hipSuccess) return r;
	r = dlx_pointer_steps((void *)p, out);
	dlx_leave(device, before, r);
	if (!out->known || !out->start) (void)dlx_hip.hipGetLastError(); // of a refused pointer
	return r;
}

static hipError_t dlx_access_of(int device, int of, uintptr_t p, unsigned long long *flags) {
	dlx_location location = {DLX_LOCATION_DEVICE, of};
	DLX_IN(device, dlx_hip.hipMemGetAccess(flags, &location, (void *)p));
}

static hipError_t dlx_mapping(int device, uintptr_t p, hipDeviceptr_t *start, size_t *size) {
	DLX_IN(device, dlx_hip.hipMemGetAddressRange(start, size, (hipDeviceptr_t)p));
}

static hipError_t dlx_host_flags(int device, uintptr_t p, unsigned *flags) {
	DLX_IN(device, dlx_hip.hipHostGetFlags(flags, (void *)p));
}
*/
import "C"

import (
	"cmp"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// Pointer does not say which memory is mapped by virtual memory management: HIP does not. Host memory belongs to every
// device, also if it was registered.
func (c context) Pointer(p uintptr) (cudalike.Pointer, cudalike.Status) {
	var a C.struct_dlx_pointer
	s := answer("hipPointerGetAttributes", C.dlx_pointer(c.device(), C.uintptr_t(p), &a))
	if !s.OK() || a.known == 0 {
		return cudalike.Pointer{}, s
	}
	out := cudalike.Pointer{
		Type: cudalike.DeviceMemory, Managed: a.managed != 0, Device: int32(a.device), Context: context(a.device).ID(),
		Start: uintptr(a.start), Size: int64(a.size),
	}
	if a.host != 0 {
		out.Type, out.Context = cudalike.HostMemory, c.ID()
		out.Host = cmp.Or(uintptr(a.host_pointer), p)
		if out.Start != out.Host && (out.Host < out.Start || out.Host-out.Start > uintptr(a.size)) {
			out.Start, out.Size = 0, 0 // the range is of another address of the memory
		}
	}
	return out, s
}

// HasAccess asks only about devices of which the library says that they have access.
func (c context) HasAccess(ordinal int32, p uintptr) bool {
	var flags C.ulonglong
	r := C.dlx_access_of(c.device(), C.int(ordinal), C.uintptr_t(p), &flags)
	return r != C.hipSuccess || flags != 0
}

func (c context) IsHostAllocation(p uintptr) bool {
	var flags C.uint
	return C.dlx_host_flags(c.device(), C.uintptr_t(p), &flags) == C.hipSuccess
}

func (c context) Mapping(p uintptr) (start uintptr, size int64, s cudalike.Status) {
	var at C.hipDeviceptr_t
	var n C.size_t
	s = answer("hipMemGetAddressRange", C.dlx_mapping(c.device(), C.uintptr_t(p), &at, &n))
	return uintptr(unsafe.Pointer(at)), int64(n), s
}
