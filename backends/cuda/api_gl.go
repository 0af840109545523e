package cuda

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/cudalike"
	"github.com/dlx-go/dlx/core"
)

// GLAccess is what CUDA does with a buffer of OpenGL while it is mapped.
type GLAccess uint32

// The kinds of access.
const (
	GLReadWrite    = GLAccess(cudalike.GLReadWrite)
	GLReadOnly     = GLAccess(cudalike.GLReadOnly)     // the tensors of Map are read-only
	GLWriteDiscard = GLAccess(cudalike.GLWriteDiscard) // the previous content is lost at Map
)

// GLBuffer is a buffer of OpenGL that CUDA uses while it is mapped. It is safe for
// concurrent use.
type GLBuffer struct{ buffer cudalike.GLBuffer }

// RegisterGLBuffer registers a buffer of OpenGL with d (cuGraphicsGLRegisterBuffer).
//
// run must call f on the thread where the buffer's context is current, and return when f has returned. It is called
// by RegisterGLBuffer and by the methods of the result, until Close. The caller still owns the buffer, but must not
// delete it or give it other storage before Close.
//
// RegisterGLBuffer fails with
//   - core.ErrInvalid if run is nil, no context is current where run calls f, the context has no such buffer, or the
//     buffer has no storage;
//   - core.ErrDevice if d is not a device of CUDA, or the context belongs to another card;
//   - core.ErrNotSupported if the driver cannot share with OpenGL;
//   - core.ErrClosed if d is closed.
func RegisterGLBuffer(run func(f func()), d core.Device, buffer uint32, access GLAccess) (*GLBuffer, error) {
	g := new(GLBuffer)
	if err := registerGLBuffer(run, d, buffer, cudalike.GLAccess(access), &g.buffer); err != nil {
		return nil, err
	}
	return g, nil
}

// Map lets CUDA use the buffer and returns a tensor on it, which the caller must close before Unmap. The tensor is
// ready when the earlier commands of OpenGL are done. OpenGL must not use the buffer before Unmap. s is a stream of
// the device.
//
// Map fails with core.ErrInvalid if the buffer is already mapped, with core.ErrDevice if s is nil or a stream of
// another device, with the errors of [core.Wrap] if spec does not fit the buffer, and with core.ErrClosed. The
// buffer is not mapped then.
func (g *GLBuffer) Map(ctx context.Context, s core.Stream, spec core.Spec) (*core.Tensor, error) {
	return g.buffer.Map(ctx, s, spec)
}

// Unmap lets OpenGL use the buffer again. Later commands of OpenGL wait for the work on the tensor of Map, and for
// the earlier work of s, a stream of the device.
//
// Unmap fails with core.ErrInvalid if the buffer is not mapped or tensors on it are open, with core.ErrDevice if s
// is nil or a stream of another device, and with core.ErrClosed. If the driver fails, the buffer may still be
// mapped; the caller can try again.
func (g *GLBuffer) Unmap(ctx context.Context, s core.Stream) error { return g.buffer.Unmap(ctx, s) }

// Close ends the registration. A second Close does nothing. Close fails with core.ErrInvalid while the buffer is
// mapped, and if run does not call its function within 5 seconds. The buffer is still registered then.
func (g *GLBuffer) Close() error { return g.buffer.Close() }
