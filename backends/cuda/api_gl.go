package cuda

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

// GLAccess is what CUDA does with a buffer of OpenGL while it is mapped.
type GLAccess uint32

// The ways to use a buffer.
const (
	GLReadWrite    = GLAccess(cudalike.GLReadWrite)
	GLReadOnly     = GLAccess(cudalike.GLReadOnly)     // its tensors are read-only
	GLWriteDiscard = GLAccess(cudalike.GLWriteDiscard) // what it held before Map is lost
)

// GLBuffer is a buffer of OpenGL that CUDA uses while it is mapped. It is safe for
// concurrent use.
type GLBuffer struct{ buffer cudalike.GLBuffer }

// RegisterGLBuffer registers a buffer of OpenGL with d (cuGraphicsGLRegisterBuffer).
// run runs a function on the thread where the buffer's context is current and returns
// when it has run; RegisterGLBuffer waits for it, and it is used until Close. The buffer stays the caller's, who
// neither deletes it nor gives it other storage until Close of the result. It fails
// with core.ErrInvalid if run is nil, no context is current there or it has no such
// buffer with storage, core.ErrDevice if d is no device of CUDA or the context is on another
// card, core.ErrNotSupported where the driver does not share with OpenGL, and core.ErrClosed.
func RegisterGLBuffer(run func(f func()), d core.Device, buffer uint32, access GLAccess) (*GLBuffer, error) {
	g := new(GLBuffer)
	if err := registerGLBuffer(run, d, buffer, cudalike.GLAccess(access), &g.buffer); err != nil {
		return nil, err
	}
	return g, nil
}

// Map lets CUDA use the buffer and returns a tensor on it, which the caller closes
// before Unmap. It is ready when all is done that OpenGL was told before. OpenGL must
// not use the buffer until Unmap. s is a stream of the device.
//
// It fails with core.ErrInvalid if the buffer is mapped already, core.ErrDevice if s is
// nil or another device's, with what [core.Wrap] fails with if spec leaves the buffer, and
// with core.ErrClosed; nothing is mapped then.
func (g *GLBuffer) Map(ctx context.Context, s core.Stream, spec core.Spec) (*core.Tensor, error) {
	return g.buffer.Map(ctx, s, spec)
}

// Unmap gives the buffer back to OpenGL: what that is told later comes after the
// work on the tensor of Map, and after work enqueued on s before. s is a stream of the device.
//
// It fails with core.ErrInvalid if the buffer is not mapped, or tensors on it are open,
// with core.ErrDevice if s is nil or another device's, and with core.ErrClosed. Where the
// driver fails, the buffer may still be mapped: try again.
func (g *GLBuffer) Unmap(ctx context.Context, s core.Stream) error { return g.buffer.Unmap(ctx, s) }

// Close ends the registration. A second Close does nothing. It fails with
// core.ErrInvalid while the buffer is mapped, and when run has run nothing for 5
// seconds; it changes nothing then.
func (g *GLBuffer) Close() error { return g.buffer.Close() }
