package gl

import (
	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
)

// CUDABuffer is a buffer of the program that is registered with a device of CUDA: a
// tensor of that between Map and Unmap, and OpenGL's else. Its methods may be called from
// any goroutine, and come to the context's thread by the run of [RegisterCUDA].
type CUDABuffer = cuda.GLBuffer

// Access is what CUDA does with a buffer while it is mapped.
type Access = cuda.GLAccess

// The ways to use a buffer.
const (
	ReadWrite    = cuda.GLReadWrite
	ReadOnly     = cuda.GLReadOnly     // its tensors are read-only
	WriteDiscard = cuda.GLWriteDiscard // what it held before Map is lost
)

// RegisterCUDA registers a buffer of OpenGL with a device of CUDA on the same card.
// That takes long: do it once, and map the buffer whenever CUDA is to use it. run
// runs a function on the thread where the buffer's context is current and returns when
// it has run; it is [Loop.Run] in most programs. The buffer stays the caller's, who
// neither deletes it nor gives it other storage before Close of the result. It fails with
// core.ErrInvalid if run is nil, no context is current there, or that has no such
// buffer with storage; with core.ErrDevice if d is no device of CUDA, or the context
// is on another card; with core.ErrNotSupported where the driver of OpenGL is not NVIDIA's;
// and with core.ErrClosed.
func RegisterCUDA(run func(f func()), d core.Device, buffer uint32, access Access) (*CUDABuffer, error) {
	return cuda.RegisterGLBuffer(run, d, buffer, access)
}
