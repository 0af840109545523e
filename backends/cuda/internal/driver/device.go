//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

static CUresult dlx_bus(int device, char *out, int size) { return cuDeviceGetPCIBusId(out, size, device); }
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/cuda/internal/link"
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

func (library) Version() string {
	v := cu.Version() // 12040 is 12.4
	return fmt.Sprintf("%d.%d", v/1000, v%1000/10)
}

func (library) Devices() (int, cudalike.Status) {
	n, err := cu.NumDevices()
	return n, status("cuDeviceGetCount", code(err))
}

func (library) Describe(ordinal int32) (x cudalike.Description, s cudalike.Status) {
	d, err := cu.GetDevice(int(ordinal))
	if err != nil {
		return x, status("cuDeviceGet", code(err))
	}
	if x.Name, err = d.Name(); err != nil {
		return x, status("cuDeviceGetName", code(err))
	}
	if x.TotalMemory, err = d.TotalMem(); err != nil {
		return x, status("cuDeviceTotalMem", code(err))
	}
	if x.UUID, s = uuid(d); !s.OK() {
		return x, s
	}
	x.PCI = pci(d)
	x.ComputeUnits = attribute(d, C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
	x.Major = attribute(d, C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
	x.Minor = attribute(d, C.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
	x.Integrated = attribute(d, C.CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0
	// Without concurrent access the host crashes when it uses managed memory while the device works.
	if attribute(d, C.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 0 || attribute(d, C.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0 {
		x.NoManaged = "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY or CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0"
	}
	if attribute(d, C.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0 || attribute(d, C.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 0 {
		x.NoDescriptors = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED is 0"
	}
	x.NoExternal = x.NoDescriptors
	x.NoDMABufs = noDMABufs(d)
	// IPC needs Linux and unified addressing (cuIpcGetMemHandle).
	if x.Integrated || attribute(d, C.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 0 || !link.Has("cuIpcOpenMemHandle_v2") {
		x.NoIPC = "the device is integrated, or the driver has no cuIpcGetMemHandle"
	}
	x.NoIPCEvents = noIPCEvents(d, x.NoIPC)
	if attribute(d, C.CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED) == 0 {
		x.NoTimelines = "CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED is 0"
	}
	if attribute(d, C.CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) == 0 {
		x.NoReadOnlyHost = "CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED is 0"
	}
	return x, s
}

// noDMABufs returns why memory of a device cannot be exported as dma-bufs, "" if it can. The memory is mapped memory.
func noDMABufs(d cu.Device) string {
	switch {
	case !link.Has("cuMemGetHandleForAddressRange"):
		return "the driver has no cuMemGetHandleForAddressRange"
	case attribute(d, C.CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED) == 0:
		return "CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED is 0: it takes the open kernel modules"
	case attribute(d, C.CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) == 0:
		return "CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED is 0"
	}
	return ""
}

// noIPCEvents returns why other processes cannot open events of a device, "" if they can. There are integrated devices
// that share events and no memory. noIPC is the answer for drivers that do not know the attribute.
func noIPCEvents(d cu.Device, noIPC string) string {
	const supported = 125 // CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, which older headers do not have
	switch n, err := d.Attribute(supported); {
	case err != nil:
		return noIPC
	case n == 0:
		return "CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED is 0"
	}
	return ""
}

// uuid returns the UUID of the part of a card that the process has: its MIG instance, where
// the driver can tell (cuDeviceGetUuid_v2). The older function returns the whole card's.
func uuid(d cu.Device) (core.UUID, cudalike.Status) {
	const call = "cuDeviceGetUuid_v2"
	if !link.Has(call) {
		id, err := d.UUID()
		return core.UUID(id), status("cuDeviceGetUuid", code(err))
	}
	var id C.CUuuid
	if s := answer(call, C.cuDeviceGetUuid_v2(&id, C.CUdevice(d))); !s.OK() {
		return core.UUID{}, s
	}
	return *(*core.UUID)(unsafe.Pointer(&id)), cudalike.Status{}
}

// attribute returns an attribute of a device. It is 0 if the driver is too old to know the attribute.
func attribute(d cu.Device, a cu.DeviceAttribute) int {
	n, err := d.Attribute(a)
	if err != nil {
		return 0
	}
	return n
}

// pci returns the PCI address of a device, such as "0000:65:00.0", or "" if the driver does not know it.
func pci(d cu.Device) string {
	var text [32]C.char
	if C.dlx_bus(C.int(d), &text[0], C.int(len(text))) != C.CUDA_SUCCESS {
		return ""
	}
	return strings.ToLower(C.GoString(&text[0]))
}
