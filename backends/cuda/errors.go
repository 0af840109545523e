//go:build cuda && linux && cgo

package cuda

import (
	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// name is the backend's, in errors too.
const name = "cuda"

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
	return statusf(sentinel(s), s, call, format, args...)
}

// statusf makes an error of an answer of the driver's that means something else to this
// call than to others.
func statusf(sentinel error, s driver.Status, call, format string, args ...any) *core.Error {
	e := errorf(sentinel, call, s.String()+": "+format, args...)
	e.Code = int64(s)
	return e
}

// check is the function of that name, and remembers for good that the device is lost
// if s says so.
func (d *device) check(s driver.Status, call, format string, args ...any) error {
	err := check(s, call, format, args...)
	if s.Sticky() {
		d.dead.Store(true)
		return d.lose(err)
	}
	return err
}

// lose remembers for good that the device is lost, by err unless it was before.
func (d *device) lose(err error) error {
	d.lost.CompareAndSwap(nil, &err)
	return err
}

// lostError is the error that said the device is lost; nil if none did.
func (d *device) lostError() error {
	if e := d.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// captured reports whether a call was refused for the sake of a capture: of its stream, or
// of one that waits for the legacy stream, which was the call's.
func captured(s driver.Status) bool {
	return s == driver.CaptureUnsupported || s == driver.CaptureImplicit
}

// sentinel is what errors.Is finds for a code.
func sentinel(s driver.Status) error {
	switch {
	case s == driver.OutOfMemory:
		return core.ErrOutOfMemory
	case s.Sticky():
		return core.ErrDeviceLost
	case captured(s):
		return core.ErrNotSupported
	}
	switch s {
	case driver.NoDevice, driver.InvalidDevice, driver.DeviceUnavailable:
		return core.ErrDevice
	case driver.NotInitialized, driver.StubLibrary, driver.NotSupported, driver.NotPermitted, driver.PeerAccessUnsupported, driver.InvalidPTX,
		driver.JITCompilerNotFound, driver.UnsupportedPTXVersion, driver.SystemNotReady:
		return core.ErrNotSupported
	case driver.SystemDriverMismatch:
		return core.ErrVersion
	}
	return core.ErrInvalid
}
