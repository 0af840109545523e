package gl

import "github.com/dlx-go/dlx/core"

// New returns the backend "gl": one device for each that libEGL lists, in its
// order, which gl:0 is the first of. A device may be opened several times; each
// time has a context of its own on a thread of its own.
func New() core.Backend { return newBackend() }

// Wrap returns a device, gl:0 by name, whose context is the caller's: buffers of
// both can be used by both. run runs a function on the thread where that context is
// current and returns when it has run; it may be called from any goroutine, until
// Close of the device has returned. The context stays the caller's and must be
// current, when run runs something, until then: calls fail with core.ErrInvalid where none is.
//
// Wrap waits for run. The device's calls wait for it until their context ends: what run
// has not begun to run by then it never runs, and memory that commands of OpenGL may
// still use stays allocated until they are done. Close, ImportPointer and Close of a
// stream, which have no context, fail with core.ErrInvalid when run has run nothing for 5
// seconds; what was to be closed stays open then, and may be closed again. The context's own thread
// may make the device's calls only if run works there, as that of the package interop/gl
// does; then it may wait for events of the device too, and calls by run what they need
// meanwhile, but not for work of others that waits for the device. Wrap fails with
// core.ErrInvalid if run is nil, and with core.ErrVersion if the context is older than
// OpenGL 4.5 or is OpenGL ES.
func Wrap(run func(f func())) (core.Device, error) { return wrap(run) }

// NewContext makes a context without a window on a device of the backend, and makes
// it current on the calling thread, to which the caller has locked its goroutine.
// destroy ends it, on the same thread, after all that uses it was closed; the
// goroutine then ends without unlocking. It fails as Open does.
func NewContext(id core.DeviceID) (destroy func(), err error) { return newContext(id) }
