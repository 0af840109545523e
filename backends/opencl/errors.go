//go:build opencl && linux && cgo

package opencl

import (
	"fmt"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// name is the backend's, in errors too.
const name = "opencl"

// errorf makes an error of our own checks.
func errorf(sentinel error, call, format string, args ...any) *core.Error {
	return core.Errorf(sentinel, name, call, format, args...)
}

// check makes an error of what the driver answered to a call, nil for Success.
// format and args say what the call was for.
func check(s driver.Status, call, format string, args ...any) error {
	if s == driver.Success {
		return nil
	}
	return &core.Error{Backend: name, Call: call, Code: int64(s), Detail: s.String() + ": " + fmt.Sprintf(format, args...), Err: sentinel(s)}
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
