//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"fmt"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
)

// API is the name of a backend. It says what the memory of its devices is.
type API string

// The two backends.
const (
	OpenCL API = "opencl" // memory is a cl_mem
	OneAPI API = "oneapi" // memory is an address in unified shared memory
)

// deviceType is the type of the backend's devices.
func (a API) deviceType() core.DeviceType {
	if a == OneAPI {
		return core.DeviceOneAPI
	}
	return core.DeviceOpenCL
}

// errorf makes an error of our own checks.
func (a API) errorf(sentinel error, call, format string, args ...any) *core.Error {
	return core.Errorf(sentinel, string(a), call, format, args...)
}

// check makes an error of what the driver answered to a call, nil for Success.
// format and args say what the call was for.
func (a API) check(s driver.Status, call, format string, args ...any) error {
	if s == driver.Success {
		return nil
	}
	return &core.Error{Backend: string(a), Call: call, Code: int64(s), Detail: s.String() + ": " + fmt.Sprintf(format, args...), Err: sentinel(s)}
}

// sentinel is what errors.Is finds for a code.
func sentinel(s driver.Status) error {
	switch s {
	case driver.MemAllocation, driver.OutOfResources, driver.OutOfHostMemory, driver.InvalidBufferSize:
		return core.ErrOutOfMemory
	case driver.DeviceNotAvailable, driver.ContextTerminated, driver.NVIDIAIllegalAccess:
		return core.ErrDeviceLost
	case driver.DeviceNotFound, driver.InvalidDevice:
		return core.ErrDevice
	case driver.CompilerNotAvailable, driver.BuildFailure, driver.InvalidOperation, driver.NoPlatform:
		return core.ErrNotSupported
	}
	return core.ErrInvalid
}
