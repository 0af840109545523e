//go:build vulkan && linux && cgo

package faults

// #include "faults.h"
import "C"

import (
	"math"
	"unsafe"
)

// The codes that tests let calls fail with.
const (
	OutOfDeviceMemory = int(C.VK_ERROR_OUT_OF_DEVICE_MEMORY)
	DeviceLost        = int(C.VK_ERROR_DEVICE_LOST)
)

// Foreign says what the driver does with addresses of memory of other devices.
type Foreign int

// The values of Foreign.
const (
	AsDriver Foreign = C.FAULTS_AS_DRIVER // what the real driver does
	Accept   Foreign = C.FAULTS_ACCEPT    // it imports them, as it does host allocations
	Refuse   Foreign = C.FAULTS_REFUSE    // it says that it does not import them
)

// HostRules changes what the driver does with addresses of the host. refuseAgain makes imports of memory fail that is
// imported already, as VK_EXT_external_memory_host allows.
func HostRules(f Foreign, refuseAgain bool) {
	again := 0
	if refuseAgain {
		again = 1
	}
	C.faults_host_rules(C.int(f), C.int(again))
}

// HostImport is the VkExternalMemoryHandleTypeFlagBits that the calls of an import of an address had.
type HostImport struct {
	Asked    uint32 // of vkGetMemoryHostPointerPropertiesEXT
	Buffer   uint32 // of VkExternalMemoryBufferCreateInfo
	Imported uint32 // of VkImportMemoryHostPointerInfoEXT
}

// LastHostImport returns the handle types of the last import since the last call.
func LastHostImport() HostImport {
	last := C.faults_last_host_import()
	return HostImport{uint32(last.asked), uint32(last.buffer), uint32(last.imported)}
}

// Loader returns a vkGetInstanceProcAddr in front of the driver's.
func Loader(driver uintptr) uintptr {
	return uintptr(C.faults_loader(*(*unsafe.Pointer)(unsafe.Pointer(&driver))))
}

// Calls lists the names of the functions that can fail.
func Calls() []string {
	names := make([]string, C.faults_count())
	for i := range names {
		names[i] = C.GoString(C.faults_name(C.int(i)))
	}
	return names
}

// Once makes one call of a function of [Calls], by its index, fail with a code, after
// that skip calls of it went well.
func Once(index, skip, code int) { C.faults_arm(C.int(index), C.uint64_t(skip), 1, C.int(code)) }

// From makes every call of a function fail from now on.
func From(index, code int) { C.faults_arm(C.int(index), 0, math.MaxUint64, C.int(code)) }

// Every makes all that can fail do so from now on.
func Every(code int) { C.faults_arm(C.FAULTS_EVERY, 0, math.MaxUint64, C.int(code)) }

// Disarm ends the failures, and returns how many calls failed.
func Disarm() int { return int(C.faults_disarm()) }
