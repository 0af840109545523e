package gl

import (
	"github.com/dlx-go/dlx/backends/gl"
	"github.com/dlx-go/dlx/core"
)

// New returns the backend "gl", whose devices have contexts of their own.
func New() core.Backend { return gl.New() }

// NewContext makes a context without a window, on the device of the backend with
// that index, and makes it current on the calling thread, to which the caller has
// locked its goroutine. destroy ends it, on the same thread, after all that uses
// it was closed; the goroutine then ends without unlocking. It fails with
// core.ErrDevice if there is no such device, and with core.ErrNotSupported if libEGL is
// missing or gives no context.
func NewContext(index int32) (destroy func(), err error) {
	return gl.NewContext(core.DeviceID{Type: core.DeviceGL, Index: index})
}

// Wrap returns a device, gl:0 by name, whose context is the caller's. run runs a
// function on the thread where that context is current and returns when it has
// run; it may be called from any goroutine, and is [Loop.Run] in most programs. The context
// stays the caller's and must live until Close of the device has returned, which fails
// with core.ErrInvalid, and may be repeated, when run has run nothing for 5 seconds. Wrap
// fails with core.ErrInvalid if run is nil, and with core.ErrVersion if the context
// is older than OpenGL 4.5 or is OpenGL ES.
func Wrap(run func(f func())) (core.Device, error) { return gl.Wrap(run) }

// Import returns a tensor on a buffer of the context of d, which has at least size
// bytes. The name stays the caller's, who may delete it when owner, which may be
// nil, was told; a buffer that is mapped must be mapped for good
// (GL_MAP_PERSISTENT_BIT). On failure owner stays the caller's: core.ErrInvalid if
// there is no such buffer or it is smaller, core.ErrDevice if d is no device of
// OpenGL, and what [core.Wrap] fails with if the spec leaves the buffer.
func Import(d core.Device, buffer uint32, size int64, s core.Spec, owner core.Owner) (*core.Tensor, error) {
	importer, ok := core.As[core.PointerImporter](d)
	if !ok || d.ID().Type != core.DeviceGL {
		return nil, core.Errorf(core.ErrDevice, "gl", "Import", "the device is none of OpenGL")
	}
	kept := &keeper{owner: owner}
	m, err := importer.ImportPointer(uintptr(buffer), size, kept)
	if err != nil {
		return nil, err
	}
	t, err := core.Wrap(m, s)
	if err != nil {
		kept.owner = nil // freeing the memory must not tell the owner, which stays the caller's
		m.Free()
		return nil, err
	}
	return t, nil
}

// keeper is an owner that can be taken back.
type keeper struct{ owner core.Owner }

func (k *keeper) Free() {
	if k.owner != nil {
		k.owner.Free()
	}
}

// Name returns the buffer that a tensor lies in, and where in it the first element
// lies, in bytes. The buffer stays the tensor's: it may be used until that is closed, and
// not be deleted or given other storage. It fails with core.ErrDevice if t is not
// in OpenGL, core.ErrInvalid if it has no memory, and core.ErrClosed.
func Name(t *core.Tensor) (buffer uint32, offset int64, err error) {
	b, err := t.Buffer()
	if err != nil {
		return 0, 0, err
	}
	m := b.Memory()
	switch {
	case m.ID.Type != core.DeviceGL:
		return 0, 0, core.Errorf(core.ErrDevice, "gl", "Name", "the tensor is on %v; exchange carries it to OpenGL", m.ID)
	case m.Handle == 0:
		return 0, 0, core.Errorf(core.ErrInvalid, "gl", "Name", "%v has no memory", t)
	}
	return uint32(m.Handle), t.Offset(), nil
}
