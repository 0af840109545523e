//go:build rocm && linux && cgo

package driver

// #include "table.h"
//
// static const char *dlx_error_name(int code) { return dlx_hip.hipGetErrorName((hipError_t)code); }
// static const char *dlx_error_text(int code) { return dlx_hip.hipGetErrorString((hipError_t)code); }
import "C"

import (
	"strconv"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
)

// Code is a hipError_t, or a code of the compiler. Success is 0.
type Code int32

// The codes of HIP that this package or its tests use. They are the same in all versions; the names of some are not.
const (
	Success               Code = 0
	InvalidValue          Code = 1
	OutOfMemory           Code = 2
	NotInitialized        Code = 3
	Deinitialized         Code = 4
	InvalidDevicePointer  Code = 17
	InsufficientDriver    Code = 35
	InvalidDeviceFunction Code = 98
	NoDevice              Code = 100
	InvalidDevice         Code = 101
	InvalidImage          Code = 200
	InvalidContext        Code = 201
	MapFailed             Code = 205
	NoBinaryForGPU        Code = 209
	ECCNotCorrectable     Code = 214
	PeerAccessUnsupported Code = 217
	InvalidKernelFile     Code = 218
	SharedObjectInit      Code = 303
	InvalidHandle         Code = 400
	NotFound              Code = 500
	NotReady              Code = 600
	IllegalAddress        Code = 700
	LaunchTimeout         Code = 702
	PeerAccessEnabled     Code = 704
	ContextIsDestroyed    Code = 709
	Assert                Code = 710
	LaunchFailure         Code = 719
	NotSupported          Code = 801
	CaptureUnsupported    Code = 900
	CaptureImplicit       Code = 906
	Unknown               Code = 999
)

// compilerCodes is added to a hiprtcResult, so that one number says which library a code is of.
const compilerCodes Code = 1 << 20

// status returns the status of a call that returned c.
func status(call string, c Code) cudalike.Status {
	if c == Success {
		return cudalike.Status{}
	}
	return cudalike.Status{Call: call, Code: int32(c), Kind: c.kind()}
}

// answer is status for a result of C.
func answer(call string, r C.hipError_t) cudalike.Status { return status(call, Code(r)) }

// unsupported is the status of a function that HIP does not have.
func unsupported(call string) cudalike.Status { return status(call, NotSupported) }

// kind returns the kind of a code that is not Success.
func (c Code) kind() cudalike.Kind {
	if c.Sticky() {
		return cudalike.DeviceLost
	}
	switch c {
	case InvalidValue, InvalidDevicePointer:
		return cudalike.BadValue
	// HIP knows its streams and events, and returns hipErrorContextIsDestroyed for one that is not, or not any more.
	case InvalidHandle, MapFailed, ContextIsDestroyed:
		return cudalike.BadHandle
	case InvalidContext:
		return cudalike.BadContext
	case NotFound:
		return cudalike.NotFound
	case NotReady:
		return cudalike.NotReady
	case OutOfMemory:
		return cudalike.OutOfMemory
	case NoDevice:
		return cudalike.NoDevice
	case InvalidDevice:
		return cudalike.BadDevice
	case CaptureUnsupported, CaptureImplicit: // implicit: a stream that waits for the default stream is being captured
		return cudalike.Captured
	case NotInitialized, NotSupported, PeerAccessUnsupported:
		return cudalike.NotSupported
	case InvalidImage, NoBinaryForGPU, InvalidKernelFile, SharedObjectInit, InvalidDeviceFunction:
		return cudalike.WrongImage
	case InsufficientDriver:
		return cudalike.WrongVersion
	}
	if c > compilerCodes {
		return cudalike.NotSupported // the device runs, and strided copies within it do not
	}
	return cudalike.Failed
}

// Sticky reports whether all later calls on the device fail, since its work has crashed or the memory is broken.
func (c Code) Sticky() bool {
	switch c {
	case Deinitialized, ECCNotCorrectable, IllegalAddress, LaunchTimeout, Assert, LaunchFailure:
		return true
	}
	return false
}

// String returns HIP's name of the code and its description: "hipErrorOutOfMemory, out of memory".
func (c Code) String() string {
	if c > compilerCodes {
		return "hiprtc code " + strconv.Itoa(int(c-compilerCodes))
	}
	name, text := C.dlx_error_name(C.int(c)), C.dlx_error_text(C.int(c))
	if name == nil || text == nil {
		return "HIP code " + strconv.Itoa(int(c))
	}
	return C.GoString(name) + ", " + C.GoString(text)
}

func (library) Text(code int32) string { return Code(code).String() }
