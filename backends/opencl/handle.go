//go:build opencl && linux && cgo

package opencl

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// checkObject refuses what cannot be an object of this platform: 0, and for a
// driver that the ICD loader serves whatever is not readable memory that begins
// like an object of it does, with the driver's table of functions
// (cl_khr_icd). A handle that was released may pass.
func (l *location) checkObject(call string, handle uintptr) error {
	first, err := peek(handle)
	switch {
	case handle == 0 || handle%8 != 0 || errors.Is(err, unix.EFAULT):
		return errorf(core.ErrInvalid, call, "%#x is no object of OpenCL: nothing lies there", handle)
	case err == nil && l.dispatch != 0 && first != l.dispatch:
		return errorf(core.ErrInvalid, call, "%#x is no object of %s", handle, l.properties.Driver)
	}
	return nil
}

// peek reads the word at an address, and fails with EFAULT where none can be read,
// or as the system does that forbids to look.
func peek(address uintptr) (word uintptr, err error) {
	local := unix.Iovec{Base: (*byte)(unsafe.Pointer(&word))}
	local.SetLen(int(unsafe.Sizeof(word)))
	remote := unix.RemoteIovec{Base: address, Len: int(unsafe.Sizeof(word))}
	_, err = unix.ProcessVMReadv(unix.Getpid(), []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
	return word, err
}

// pointer turns an address outside of Go's heap, or pinned in it, into a pointer.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
