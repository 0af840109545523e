//go:build cuda && linux && cgo

package driver

// #include "shim.h"
import "C"

import (
	"runtime"
	"sync"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/cuda/internal/link"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

// Load opens the library and initialises it, once for the life of the process. No
// other function of this package may be called before it has succeeded: opened is
// the reason why there is no library, s what cuInit answered.
func Load() (s Status, opened error) {
	if err := link.Load(); err != nil {
		return NotInitialized, err
	}
	return initialise(), nil
}

var initialise = sync.OnceValue(func() Status {
	defer dl.KeepHandlers()()
	return Status(C.cuInit(0))
})

// Has reports whether the library has a function, by the name under which it is exported.
func Has(name string) bool { return link.Has(name) }

// Context is a CUcontext. Its methods make it current for the time of the call.
type Context uintptr

// Do calls f, which calls cu, with the context current and the thread the goroutine's own.
func (c Context) Do(f func() error) Status {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var pushed C.int
	var mode C.CUstreamCaptureMode
	if s := Status(C.dlx_enter_relaxed(C.uintptr_t(c), &pushed, &mode)); s != Success {
		return s
	}
	defer C.dlx_leave_relaxed(pushed, mode)
	return status(f())
}

// Retain takes a reference to the primary context of a device, which [Release] gives back.
func Retain(d cu.Device) (Context, Status) {
	defer dl.KeepHandlers()()
	c, err := d.RetainPrimaryCtx()
	return Context(handle(c)), status(err)
}

// Release gives a reference to the primary context of a device back.
func Release(d cu.Device) Status {
	defer dl.KeepHandlers()()
	return status(d.ReleasePrimaryCtx())
}

// handle is the C handle in one of cu's structs, which have no other field.
func handle[T cu.CUContext | cu.Stream | cu.Event | cu.Module | cu.Function](object T) uintptr {
	return *(*uintptr)(unsafe.Pointer(&object))
}

// object is the reverse of handle.
func object[T cu.CUContext | cu.Stream | cu.Event | cu.Module | cu.Function](handle uintptr) T {
	return *(*T)(unsafe.Pointer(&handle))
}
