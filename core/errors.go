package core

import (
	"errors"
	"fmt"
	"strings"
)

// The sentinel errors. Every error of dlx wraps one of them, except the error of a context
// that ended; test for it with errors.Is. The error of a failed call is an [*Error] that
// wraps one.
var (
	// ErrNotSupported means that the device, the platform or the build cannot do what
	// was asked for.
	ErrNotSupported = errors.New("not supported")
	// ErrClosed means that the tensor, buffer, stream or device was closed before the
	// call.
	ErrClosed = errors.New("closed")
	// ErrVersion means that a struct, file or driver has a version that cannot be read.
	ErrVersion = errors.New("incompatible version")
	// ErrLayout means that a shape, stride, offset or size is malformed, overflows, or
	// reaches outside of the memory.
	ErrLayout = errors.New("bad layout")
	// ErrDType means that an element type is malformed, unknown, or not the expected
	// one.
	ErrDType = errors.New("bad element type")
	// ErrReadOnly means that the call would write to read-only memory.
	ErrReadOnly = errors.New("read-only")
	// ErrDevice means that there is no such device, or that a tensor does not lie on
	// the device that the call needs.
	ErrDevice = errors.New("wrong device")
	// ErrDeviceLost means that the device stopped working. Everything that was opened
	// on it must still be closed.
	ErrDeviceLost = errors.New("device lost")
	// ErrOutOfMemory means that the device has no memory left, or that a limit of its
	// pool was reached.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrInvalid means that an argument is nil, out of range, or contradicts another
	// argument.
	ErrInvalid = errors.New("invalid argument")
	// ErrExists means that a name is already in use.
	ErrExists = errors.New("already exists")
)

// Error is the error of a failed call. It wraps one of the sentinel errors of this
// package, so that for example errors.Is(err, core.ErrLayout) reports whether a layout was
// bad.
type Error struct {
	Backend string // the part of dlx, the API or the file format that failed: "cpu", "cuda", "dlpack", "npy"
	Call    string // the call that failed, as the API or dlx names it: "memfd_create", "Import"
	Code    int64  // the API's own error code; 0 if there is none
	Detail  string // what is wrong, in which argument or field, and what to do about it
	Err     error  // a sentinel error, or an error that wraps one
}

// Errorf returns an [*Error] that wraps the sentinel error err. Its Detail is the text that
// format and args describe.
func Errorf(err error, backend, call, format string, args ...any) *Error {
	return &Error{Backend: backend, Call: call, Detail: fmt.Sprintf(format, args...), Err: err}
}

// Error returns "backend: call: sentinel (code n): detail", without the parts that are
// empty.
func (e *Error) Error() string {
	var b strings.Builder
	for _, s := range []string{e.Backend, e.Call} {
		if s != "" {
			b.WriteString(s + ": ")
		}
	}
	if e.Err != nil {
		b.WriteString(e.Err.Error())
	} else {
		b.WriteString("failed")
	}
	if e.Code != 0 {
		fmt.Fprintf(&b, " (code %d)", e.Code)
	}
	if e.Detail != "" {
		b.WriteString(": " + e.Detail)
	}
	return b.String()
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }
