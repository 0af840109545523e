package cudalike

import "github.com/dlx-go/dlx/core"

// Status is the answer of a call of the driver. The zero value is success.
type Status struct {
	Call string // the function of the driver that failed
	Code int32  // the driver's code
	Kind Kind
}

// OK reports whether the call succeeded.
func (s Status) OK() bool { return s.Kind == Success }

// Kind is the meaning of a code of the driver.
type Kind uint8

// The kinds of a [Status], and the errors that calls return for them, unless a call expects the kind.
const (
	Success      Kind = iota
	Failed            // none of the others: core.ErrInvalid
	BadValue          // core.ErrInvalid
	BadHandle         // core.ErrInvalid; also for a handle whose owner has ended
	BadContext        // core.ErrInvalid
	NoGraphics        // core.ErrInvalid: no context of OpenGL is current
	NotFound          // core.ErrInvalid
	NotReady          // core.ErrInvalid: work is unfinished
	OutOfMemory       // core.ErrOutOfMemory
	DeviceLost        // core.ErrDeviceLost: no call in the context will succeed any more
	NoDevice          // core.ErrDevice: the driver has no device
	BadDevice         // core.ErrDevice
	NotSupported      // core.ErrNotSupported
	WrongImage        // core.ErrNotSupported: the device does not run the code of a module
	Captured          // core.ErrNotSupported: the stream is being captured into a graph, or waits for one that is
	WrongVersion      // core.ErrVersion
)

// sentinel returns the sentinel error for a kind.
func (k Kind) sentinel() error {
	switch k {
	case OutOfMemory:
		return core.ErrOutOfMemory
	case DeviceLost:
		return core.ErrDeviceLost
	case NoDevice, BadDevice:
		return core.ErrDevice
	case NotSupported, WrongImage, Captured:
		return core.ErrNotSupported
	case WrongVersion:
		return core.ErrVersion
	}
	return core.ErrInvalid
}

// errorf makes an error that names the backend.
func (b *Backend) errorf(sentinel error, call, format string, args ...any) *core.Error {
	return core.Errorf(sentinel, b.Name(), call, format, args...)
}

// check returns nil for success, and otherwise an error for s. format and args say what the call was for.
func (b *Backend) check(s Status, format string, args ...any) error {
	if s.OK() {
		return nil
	}
	return b.statusf(s.Kind.sentinel(), s, format, args...)
}

// statusf makes an error for s with a sentinel error of the caller's choice. format and args say what is wrong.
func (b *Backend) statusf(sentinel error, s Status, format string, args ...any) *core.Error {
	e := b.errorf(sentinel, s.Call, format, args...)
	e.Detail = b.driver.Text(s.Code) + ": " + e.Detail
	e.Code = int64(s.Code)
	return e
}

// check is [Backend.check]. If s says that the device is lost, it also marks the device as lost.
func (d *device) check(s Status, format string, args ...any) error {
	if s.OK() {
		return nil
	}
	err := d.backend.check(s, format, args...)
	if s.Kind == DeviceLost {
		d.contextLost.Store(true)
		return d.setLost(err)
	}
	return err
}

// setLost marks the device as lost, for good, and returns err. Later calls return the first such error.
func (d *device) setLost(err error) error {
	d.lost.CompareAndSwap(nil, &err)
	return err
}

// lostError returns why the device is lost, or nil if it is not.
func (d *device) lostError() error {
	if e := d.lost.Load(); e != nil {
		return *e
	}
	return nil
}

// closedError makes the error of a call on a closed object of the device. d is nil for the zero value of an
// object, which was never opened.
func (d *device) closedError(call, what string) error {
	backend := ""
	if d != nil {
		backend = d.backend.Name()
	}
	return core.Errorf(core.ErrClosed, backend, call, "the %s was closed", what)
}
