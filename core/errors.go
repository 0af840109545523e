package core

import (
	"errors"
	"fmt"
	"strings"
)

// The sentinels that errors.Is finds under every error of dlx. An error that
// comes from a call carries one of them inside an [*Error].
var (
	// ErrNotSupported: the device, the platform or the build cannot do this at all.
	ErrNotSupported = errors.New("not supported")
	// ErrClosed: the tensor, buffer, stream or device was closed before the call.
	ErrClosed = errors.New("closed")
	// ErrVersion: a foreign struct, file or driver has a version that cannot be read.
	ErrVersion = errors.New("incompatible version")
	// ErrLayout: a shape, stride, offset or size is malformed, overflows, or leaves its memory.
	ErrLayout = errors.New("bad layout")
	// ErrDType: an element type is malformed, unknown where it must be known, or not the one asked for.
	ErrDType = errors.New("bad element type")
	// ErrReadOnly: the call would write to memory that may only be read.
	ErrReadOnly = errors.New("read-only")
	// ErrDevice: no such device, or the tensor lies on another device than the call needs.
	ErrDevice = errors.New("wrong device")
	// ErrDeviceLost: the device stopped working; everything opened on it must be closed.
	ErrDeviceLost = errors.New("device lost")
	// ErrOutOfMemory: the device, its pool or a limit set on it has no room.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrInvalid: an argument is nil, out of range or contradicts another one.
	ErrInvalid = errors.New("invalid argument")
	// ErrExists: a name is taken already.
	ErrExists = errors.New("already exists")
)

// Error says which backend failed in which call, and why. It wraps one of the
// sentinels of this package, so that errors.Is(err, core.ErrLayout) works on it.
type Error struct {
	Backend string // "cpu", "cuda", "dlpack", "npy"...: the part of dlx or the API that refused
	Call    string // the API's own name of the call, or dlx's: "memfd_create", "Import"
	Code    int64  // the API's own code, 0 where it has none
	Detail  string // what is wrong and what to do about it; names the field
	Err     error  // a sentinel, or an error that wraps one
}

// Errorf makes an [*Error] around the sentinel err; format and args make its Detail.
func Errorf(err error, backend, call, format string, args ...any) *Error {
	return &Error{Backend: backend, Call: call, Detail: fmt.Sprintf(format, args...), Err: err}
}

// Error gives "backend: call: sentinel (code n): detail", without the parts that are empty.
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

// Unwrap returns the sentinel or the error that e was made around.
func (e *Error) Unwrap() error { return e.Err }
