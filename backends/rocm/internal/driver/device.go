//go:build rocm && linux && cgo

package driver

/*
#include "shim.h"

static hipError_t dlx_count(int *n) { return dlx_forget(dlx_hip.hipGetDeviceCount(n)); }
static hipError_t dlx_name(int device, char *out, int size) { return dlx_forget(dlx_hip.hipDeviceGetName(out, size, device)); }
static hipError_t dlx_total(int device, size_t *out) { return dlx_forget(dlx_hip.hipDeviceTotalMem(out, device)); }
static hipError_t dlx_uuid(int device, void *out) { return dlx_forget(dlx_hip.hipDeviceGetUuid(out, device)); }
static hipError_t dlx_bus(int device, char *out, int size) { return dlx_forget(dlx_hip.hipDeviceGetPCIBusId(out, size, device)); }

static int dlx_attribute(int device, int which) {
	int n = 0;
	return dlx_forget(dlx_hip.hipDeviceGetAttribute(&n, (hipDeviceAttribute_t)which, device)) == hipSuccess ? n : 0;
}
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// Version returns the version of the library, such as "6.3".
func (library) Version() string {
	return fmt.Sprintf("%d.%d", C.dlx_hip_version/10_000_000, C.dlx_hip_version/100_000%100)
}

func (library) Devices() (int, cudalike.Status) {
	var n C.int
	s := answer("hipGetDeviceCount", C.dlx_count(&n))
	return int(n), s
}

func (library) Describe(ordinal int32) (x cudalike.Description, s cudalike.Status) {
	d := C.int(ordinal)
	var text [C.DLX_ARCH_SIZE]C.char
	var total C.size_t
	if s = answer("hipDeviceGetName", C.dlx_name(d, &text[0], C.int(len(text)-1))); !s.OK() {
		return x, s
	}
	x.Name = C.GoString(&text[0])
	if s = answer("hipDeviceTotalMem", C.dlx_total(d, &total)); !s.OK() {
		return x, s
	}
	x.TotalMemory = int64(total)
	if s = answer("hipDeviceGetUuid", C.dlx_uuid(d, unsafe.Pointer(&x.UUID))); !s.OK() {
		return x, s
	}
	if s = answer("hipGetDeviceProperties", C.dlx_arch(d, &text[0])); !s.OK() {
		return x, s
	}
	x.Arch = C.GoString(&text[0])
	if C.dlx_bus(d, &text[0], C.int(len(text)-1)) == C.hipSuccess {
		x.PCI = strings.ToLower(C.GoString(&text[0]))
	}
	x.ComputeUnits = attribute(ordinal, C.hipDeviceAttributeMultiprocessorCount)
	x.Major = attribute(ordinal, C.hipDeviceAttributeComputeCapabilityMajor)
	x.Minor = attribute(ordinal, C.hipDeviceAttributeComputeCapabilityMinor)
	x.Integrated = attribute(ordinal, C.hipDeviceAttributeIntegrated) != 0
	addMissing(ordinal, &x)
	return x, s
}

// addMissing says what a device lacks, and why.
func addMissing(ordinal int32, x *cudalike.Description) {
	// Without concurrent access the host crashes when it uses managed memory while the device works.
	if attribute(ordinal, C.hipDeviceAttributeManagedMemory) == 0 || attribute(ordinal, C.hipDeviceAttributeConcurrentManagedAccess) == 0 {
		x.NoManaged = "hipDeviceAttributeManagedMemory or hipDeviceAttributeConcurrentManagedAccess is 0"
	}
	if !has("hipImportExternalMemory") {
		x.NoExternal = "the library has no hipImportExternalMemory"
	}
	switch {
	case !newer(C.DLX_HIP_6_0):
		x.NoDescriptors = "HIP can export memory since version 6.0, and the library has " + library{}.Version()
	case attribute(ordinal, C.DLX_ATTRIBUTE_VMM) == 0 || !has("hipMemExportToShareableHandle"):
		x.NoDescriptors = "hipDeviceAttributeVirtualMemoryManagementSupported is 0"
	}
	if x.NoDMABufs = x.NoDescriptors; x.NoDMABufs == "" {
		x.NoDMABufs = noDMABufs()
	}
	if x.Integrated || !has("hipIpcOpenMemHandle") {
		x.NoIPC = "the device is integrated, or the library has no hipIpcOpenMemHandle"
	}
	x.NoIPCEvents = x.NoIPC
	if x.NoIPCEvents == "" && !has("hipIpcOpenEventHandle") {
		x.NoIPCEvents = "the library has no hipIpcOpenEventHandle"
	}
	x.NoTimelines = "HIP on Linux has no semaphores of other APIs"
	x.NoReadOnlyHost = "HIP does not say whether memory that the host cannot write can be registered"
}

// attribute returns an attribute of a device. It is 0 if the library is too old to know the attribute.
func attribute(ordinal int32, which C.int) int { return int(C.dlx_attribute(C.int(ordinal), which)) }
