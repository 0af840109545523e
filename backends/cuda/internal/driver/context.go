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
	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/backends/internal/dl"
)

// Driver is CUDA's driver.
var Driver cudalike.Driver = library{}

// library is the driver's library, which the process loads once.
type library struct{}

func (library) Load() (s cudalike.Status, err error) {
	if err := link.Load(); err != nil {
		return s, err
	}
	return initialise(), nil
}

var initialise = sync.OnceValue(func() cudalike.Status {
	defer dl.KeepHandlers()()
	return answer("cuInit", C.cuInit(0))
})

// context is a CUcontext. Its methods make it current during the call.
type context uintptr

var _ cudalike.Context = context(0)

func (c context) ID() cudalike.ContextID { return cudalike.ContextID(c) }

// do calls f, which calls the driver through package cu. The context is current on the thread, and the goroutine
// stays on it.
func (c context) do(call string, f func() error) cudalike.Status {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mode C.CUstreamCaptureMode
	if s := answer(call, C.dlx_enter_relaxed(C.uintptr_t(c), &mode)); !s.OK() {
		return s
	}
	defer C.dlx_leave_relaxed(mode)
	return status(call, code(f()))
}

// Do calls f while c, a context of this package, is current on the thread, and the goroutine stays on it. If Do fails, f
// was not called.
func Do(c cudalike.Context, f func()) cudalike.Status {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mode C.CUstreamCaptureMode
	s := answer("cuCtxPushCurrent", C.dlx_enter_relaxed(C.uintptr_t(c.ID()), &mode))
	if s.OK() {
		defer C.dlx_leave_relaxed(mode)
		f()
	}
	return s
}

func (library) Retain(ordinal int32) (cudalike.Context, cudalike.Status) {
	defer dl.KeepHandlers()()
	d, err := cu.GetDevice(int(ordinal))
	if err != nil {
		return nil, status("cuDeviceGet", code(err))
	}
	c, err := d.RetainPrimaryCtx()
	return context(handle(c)), status("cuDevicePrimaryCtxRetain", code(err))
}

func (library) Release(ordinal int32) cudalike.Status {
	defer dl.KeepHandlers()()
	return status("cuDevicePrimaryCtxRelease", code(cu.Device(ordinal).ReleasePrimaryCtx()))
}

// handle returns the C handle in one of cu's structs, which have no other field.
func handle[T cu.CUContext | cu.Stream | cu.Event | cu.Module | cu.Function](object T) uintptr {
	return *(*uintptr)(unsafe.Pointer(&object))
}

// object is the reverse of handle.
func object[T cu.CUContext | cu.Stream | cu.Event | cu.Module | cu.Function](handle uintptr) T {
	return *(*T)(unsafe.Pointer(&handle))
}
