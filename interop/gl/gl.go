package gl

import (
	"github.com/dlx-go/dlx/backends/gl"
	"github.com/dlx-go/dlx/core"
)

// New returns the backend "gl", whose devices have OpenGL contexts of their own.
func New() core.Backend { return gl.New() }

// NewContext makes an OpenGL context without a window, on the device of the backend with that index, and
// makes it current on the calling thread. The caller must have locked its goroutine to the thread. destroy
// destroys the context. It must be called on the same thread, after everything that uses the context is
// closed; the goroutine must then end without unlocking the thread. NewContext fails with core.ErrDevice if
// there is no such device, and with core.ErrNotSupported if libEGL is missing or makes no context.
func NewContext(index int32) (destroy func(), err error) {
	return gl.NewContext(core.DeviceID{Type: core.DeviceGL, Index: index})
}

// Wrap returns a device over an OpenGL context of the caller, as gl:0. run calls a function on the thread
// where the context is current, and returns when the function has returned. It may be called from any
// goroutine; most programs pass [Loop.Run]. The context stays the caller's, and must live until Close of the
// device has returned. Close fails with core.ErrInvalid if run has called nothing for 5 seconds, and may then
// be repeated.
//
// Wrap fails with core.ErrInvalid if run is nil, and with core.ErrVersion if the context is older than OpenGL
// 4.5 or is OpenGL ES. See also [github.com/dlx-go/dlx/backends/gl.Wrap].
func Wrap(run func(f func())) (core.Device, error) { return gl.Wrap(run) }

// Import returns a tensor on a buffer of d's context that has at least size bytes. The buffer stays the
// caller's, who may delete it after owner.Free was called; owner may be nil. A buffer that is mapped must be
// mapped persistently (GL_MAP_PERSISTENT_BIT).
//
// Import fails with core.ErrInvalid if there is no such buffer or it is smaller, with core.ErrDevice if d is
// not a device of OpenGL, and as [core.Wrap] does if the spec does not fit the buffer. On failure owner stays
// the caller's.
func Import(d core.Device, buffer uint32, size int64, s core.Spec, owner core.Owner) (*core.Tensor, error) {
	importer, ok := core.As[core.PointerImporter](d)
	if !ok || d.ID().Type != core.DeviceGL {
		return nil, core.Errorf(core.ErrDevice, "gl", "Import", "the device is not a device of OpenGL")
	}
	kept := &keeper{owner: owner}
	m, err := importer.ImportPointer(uintptr(buffer), size, kept)
	if err != nil {
		return nil, err
	}
	t, err := core.Wrap(m, s)
	if err != nil {
		kept.owner = nil // freeing the memory must not free the owner, which stays the caller's
		m.Free()
		return nil, err
	}
	return t, nil
}

// keeper is an owner that can be withdrawn.
type keeper struct{ owner core.Owner }

func (k *keeper) Free() {
	if k.owner != nil {
		k.owner.Free()
	}
}

// Name returns the buffer that holds a tensor, and the offset of the first element in it, in bytes. The
// buffer belongs to the tensor. It may be used until the tensor is closed, and must not be deleted or given
// other storage. Name fails with core.ErrDevice if t is not in OpenGL, with core.ErrInvalid if t has no
// memory, and with core.ErrClosed if t is closed.
func Name(t *core.Tensor) (buffer uint32, offset int64, err error) {
	b, err := t.Buffer()
	if err != nil {
		return 0, 0, err
	}
	m := b.Memory()
	switch {
	case m.ID.Type != core.DeviceGL:
		return 0, 0, core.Errorf(core.ErrDevice, "gl", "Name", "the tensor is on %v: move it to OpenGL by exchange.To", m.ID)
	case m.Handle == 0:
		return 0, 0, core.Errorf(core.ErrInvalid, "gl", "Name", "%v has no memory", t)
	}
	return uint32(m.Handle), t.Offset(), nil
}
