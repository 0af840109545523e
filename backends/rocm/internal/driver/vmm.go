//go:build rocm && linux && cgo

package driver

/*
#include <fcntl.h>
#include <unistd.h>

#include "shim.h"

// The result of dlx_vmm_open. If it failed, call is the function that failed.
struct dlx_vmm {
	void *memory, *address;
	const char *call;
};

// dlx_properties describes memory that can be exported as an opaque descriptor, or, if rdma is true, as a dma-buf for other devices.
static inline dlx_allocation dlx_properties(int device, int rdma) {
	return (dlx_allocation){
		.type = DLX_PINNED, .handle_types = rdma ? 0 : DLX_POSIX_FD, .location = {DLX_LOCATION_DEVICE, device}, .rdma = rdma,
	};
}

static hipError_t dlx_vmm_granularity(int device, int option, size_t *bytes) {
	dlx_allocation p = dlx_properties(device, 0);
	return dlx_forget(dlx_hip.hipMemGetAllocationGranularity(bytes, &p, option));
}

static inline hipError_t dlx_give_access(void *address, size_t size, int device) {
	dlx_access access = {{DLX_LOCATION_DEVICE, device}, DLX_READ_WRITE};
	return dlx_hip.hipMemSetAccess(address, size, &access, 1);
}

// dlx_vmm_import opens the memory of a descriptor. Libraries since 7.1 take the descriptor itself, older ones its address.
// The descriptor 0 would be a null pointer, which is refused, so a duplicate stands for it.
static inline hipError_t dlx_vmm_import(void **memory, int fd) {
	if (dlx_hip_version < DLX_HIP_7_1) return dlx_hip.hipMemImportFromShareableHandle(memory, &fd, DLX_POSIX_FD);
	int passed = fd != 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, 3);
	if (passed < 0) return hipErrorOutOfMemory; // no descriptor is left
	hipError_t r = dlx_hip.hipMemImportFromShareableHandle(memory, (void *)(intptr_t)passed, DLX_POSIX_FD);
	if (passed != fd) close(passed);
	return r;
}

// dlx_vmm_memory makes the memory, or opens that of the descriptor fd.
static inline hipError_t dlx_vmm_memory(struct dlx_vmm *v, int fd, int rdma, size_t size, int device) {
	if (fd >= 0) {
		v->call = "hipMemImportFromShareableHandle";
		return dlx_vmm_import(&v->memory, fd);
	}
	dlx_allocation p = dlx_properties(device, rdma);
	v->call = "hipMemCreate";
	return dlx_hip.hipMemCreate(&v->memory, size, &p, 0);
}

// dlx_vmm_steps makes or opens the memory, and maps it for the device. If a step fails, it undoes the others.
static hipError_t dlx_vmm_steps(struct dlx_vmm *v, int fd, int rdma, size_t size, int device) {
	hipError_t r = dlx_vmm_memory(v, fd, rdma, size, device);
	if (r != hipSuccess) return r;
	v->call = "hipMemAddressReserve";
	r = dlx_hip.hipMemAddressReserve(&v->address, size, 0, NULL, 0);
	if (r != hipSuccess) goto release;
	v->call = "hipMemMap";
	r = dlx_hip.hipMemMap(v->address, size, 0, v->memory, 0);
	if (r != hipSuccess) goto unreserve;
	v->call = "hipMemSetAccess";
	r = dlx_give_access(v->address, size, device);
	if (r == hipSuccess) return r;
	dlx_hip.hipMemUnmap(v->address, size);
unreserve:
	dlx_hip.hipMemAddressFree(v->address, size);
release:
	dlx_hip.hipMemRelease(v->memory);
	return r;
}

static hipError_t dlx_vmm_open(int device, struct dlx_vmm *v, int fd, int rdma, size_t size, int of) {
	v->call = "hipSetDevice";
	DLX_RELAXED(device, dlx_vmm_steps(v, fd, rdma, size, of));
}

// dlx_vmm_undo takes all three steps, and returns the first error.
static inline hipError_t dlx_vmm_undo(void *memory, void *address, size_t size) {
	hipError_t unmapped = dlx_hip.hipMemUnmap(address, size);
	hipError_t freed = dlx_hip.hipMemAddressFree(address, size);
	hipError_t released = dlx_hip.hipMemRelease(memory);
	if (unmapped != hipSuccess) return unmapped;
	return freed != hipSuccess ? freed : released;
}

static hipError_t dlx_vmm_close(int device, uintptr_t memory, uintptr_t address, size_t size) {
	DLX_RELAXED(device, dlx_vmm_undo((void *)memory, (void *)address, size));
}

static hipError_t dlx_vmm_open_to(int device, uintptr_t address, size_t size, int to) {
	DLX_RELAXED(device, dlx_give_access((void *)address, size, to));
}

// dlx_vmm_retain_steps finds the memory that is mapped to an address. hipMemGetAccess fails for other memory, for which
// libraries before 7.15 crash in hipMemRetainAllocationHandle. These also do not count the reference that it returns, so that
// giving it back would free the memory: their handles are not used. A dma-buf is made of addresses and needs no handle.
static inline hipError_t dlx_vmm_retain_steps(struct dlx_vmm *v, void *p, size_t *size, int dma_buf, int device) {
	hipDeviceptr_t start = 0;
	v->call = "hipMemGetAddressRange";
	hipError_t r = dlx_hip.hipMemGetAddressRange(&start, size, (hipDeviceptr_t)p);
	if (r != hipSuccess) return r;
	v->address = (void *)start;
	unsigned long long flags;
	dlx_location location = {DLX_LOCATION_DEVICE, device};
	v->call = "hipMemGetAccess";
	r = dlx_hip.hipMemGetAccess(&flags, &location, v->address);
	if (r != hipSuccess || dma_buf) return r;
	v->call = "hipMemRetainAllocationHandle";
	return dlx_hip_version < DLX_HIP_7_15 ? hipErrorNotSupported : dlx_hip.hipMemRetainAllocationHandle(&v->memory, v->address);
}

static hipError_t dlx_vmm_retain(int device, struct dlx_vmm *v, uintptr_t p, size_t *size, int dma_buf) {
	v->call = "hipSetDevice";
	DLX_IN(device, dlx_vmm_retain_steps(v, (void *)p, size, dma_buf, device));
}

static hipError_t dlx_vmm_release(int device, uintptr_t memory) {
	DLX_IN(device, dlx_hip.hipMemRelease((void *)memory));
}

static hipError_t dlx_vmm_export(int device, uintptr_t memory, int *fd) {
	DLX_IN(device, dlx_hip.hipMemExportToShareableHandle(fd, (void *)memory, DLX_POSIX_FD, 0));
}

static hipError_t dlx_vmm_dma_buf(int device, uintptr_t address, size_t size, int *fd) {
	DLX_IN(device, dlx_hip.hipMemGetHandleForAddressRange(fd, (void *)address, size, DLX_DMA_BUF, 0));
}
*/
import "C"

import (
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

func (library) Granularity(ordinal int32, _ core.HandleType, best bool) (int64, cudalike.Status) {
	var option C.int = C.DLX_MINIMUM
	if best {
		option = C.DLX_RECOMMENDED
	}
	var n C.size_t
	s := answer("hipMemGetAllocationGranularity", C.dlx_vmm_granularity(C.int(ordinal), option, &n))
	return int64(n), s
}

func (c context) NewMapped(size int64, t core.HandleType, ordinal int32) (cudalike.Mapped, cudalike.Status) {
	return c.mapped(-1, size, t, ordinal)
}

func (c context) ImportMapped(fd int, size int64, ordinal int32) (cudalike.Mapped, cudalike.Status) {
	return c.mapped(fd, size, 0, ordinal)
}

func (c context) mapped(fd int, size int64, t core.HandleType, ordinal int32) (cudalike.Mapped, cudalike.Status) {
	var v C.struct_dlx_vmm
	var rdma C.int
	if t == core.HandleDMABuf {
		rdma = 1
	}
	if r := C.dlx_vmm_open(c.device(), &v, C.int(fd), rdma, C.size_t(size), C.int(ordinal)); r != C.hipSuccess {
		return cudalike.Mapped{}, answer(C.GoString(v.call), r)
	}
	return cudalike.Mapped{Memory: uint64(uintptr(v.memory)), Address: uintptr(v.address), Size: size, Type: t}, cudalike.Status{}
}

func (c context) CloseMapped(m cudalike.Mapped) cudalike.Status {
	return answer("hipMemUnmap", C.dlx_vmm_close(c.device(), C.uintptr_t(m.Memory), C.uintptr_t(m.Address), C.size_t(m.Size)))
}

func (c context) OpenMapped(m cudalike.Mapped, ordinal int32) cudalike.Status {
	return answer("hipMemSetAccess", C.dlx_vmm_open_to(c.device(), C.uintptr_t(m.Address), C.size_t(m.Size), C.int(ordinal)))
}

func (c context) RetainMapped(p uintptr, t core.HandleType) (cudalike.Mapped, cudalike.Status) {
	var v C.struct_dlx_vmm
	var size C.size_t
	var dmaBuf C.int
	if t == core.HandleDMABuf {
		dmaBuf = 1
	}
	if r := C.dlx_vmm_retain(c.device(), &v, C.uintptr_t(p), &size, dmaBuf); r != C.hipSuccess {
		return cudalike.Mapped{}, answer(C.GoString(v.call), r)
	}
	return cudalike.Mapped{Memory: uint64(uintptr(v.memory)), Address: uintptr(v.address), Size: int64(size), Type: t}, cudalike.Status{}
}

// ReleaseMapped does nothing for memory that is exported as a dma-buf, which has no handle.
func (c context) ReleaseMapped(m cudalike.Mapped) cudalike.Status {
	if m.Memory == 0 {
		return cudalike.Status{}
	}
	return answer("hipMemRelease", C.dlx_vmm_release(c.device(), C.uintptr_t(m.Memory)))
}

func (c context) ExportMapped(m cudalike.Mapped) (int, cudalike.Status) {
	var fd C.int = -1
	switch {
	case m.Type != core.HandleDMABuf:
		s := answer("hipMemExportToShareableHandle", C.dlx_vmm_export(c.device(), C.uintptr_t(m.Memory), &fd))
		return int(fd), s
	case has("hipMemGetHandleForAddressRange"):
		s := answer("hipMemGetHandleForAddressRange", C.dlx_vmm_dma_buf(c.device(), C.uintptr_t(m.Address), C.size_t(m.Size), &fd))
		return int(fd), s
	}
	return portableExport(m)
}
