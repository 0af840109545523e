//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core"
)

// checkObject fails for a value that cannot be an object of this platform: for 0 and, if the driver supports
// the ICD loader, for an address without readable memory that begins as the driver's objects do, with its
// table of functions (cl_khr_icd). It may not detect a handle that was released.
func (l *location) checkObject(call string, handle uintptr) error {
	first, err := peek(handle)
	switch {
	case handle == 0 || handle%8 != 0 || errors.Is(err, unix.EFAULT):
		return l.errorf(core.ErrInvalid, call, "%#x is not an object of OpenCL: there is no memory", handle)
	case err == nil && l.dispatch != 0 && first != l.dispatch:
		return l.errorf(core.ErrInvalid, call, "%#x is not an object of %s", handle, l.properties.Driver)
	}
	return nil
}

// peek reads the word at an address. It fails with EFAULT if there is no memory, or with another error if the
// system forbids the read.
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
