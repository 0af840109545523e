// Package memfault makes an error of a fault: of touching memory that is not there,
// as the pages of a mapped file are not any more once somebody has truncated it. By
// itself such a fault ends the process.
//
// Only Go code is guarded, in the goroutine that asks for it. A fault inside C, a
// driver's say, still ends the process.
package memfault

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

// Error is a fault.
type Error struct{ Address uintptr }

var _ error = Error{}

// Error tells what such memory usually was.
func (e Error) Error() string {
	return fmt.Sprintf("the memory at address %#x cannot be accessed: a file that is mapped there was truncated, or the memory was unmapped or protected too early", e.Address)
}

// Unwrap returns EFAULT, the error of system calls for such memory.
func (e Error) Unwrap() error { return syscall.EFAULT }

// Wrap returns an error with the text of sentinel that wraps sentinel and cause.
func Wrap(sentinel, cause error) error { return wrapped{sentinel, cause} }

type wrapped struct {
	error
	cause error
}

func (w wrapped) Unwrap() []error { return []error{w.error, w.cause} }

// Guard calls f, and returns an [Error] if f faulted at an address for which
// concerned is true. Every other panic goes on. What f was doing stays half done.
func Guard(concerned func(address uintptr) bool, f func()) (err error) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			at, ok := r.(fault)
			if !ok || !concerned(at.Addr()) {
				panic(r)
			}
			err = Error{at.Addr()}
		}
	}()
	f()
	return nil
}

// fault is what the runtime panics with.
type fault interface {
	runtime.Error
	Addr() uintptr
}

// Within returns a predicate for [Guard]: whether an address lies in data.
func Within(data []byte) func(address uintptr) bool {
	return Between(uintptr(unsafe.Pointer(unsafe.SliceData(data))), uintptr(len(data)))
}

// Between returns a predicate for [Guard]: whether an address is one of size bytes from start on.
func Between(start, size uintptr) func(address uintptr) bool {
	return func(address uintptr) bool { return address-start < size }
}
