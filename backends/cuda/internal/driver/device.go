//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

static CUresult dlx_bus(int device, char *out, int room) { return cuDeviceGetPCIBusId(out, room, device); }
*/
import "C"

import (
	"fmt"
	"strings"

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
	id, err := d.UUID()
	if err != nil {
		return x, status("cuDeviceGetUuid", code(err))
	}
	x.UUID, x.PCI = core.UUID(id), pci(d)
	x.ComputeUnits = attribute(d, C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
	x.Integrated = attribute(d, C.CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0
	// Managed memory that the host touches while the device works faults without concurrent access.
	if attribute(d, C.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 0 || attribute(d, C.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 0 {
		x.NoManaged = "CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY or CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is 0"
	}
	if attribute(d, C.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) == 0 || attribute(d, C.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) == 0 {
		x.NoDescriptors = "CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED is 0"
	}
	// On Linux, with unified addresses (cuIpcGetMemHandle).
	if x.Integrated || attribute(d, C.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 0 || !link.Has("cuIpcOpenMemHandle_v2") {
		x.NoIPC = "the device is integrated, or the driver has no cuIpcGetMemHandle"
	}
	if attribute(d, C.CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED) == 0 {
		x.NoTimelines = "CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED is 0"
	}
	return x, s
}

// attribute is a number that describes a device; 0 is what an older driver does not know.
func attribute(d cu.Device, a cu.DeviceAttribute) int {
	n, err := d.Attribute(a)
	if err != nil {
		return 0
	}
	return n
}

// pci is where the device sits: "0000:65:00.0", or "" where the driver does not tell.
func pci(d cu.Device) string {
	var text [32]C.char
	if C.dlx_bus(C.int(d), &text[0], C.int(len(text))) != C.CUDA_SUCCESS {
		return ""
	}
	return strings.ToLower(C.GoString(&text[0]))
}
