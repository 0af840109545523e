package cudalike

import "github.com/dlx-go/dlx/core"

// Status is the answer of a call of the driver. The zero value is success.
type Status struct {
	Call string // the function of the driver that failed
	Code int32  // the driver's own
	Kind Kind
}

// OK reports whether the call succeeded.
func (s Status) OK() bool { return s.Kind == Success }

// Kind is what a code of the driver means to this package.
type Kind uint8

// The kinds of a [Status]. One that a call does not act upon has the error that is named.
const (
	Success      Kind = iota
	Failed            // none of the others: core.ErrInvalid
	BadValue          // core.ErrInvalid
	BadHandle         // core.ErrInvalid; also one whose owner is gone
	BadContext        // core.ErrInvalid
	NoGraphics        // core.ErrInvalid: no context of OpenGL is current
	NotFound          // core.ErrInvalid
	NotReady          // core.ErrInvalid: work is unfinished
	OutOfMemory       // core.ErrOutOfMemory
	DeviceLost        // core.ErrDeviceLost: no call in the context will succeed any more
	NoDevice          // core.ErrDevice: the driver has none
	BadDevice         // core.ErrDevice
	NotSupported      // core.ErrNotSupported
	Captured          // core.ErrNotSupported: of a stream that is captured, or waits for one
	WrongVersion      // core.ErrVersion
)

// sentinel is what errors.Is finds for a kind.
func (k Kind) sentinel() error {
	switch k {
	case OutOfMemory:
		return core.ErrOutOfMemory
	case DeviceLost:
		return core.ErrDeviceLost
	case NoDevice, BadDevice:
		return core.ErrDevice
	case NotSupported, Captured:
		return core.ErrNotSupported
	case WrongVersion:
		return core.ErrVersion
	}
	return core.ErrInvalid
}

// errorf makes an error of the backend's own checks.
func (b *Backend) errorf(sentinel error, call, format string, args ...any) *core.Error {
	return core.Errorf(sentinel, b.Name(), call, format, args...)
}

// check makes an error of the answer to a call, nil for success. format and args say what the
// call was for.
func (b *Backend) check(s Status, format string, args ...any) error {
	if s.OK() {
		return nil
	}
	return b.statusf(s.Kind.sentinel(), s, format, args...)
}

// statusf makes an error of an answer that means something else to this call than to others.
func (b *Backend) statusf(sentinel error, s Status, format string, args ...any) *core.Error {
	e := b.errorf(sentinel, s.Call, format, args...)
	e.Detail = b.driver.Text(s.Code) + ": " + e.Detail
	e.Code = int64(s.Code)
	return e
}

// check is the method of the backend, and remembers for good that the device is lost if s
// says so.
func (d *device) check(s Status, format string, args ...any) error {
	if s.OK() {
		return nil
	}
	err := d.backend.check(s, format, args...)
	if s.Kind == DeviceLost {
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

// closed is the error of a call of something on the device that was closed. d is nil for a
// zero value, which was never opened.
func (d *device) closed(call, what string) error {
	backend := ""
	if d != nil {
		backend = d.backend.Name()
	}
	return core.Errorf(core.ErrClosed, backend, call, "the %s was closed", what)
}
