//go:build cuda && linux && cgo

package driver

/*
#include "shim.h"

static CUresult dlx_bus(int device, char *out, int room) { return cuDeviceGetPCIBusId(out, room, device); }
*/
import "C"

import (
	"strings"

	"gorgonia.org/cu"
)

// Version is the newest version of CUDA that the driver serves: 12040 is 12.4.
func Version() int { return cu.Version() }

// Devices is how many devices there are.
func Devices() (int, Status) {
	n, err := cu.NumDevices()
	return n, status(err)
}

// Device is the device of an ordinal.
func Device(ordinal int) (cu.Device, Status) {
	d, err := cu.GetDevice(ordinal)
	return d, status(err)
}

// Attributes that are asked for: CUdevice_attribute.
const (
	Integrated        cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_INTEGRATED
	Multiprocessors   cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
	ManagedMemory     cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY
	ConcurrentManaged cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS
	VirtualMemory     cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
	ExportFD          cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED
	TimelineSemaphore cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED
	UnifiedAddressing cu.DeviceAttribute = C.CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING
)

// Attribute is a number that describes a device; 0 is what an older driver does not know.
func Attribute(d cu.Device, a cu.DeviceAttribute) int {
	n, err := d.Attribute(a)
	if err != nil {
		return 0
	}
	return n
}

// PCI is where the device sits: "0000:65:00.0", or "" where the driver does not tell.
func PCI(d cu.Device) string {
	var text [32]C.char
	if C.dlx_bus(C.int(d), &text[0], C.int(len(text))) != C.CUDA_SUCCESS {
		return ""
	}
	return strings.ToLower(C.GoString(&text[0]))
}

// StatusOf is the code behind an error of cu.
func StatusOf(err error) Status { return status(err) }
