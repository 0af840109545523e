package gl

import "github.com/dlx-go/dlx/core"

// New returns the backend "gl": one device for each that libEGL lists, in its order, from gl:0 on. A device
// may be opened several times. Each opened device has a context of its own, on a thread of its own.
func New() core.Backend { return newBackend() }

// Wrap returns a device over an OpenGL context of the caller, as gl:0. The device and the caller can use each
// other's buffers.
//
// run must call its argument on the thread where the OpenGL context is current, and return when the argument
// has returned. Any goroutine may call run, until Close of the device has returned. Until then the OpenGL
// context must exist, and it must be current whenever run calls a function; otherwise calls of the device
// return core.ErrInvalid. The caller still owns the OpenGL context. Wrap itself calls run, and waits for it.
//
// A call of the device waits for run until the call's ctx ends. A function that run has not started by then
// never runs. Memory that OpenGL commands may still use stays allocated until the commands are done. Close,
// ImportPointer and Close of a stream have no ctx. They return core.ErrInvalid if run calls no function at
// all for 5 seconds. An object that they could not close stays open, and can be closed again later.
//
// The thread of the OpenGL context may call the device only if run also works when that thread calls it, as
// [github.com/dlx-go/dlx/interop/gl.Loop.Run] does. The thread may then also wait for events of the device.
// It must not wait for another goroutine that waits for the device.
//
// Wrap returns core.ErrInvalid if run is nil, and core.ErrVersion if the OpenGL context is older than OpenGL
// 4.5 or is one of OpenGL ES.
func Wrap(run func(f func())) (core.Device, error) { return wrap(run) }

// Card says which card an OpenGL context is on, in the terms of other APIs.
type Card struct {
	// UUID is what Vulkan and CUDA report for the card, too. It is zero if the driver lacks GL_EXT_memory_object.
	UUID core.UUID
	// CUDA is the number of the card among CUDA's devices (EGL_CUDA_DEVICE_NV), or -1 if EGL does not say. NoCUDA is
	// then the reason.
	CUDA   int32
	NoCUDA error
}

// CardOf returns the card of an OpenGL context of the caller. run must call its argument on the thread where the context
// is current, and return when the argument has returned. CardOf fails as [Wrap] does.
func CardOf(run func(f func())) (Card, error) { return cardOf(run) }

// NewContext makes an OpenGL context without a window, on a device of the backend, and makes it current on
// the calling thread. The caller must have locked its goroutine to the thread. destroy destroys the context.
// It must be called on the same thread, after everything that uses the context is closed; the goroutine must
// then end without unlocking the thread. NewContext fails as Open does.
func NewContext(id core.DeviceID) (destroy func(), err error) { return newContext(id) }
