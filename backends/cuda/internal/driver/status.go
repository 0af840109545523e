//go:build cuda && linux && cgo

package driver

// #include "shim.h"
import "C"

import (
	"reflect"
	"strconv"
)

// Status is what a call answers: CUresult. Success is 0.
type Status int32

// The codes that are acted upon.
const (
	Success                Status = C.CUDA_SUCCESS
	InvalidValue           Status = C.CUDA_ERROR_INVALID_VALUE
	OutOfMemory            Status = C.CUDA_ERROR_OUT_OF_MEMORY
	NotInitialized         Status = C.CUDA_ERROR_NOT_INITIALIZED
	StubLibrary            Status = C.CUDA_ERROR_STUB_LIBRARY
	DeviceUnavailable      Status = C.CUDA_ERROR_DEVICE_UNAVAILABLE
	NoDevice               Status = C.CUDA_ERROR_NO_DEVICE
	InvalidDevice          Status = C.CUDA_ERROR_INVALID_DEVICE
	InvalidContext         Status = C.CUDA_ERROR_INVALID_CONTEXT
	MapFailed              Status = C.CUDA_ERROR_MAP_FAILED
	ECCUncorrectable       Status = C.CUDA_ERROR_ECC_UNCORRECTABLE
	PeerAccessUnsupported  Status = C.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
	InvalidPTX             Status = C.CUDA_ERROR_INVALID_PTX
	InvalidGraphicsContext Status = C.CUDA_ERROR_INVALID_GRAPHICS_CONTEXT
	NVLinkUncorrectable    Status = C.CUDA_ERROR_NVLINK_UNCORRECTABLE
	JITCompilerNotFound    Status = C.CUDA_ERROR_JIT_COMPILER_NOT_FOUND
	UnsupportedPTXVersion  Status = C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
	OperatingSystem        Status = C.CUDA_ERROR_OPERATING_SYSTEM
	InvalidHandle          Status = C.CUDA_ERROR_INVALID_HANDLE
	NotFound               Status = C.CUDA_ERROR_NOT_FOUND
	NotReady               Status = C.CUDA_ERROR_NOT_READY
	IllegalAddress         Status = C.CUDA_ERROR_ILLEGAL_ADDRESS
	LaunchTimeout          Status = C.CUDA_ERROR_LAUNCH_TIMEOUT
	PeerAccessEnabled      Status = C.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
	TooManyPeers           Status = C.CUDA_ERROR_TOO_MANY_PEERS
	ContextIsDestroyed     Status = C.CUDA_ERROR_CONTEXT_IS_DESTROYED
	Assert                 Status = C.CUDA_ERROR_ASSERT
	HardwareStackError     Status = C.CUDA_ERROR_HARDWARE_STACK_ERROR
	IllegalInstruction     Status = C.CUDA_ERROR_ILLEGAL_INSTRUCTION
	MisalignedAddress      Status = C.CUDA_ERROR_MISALIGNED_ADDRESS
	InvalidAddressSpace    Status = C.CUDA_ERROR_INVALID_ADDRESS_SPACE
	InvalidPC              Status = C.CUDA_ERROR_INVALID_PC
	LaunchFailed           Status = C.CUDA_ERROR_LAUNCH_FAILED
	NotPermitted           Status = C.CUDA_ERROR_NOT_PERMITTED
	NotSupported           Status = C.CUDA_ERROR_NOT_SUPPORTED
	SystemNotReady         Status = C.CUDA_ERROR_SYSTEM_NOT_READY
	SystemDriverMismatch   Status = C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
	CaptureUnsupported     Status = C.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
	CaptureImplicit        Status = C.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
	TensorMemoryLeak       Status = 721 // CUDA_ERROR_TENSOR_MEMORY_LEAK, which older headers do not have
	MPSClientTerminated    Status = 810 // CUDA_ERROR_MPS_CLIENT_TERMINATED, likewise
	ExternalDevice         Status = C.CUDA_ERROR_EXTERNAL_DEVICE
	Unknown                Status = C.CUDA_ERROR_UNKNOWN
)

// Sticky reports whether no call in the process's context will succeed any more
// (CUresult: "This leaves the process in an inconsistent state").
func (s Status) Sticky() bool {
	switch s {
	case ECCUncorrectable, NVLinkUncorrectable, IllegalAddress, LaunchTimeout, ContextIsDestroyed, Assert, HardwareStackError,
		IllegalInstruction, MisalignedAddress, InvalidAddressSpace, InvalidPC, LaunchFailed, TensorMemoryLeak, MPSClientTerminated, ExternalDevice:
		return true
	}
	return false
}

// String gives the driver's name of the code and its text: "CUDA_ERROR_OUT_OF_MEMORY, out of memory".
func (s Status) String() string {
	var name, text *C.char
	if C.cuGetErrorName(C.CUresult(s), &name) != C.CUDA_SUCCESS || name == nil {
		return "CUDA code " + strconv.Itoa(int(s))
	}
	if C.cuGetErrorString(C.CUresult(s), &text) != C.CUDA_SUCCESS || text == nil {
		return C.GoString(name)
	}
	return C.GoString(name) + ", " + C.GoString(text)
}

// status is the code behind an error of cu, whose type it does not export.
func status(err error) Status {
	if err == nil {
		return Success
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return Status(v.Int())
	}
	return Unknown
}
