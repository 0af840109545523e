package gl

import (
	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
)

// CUDABuffer is a buffer of the program that is registered with a CUDA device. Between Map and Unmap it is a
// tensor of that device; at all other times it is OpenGL's. Its methods may be called from any goroutine, and
// reach the thread of the OpenGL context by the run function that was given to [RegisterCUDA].
type CUDABuffer = cuda.GLBuffer

// Access says how CUDA uses a buffer while it is mapped.
type Access = cuda.GLAccess

// The ways in which CUDA can use a buffer.
const (
	ReadWrite    = cuda.GLReadWrite
	ReadOnly     = cuda.GLReadOnly     // its tensors are read-only
	WriteDiscard = cuda.GLWriteDiscard // the content before Map is lost
)

// RegisterCUDA registers an OpenGL buffer with a CUDA device on the same card. Registering takes long: do it
// once, and map the buffer whenever CUDA is to use it. run calls a function on the thread where the buffer's
// context is current, and returns when the function has returned; most programs pass [Loop.Run]. The buffer
// stays the caller's, who must not delete it or give it other storage before Close of the result.
//
// RegisterCUDA fails with core.ErrInvalid if run is nil, if no context is current there, or if the context
// has no such buffer with storage; with core.ErrDevice if d is not a CUDA device, or if the context is on
// another card; with core.ErrNotSupported if the OpenGL driver is not NVIDIA's; and with core.ErrClosed if d
// is closed.
func RegisterCUDA(run func(f func()), d core.Device, buffer uint32, access Access) (*CUDABuffer, error) {
	return cuda.RegisterGLBuffer(run, d, buffer, access)
}
