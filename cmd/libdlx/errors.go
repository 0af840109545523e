//go:build cgo

package main

// #include "dlx.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// statuses are the sentinel errors and their statuses. If an error wraps several, it gets the status of the first.
var statuses = []struct {
	sentinel error
	status   C.dlx_status
}{
	{context.DeadlineExceeded, C.DLX_ERR_TIMEOUT},
	{syscall.EFAULT, C.DLX_ERR_INVALID}, // memory is gone, whatever else was tried
	{core.ErrDeviceLost, C.DLX_ERR_DEVICE_LOST},
	{core.ErrOutOfMemory, C.DLX_ERR_OUT_OF_MEMORY},
	{core.ErrClosed, C.DLX_ERR_CLOSED},
	{core.ErrVersion, C.DLX_ERR_VERSION},
	{core.ErrLayout, C.DLX_ERR_LAYOUT},
	{core.ErrDType, C.DLX_ERR_DTYPE},
	{core.ErrReadOnly, C.DLX_ERR_READ_ONLY},
	{core.ErrDevice, C.DLX_ERR_DEVICE},
	{core.ErrExists, C.DLX_ERR_EXISTS},
	{core.ErrInvalid, C.DLX_ERR_INVALID},
	{core.ErrNotSupported, C.DLX_ERR_NOT_SUPPORTED},
	{context.Canceled, C.DLX_ERR_CANCELED},
}

func statusOf(err error) C.dlx_status {
	for _, s := range statuses {
		if errors.Is(err, s.sentinel) {
			return s.status
		}
	}
	return C.DLX_ERR_INTERNAL
}

// do runs the Go part of a function of the interface. It writes the error, or that there is none, to e, which may be
// nil. A panic is a defect of dlx and becomes an error: it must not end a process that is not Go's.
func do(e *C.dlx_error, f func() error) (status C.dlx_status) {
	defer func() {
		if p := recover(); p != nil {
			status = report(e, defect(p))
		}
	}()
	return report(e, f())
}

// on is do for a function of an object, whose handle is looked up.
func on[T any](open *handles[T], handle unsafe.Pointer, e *C.dlx_error, f func(T) error) C.dlx_status {
	return do(e, func() error {
		object, err := open.get(handle)
		if err != nil {
			return err
		}
		return f(object)
	})
}

// closeHandle is on for a function that closes the object and its handle: of several calls with one handle, one calls f.
func closeHandle[T any](open *handles[T], handle unsafe.Pointer, e *C.dlx_error, f func(T) error) C.dlx_status {
	return do(e, func() error {
		object, err := open.take(handle)
		if err != nil {
			return err
		}
		return f(object)
	})
}

// defect returns the error for a panic that was recovered.
func defect(p any) error { return fmt.Errorf("a defect of dlx: panic: %v\n%s", p, debug.Stack()) }

// report writes err to e, and returns its status.
func report(e *C.dlx_error, err error) C.dlx_status {
	if err == nil {
		if e != nil {
			e.status, e.truncated, e.native_code = C.DLX_OK, 0, 0
			e.origin[0], e.call[0], e.text[0] = 0, 0, 0
		}
		return C.DLX_OK
	}
	status := statusOf(err)
	if e == nil {
		return status
	}
	var failed core.Error
	if found := (*core.Error)(nil); errors.As(err, &found) {
		failed = *found
	}
	if errno := syscall.Errno(0); failed.Code == 0 && errors.As(err, &errno) {
		failed.Code = int64(errno)
	}
	e.status, e.native_code = status, C.int64_t(failed.Code)
	put(e.origin[:], failed.Backend)
	put(e.call[:], failed.Call)
	e.truncated = 0
	if !put(e.text[:], textOf(err)) {
		e.truncated = 1
	}
	return status
}

// textOf returns the text of an error. That of Go for a context is unknown in other languages, whose calls have time limits.
func textOf(err error) string {
	return strings.ReplaceAll(err.Error(), context.DeadlineExceeded.Error(), "the time limit of the call has passed")
}

// put writes a text to an array of C, with a NUL at its end, and reports whether all of it fits. The text is cut between
// two characters, and what C cannot express is replaced.
func put(dst []C.char, text string) (whole bool) {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
	n := min(len(text), len(dst)-1)
	for n < len(text) && n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), n), text)
	dst[n] = 0
	return n == len(text)
}

// within calls f with a context that ends after the timeout, or never if it is 0.
func within(timeout C.int64_t, f func(ctx context.Context) error) error {
	switch {
	case timeout == 0:
		return f(context.Background())
	case timeout < 0:
		return invalid("timeout_ns is %d: pass 0 for no limit, or a positive number", timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(timeout))
	defer cancel()
	return f(ctx)
}

// required returns an error if the pointer that an argument must have is nil.
func required(name string, pointer unsafe.Pointer) error {
	if pointer == nil {
		return invalid("%s is NULL", name)
	}
	return nil
}

// unset returns an error if a reserved field of an argument is not 0.
func unset[T ~uint64 | ~int32](reserved ...T) error {
	for _, x := range reserved {
		if x != 0 {
			return invalid("a reserved field is %#x, and not 0: the program may need a newer libdlx", x)
		}
	}
	return nil
}
