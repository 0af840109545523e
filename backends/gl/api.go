package gl

import "github.com/dlx-go/dlx/core"

// New returns the backend "gl": one device for each that libEGL lists, in its order, from gl:0 on. A device
// may be opened several times. Each opened device has a context of its own, on a thread of its own.
func New() core.Backend { return newBackend() }

// Wrap returns a device over an OpenGL context of the caller, as gl:0. The device and the caller can use each
// other's buffers.
//
// run calls a function on the thread where the OpenGL context is current, and returns when the function has
// returned. It may be called from any goroutine, until Close of the device has returned. Until then the
// OpenGL context must exist, and it must be current whenever run calls a function; otherwise calls fail with
// core.ErrInvalid. The OpenGL context stays the caller's. Wrap itself waits for run.
//
// A call of the device waits for run until the call's ctx ends. A function that run has not started by then
// never runs. Memory that OpenGL commands may still use stays allocated until the commands are done. Close,
// ImportPointer and Close of a stream take no ctx: they fail with core.ErrInvalid after 5 seconds in which
// run has called nothing. What they were to close stays open then, and may be closed again.
//
// The thread of the OpenGL context may call the device only if run works there, as
// [github.com/dlx-go/dlx/interop/gl.Loop.Run] does. It may then also wait for events of the device, and
// meanwhile runs the functions that they need. It must not wait for work of others that in turn waits for the
// device.
//
// Wrap fails with core.ErrInvalid if run is nil, and with core.ErrVersion if the OpenGL context is older than
// OpenGL 4.5 or is OpenGL ES.
func Wrap(run func(f func())) (core.Device, error) { return wrap(run) }

// NewContext makes an OpenGL context without a window, on a device of the backend, and makes it current on
// the calling thread. The caller must have locked its goroutine to the thread. destroy destroys the context.
// It must be called on the same thread, after everything that uses the context is closed; the goroutine must
// then end without unlocking the thread. NewContext fails as Open does.
func NewContext(id core.DeviceID) (destroy func(), err error) { return newContext(id) }
