//go:build (opencl || oneapi) && linux && cgo

package driver

/*
#include "shim.h"
*/
import "C"

import (
	"bytes"
	"encoding/binary"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/dl"
)

// Platform is a cl_platform_id as an integer; 0 is none, as for all handles.
type Platform uintptr

// Device is a cl_device_id.
type Device uintptr

// Context is a cl_context.
type Context uintptr

// Queue is a cl_command_queue.
type Queue uintptr

// Mem is a cl_mem.
type Mem uintptr

// Event is a cl_event.
type Event uintptr

// Program is a cl_program.
type Program uintptr

// Kernel is a cl_kernel.
type Kernel uintptr

// Object is a handle whose properties can be queried.
type Object interface {
	Platform | Device | Context | Queue | Mem | Event
}

// Param is a property that can be queried.
type Param uint32

// The properties that are asked for, each of the object in its name.
const (
	PlatformName       Param = C.CL_PLATFORM_NAME
	PlatformVersion    Param = C.CL_PLATFORM_VERSION
	PlatformExtensions Param = C.CL_PLATFORM_EXTENSIONS

	DeviceName          Param = C.CL_DEVICE_NAME
	DeviceVersion       Param = C.CL_DEVICE_VERSION
	DeviceDriver        Param = C.CL_DRIVER_VERSION
	DeviceExtensions    Param = C.CL_DEVICE_EXTENSIONS
	DeviceMemory        Param = C.CL_DEVICE_GLOBAL_MEM_SIZE
	DeviceType          Param = C.CL_DEVICE_TYPE
	DeviceUnits         Param = C.CL_DEVICE_MAX_COMPUTE_UNITS
	DeviceMaxAlloc      Param = C.CL_DEVICE_MAX_MEM_ALLOC_SIZE
	DeviceBaseAlign     Param = C.CL_DEVICE_MEM_BASE_ADDR_ALIGN // in bits
	DeviceUnifiedMemory Param = C.CL_DEVICE_HOST_UNIFIED_MEMORY
	DeviceSVM           Param = C.CL_DEVICE_SVM_CAPABILITIES
	DeviceCompiler      Param = C.CL_DEVICE_COMPILER_AVAILABLE
	DevicePlatform      Param = C.CL_DEVICE_PLATFORM
	DeviceClockStep     Param = C.CL_DEVICE_PROFILING_TIMER_RESOLUTION // in nanoseconds
	DeviceUUID          Param = C.CL_DEVICE_UUID_KHR
	DriverUUID          Param = C.CL_DRIVER_UUID_KHR
	DevicePCI           Param = C.CL_DEVICE_PCI_BUS_INFO_KHR
	DeviceImportTypes   Param = C.CL_DEVICE_EXTERNAL_MEMORY_IMPORT_HANDLE_TYPES_KHR

	DeviceUSMHost   Param = C.CL_DEVICE_HOST_MEM_CAPABILITIES_INTEL
	DeviceUSMDevice Param = C.CL_DEVICE_DEVICE_MEM_CAPABILITIES_INTEL
	DeviceUSMShared Param = C.CL_DEVICE_SINGLE_DEVICE_SHARED_MEM_CAPABILITIES_INTEL

	ContextDevices    Param = C.CL_CONTEXT_DEVICES
	ContextReferences Param = C.CL_CONTEXT_REFERENCE_COUNT // for tests

	QueueContext    Param = C.CL_QUEUE_CONTEXT
	QueueDevice     Param = C.CL_QUEUE_DEVICE
	QueueProperties Param = C.CL_QUEUE_PROPERTIES

	MemType       Param = C.CL_MEM_TYPE
	MemSize       Param = C.CL_MEM_SIZE
	MemFlags      Param = C.CL_MEM_FLAGS
	MemHostPtr    Param = C.CL_MEM_HOST_PTR
	MemContext    Param = C.CL_MEM_CONTEXT
	MemReferences Param = C.CL_MEM_REFERENCE_COUNT

	EventContext Param = C.CL_EVENT_CONTEXT
	EventStatus  Param = C.CL_EVENT_COMMAND_EXECUTION_STATUS
)

// Values of properties.
const (
	TypeCPU            = C.CL_DEVICE_TYPE_CPU
	SVMFineGrainBuffer = C.CL_DEVICE_SVM_FINE_GRAIN_BUFFER
	SVMCoarseBuffer    = C.CL_DEVICE_SVM_COARSE_GRAIN_BUFFER
	SVMFineGrainSystem = C.CL_DEVICE_SVM_FINE_GRAIN_SYSTEM
	MemTypeBuffer      = C.CL_MEM_OBJECT_BUFFER
	QueueOutOfOrder    = C.CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
	QueueTimed         = C.CL_QUEUE_PROFILING_ENABLE
	ImportOpaqueFD     = C.CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR
	ImportDMABuf       = C.CL_EXTERNAL_MEMORY_HANDLE_DMA_BUF_KHR
	HostWriteOnly      = C.CL_MEM_HOST_WRITE_ONLY
	HostReadOnly       = C.CL_MEM_HOST_READ_ONLY
	HostNoAccess       = C.CL_MEM_HOST_NO_ACCESS
)

func kindOf[O Object](o O) C.int {
	switch any(o).(type) {
	case Platform:
		return C.DLX_PLATFORM
	case Device:
		return C.DLX_DEVICE
	case Context:
		return C.DLX_CONTEXT
	case Queue:
		return C.DLX_COMMAND_QUEUE
	case Mem:
		return C.DLX_MEM_OBJECT
	}
	return C.DLX_EVENT_OBJECT
}

// Bytes is the value of a property.
func Bytes[O Object](o O, p Param) ([]byte, Status) {
	var size C.size_t
	kind, object := kindOf(o), C.dlx_handle(o)
	if s := C.dlx_info(kind, object, C.cl_uint(p), 0, nil, &size); s != 0 || size == 0 {
		return nil, Status(s)
	}
	value := make([]byte, size)
	s := C.dlx_info(kind, object, C.cl_uint(p), size, unsafe.Pointer(&value[0]), nil)
	return value, Status(s)
}

// Text is a property that is a string, empty if it is missing.
func Text[O Object](o O, p Param) string {
	value, s := Bytes(o, p)
	if s != Success {
		return ""
	}
	return string(bytes.TrimSpace(bytes.TrimRight(value, "\x00")))
}

// Number is a property that is an integer of up to 8 bytes or a handle.
func Number[O Object](o O, p Param) (uint64, Status) {
	var value [8]byte
	s := C.dlx_info(kindOf(o), C.dlx_handle(o), C.cl_uint(p), C.size_t(len(value)), unsafe.Pointer(&value), nil)
	return binary.NativeEndian.Uint64(value[:]), Status(s)
}

// Platforms lists the platforms of the library, in its order.
func Platforms() ([]Platform, Status) {
	defer dl.KeepHandlers()()
	return list(func(n C.cl_uint, out *C.dlx_handle, count *C.cl_uint) C.cl_int {
		return C.dlx_platforms(n, out, count)
	}, func(h C.dlx_handle) Platform { return Platform(h) })
}

// Devices lists the devices of a platform, of any kind, in the driver's order.
func Devices(p Platform) ([]Device, Status) {
	defer dl.KeepHandlers()()
	return list(func(n C.cl_uint, out *C.dlx_handle, count *C.cl_uint) C.cl_int {
		return C.dlx_devices(C.dlx_handle(p), n, out, count)
	}, func(h C.dlx_handle) Device { return Device(h) })
}

func list[H any](get func(n C.cl_uint, out *C.dlx_handle, count *C.cl_uint) C.cl_int, of func(C.dlx_handle) H) ([]H, Status) {
	var count C.cl_uint
	if s := get(0, nil, &count); s != 0 || count == 0 {
		return nil, Status(s)
	}
	raw := make([]C.dlx_handle, count)
	if s := get(count, &raw[0], nil); s != 0 {
		return nil, Status(s)
	}
	handles := make([]H, count)
	for i, h := range raw {
		handles[i] = of(h)
	}
	return handles, Success
}

// Extension is the address of a function of a platform's extension, or 0.
func Extension(p Platform, name string) uintptr {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	return uintptr(C.dlx_extension(C.dlx_handle(p), cname))
}

// out is where a call stores a handle or an address.
func out[H ~uintptr](h *H) *C.dlx_handle { return (*C.dlx_handle)(unsafe.Pointer(h)) }
