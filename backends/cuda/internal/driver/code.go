//go:build cuda && linux && cgo

package driver

// #include "shim.h"
import "C"

import (
	"reflect"
	"strconv"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// Code is a CUresult. Success is 0.
type Code int32

// The codes that this package or its tests use.
const (
	Success                Code = C.CUDA_SUCCESS
	InvalidValue           Code = C.CUDA_ERROR_INVALID_VALUE
	OutOfMemory            Code = C.CUDA_ERROR_OUT_OF_MEMORY
	NotInitialized         Code = C.CUDA_ERROR_NOT_INITIALIZED
	StubLibrary            Code = C.CUDA_ERROR_STUB_LIBRARY
	DeviceUnavailable      Code = C.CUDA_ERROR_DEVICE_UNAVAILABLE
	NoDevice               Code = C.CUDA_ERROR_NO_DEVICE
	InvalidDevice          Code = C.CUDA_ERROR_INVALID_DEVICE
	InvalidImage           Code = C.CUDA_ERROR_INVALID_IMAGE
	InvalidContext         Code = C.CUDA_ERROR_INVALID_CONTEXT
	MapFailed              Code = C.CUDA_ERROR_MAP_FAILED
	NoBinaryForGPU         Code = C.CUDA_ERROR_NO_BINARY_FOR_GPU
	ECCUncorrectable       Code = C.CUDA_ERROR_ECC_UNCORRECTABLE
	PeerAccessUnsupported  Code = C.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
	InvalidPTX             Code = C.CUDA_ERROR_INVALID_PTX
	CallRequiresNewer      Code = 36  // CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, which older headers do not have
	Contained              Code = 226 // CUDA_ERROR_CONTAINED, likewise
	InvalidGraphicsContext Code = C.CUDA_ERROR_INVALID_GRAPHICS_CONTEXT
	NVLinkUncorrectable    Code = C.CUDA_ERROR_NVLINK_UNCORRECTABLE
	JITCompilerNotFound    Code = C.CUDA_ERROR_JIT_COMPILER_NOT_FOUND
	JITCompilationDisabled Code = C.CUDA_ERROR_JIT_COMPILATION_DISABLED
	UnsupportedPTXVersion  Code = C.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
	OperatingSystem        Code = C.CUDA_ERROR_OPERATING_SYSTEM
	InvalidHandle          Code = C.CUDA_ERROR_INVALID_HANDLE
	NotFound               Code = C.CUDA_ERROR_NOT_FOUND
	NotReady               Code = C.CUDA_ERROR_NOT_READY
	IllegalAddress         Code = C.CUDA_ERROR_ILLEGAL_ADDRESS
	LaunchTimeout          Code = C.CUDA_ERROR_LAUNCH_TIMEOUT
	PeerAccessEnabled      Code = C.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
	TooManyPeers           Code = C.CUDA_ERROR_TOO_MANY_PEERS
	ContextIsDestroyed     Code = C.CUDA_ERROR_CONTEXT_IS_DESTROYED
	Assert                 Code = C.CUDA_ERROR_ASSERT
	HardwareStackError     Code = C.CUDA_ERROR_HARDWARE_STACK_ERROR
	IllegalInstruction     Code = C.CUDA_ERROR_ILLEGAL_INSTRUCTION
	MisalignedAddress      Code = C.CUDA_ERROR_MISALIGNED_ADDRESS
	InvalidAddressSpace    Code = C.CUDA_ERROR_INVALID_ADDRESS_SPACE
	InvalidPC              Code = C.CUDA_ERROR_INVALID_PC
	LaunchFailed           Code = C.CUDA_ERROR_LAUNCH_FAILED
	NotPermitted           Code = C.CUDA_ERROR_NOT_PERMITTED
	NotSupported           Code = C.CUDA_ERROR_NOT_SUPPORTED
	SystemNotReady         Code = C.CUDA_ERROR_SYSTEM_NOT_READY
	SystemDriverMismatch   Code = C.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH
	CaptureUnsupported     Code = C.CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
	CaptureImplicit        Code = C.CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
	TensorMemoryLeak       Code = 721 // CUDA_ERROR_TENSOR_MEMORY_LEAK, likewise
	MPSClientTerminated    Code = 810 // CUDA_ERROR_MPS_CLIENT_TERMINATED, likewise
	ExternalDevice         Code = C.CUDA_ERROR_EXTERNAL_DEVICE
	Unknown                Code = C.CUDA_ERROR_UNKNOWN
)

// status returns the status of a call that returned c.
func status(call string, c Code) cudalike.Status {
	if c == Success {
		return cudalike.Status{}
	}
	return cudalike.Status{Call: call, Code: int32(c), Kind: c.kind()}
}

// answer is status for a result of C.
func answer(call string, r C.CUresult) cudalike.Status { return status(call, Code(r)) }

// kind returns the kind of a code that is not Success.
func (c Code) kind() cudalike.Kind {
	if c.Sticky() {
		return cudalike.DeviceLost
	}
	switch c {
	case InvalidValue:
		return cudalike.BadValue
	case InvalidHandle, MapFailed:
		return cudalike.BadHandle
	case InvalidContext:
		return cudalike.BadContext
	case InvalidGraphicsContext:
		return cudalike.NoGraphics
	case NotFound:
		return cudalike.NotFound
	case NotReady:
		return cudalike.NotReady
	case OutOfMemory:
		return cudalike.OutOfMemory
	case NoDevice:
		return cudalike.NoDevice
	case InvalidDevice, DeviceUnavailable:
		return cudalike.BadDevice
	case CaptureUnsupported, CaptureImplicit: // implicit: a stream that waits for the legacy stream is being captured
		return cudalike.Captured
	case NotInitialized, StubLibrary, NotSupported, NotPermitted, PeerAccessUnsupported, InvalidPTX, JITCompilerNotFound, JITCompilationDisabled, UnsupportedPTXVersion, SystemNotReady:
		return cudalike.NotSupported
	case InvalidImage, NoBinaryForGPU:
		return cudalike.WrongImage
	case SystemDriverMismatch, CallRequiresNewer:
		return cudalike.WrongVersion
	}
	return cudalike.Failed
}

// Sticky reports whether all later calls in the context fail (CUresult: "This leaves the process in an
// inconsistent state"). The list is that of CUDA 13.5.
func (c Code) Sticky() bool {
	switch c {
	case ECCUncorrectable, NVLinkUncorrectable, Contained, IllegalAddress, LaunchTimeout, ContextIsDestroyed, Assert, HardwareStackError,
		IllegalInstruction, MisalignedAddress, InvalidAddressSpace, InvalidPC, LaunchFailed, TensorMemoryLeak, MPSClientTerminated, ExternalDevice:
		return true
	}
	return false
}

// String returns the driver's name of the code and its description: "CUDA_ERROR_OUT_OF_MEMORY, out of memory".
func (c Code) String() string {
	var name, text *C.char
	if C.cuGetErrorName(C.CUresult(c), &name) != C.CUDA_SUCCESS || name == nil {
		return "CUDA code " + strconv.Itoa(int(c))
	}
	if C.cuGetErrorString(C.CUresult(c), &text) != C.CUDA_SUCCESS || text == nil {
		return C.GoString(name)
	}
	return C.GoString(name) + ", " + C.GoString(text)
}

func (library) Text(code int32) string { return Code(code).String() }

// code returns the code of an error of cu, whose type is not exported.
func code(err error) Code {
	if err == nil {
		return Success
	}
	if v := reflect.ValueOf(err); v.Kind() == reflect.Int {
		return Code(v.Int())
	}
	return Unknown
}
