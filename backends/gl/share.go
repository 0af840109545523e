//go:build gl && linux && cgo

package gl

import (
	"context"
	"math"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
)

// ImportPointer takes the name of a GL buffer of this context or its share group. The memory is its first
// size bytes. The buffer stays the caller's, who deletes it after owner.Free was called. While work on it
// runs, it may be mapped only persistently (GL_MAP_PERSISTENT_BIT). ImportPointer fails with ErrInvalid if p
// is not such a name, or if size is negative or larger than the buffer; if size is 0, p is ignored.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	fail := func(format string, args ...any) (core.Memory, error) {
		return core.Memory{}, core.Errorf(core.ErrInvalid, "gl", "ImportPointer", format, args...)
	}
	if err := d.Hold("ImportPointer"); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	if size < 0 {
		return fail("size is %d bytes", size)
	}
	if size == 0 {
		return d.newMemory("ImportPointer", &buffer{}, 0, 0, owner)
	}
	if p == 0 || p > math.MaxUint32 {
		return fail("p is %#x; it must be the name of a GL buffer, from 1 to %#x", p, uint32(math.MaxUint32))
	}
	b := &buffer{name: uint32(p), theirs: true}
	known := false
	if err := d.doSoon("glIsBuffer", func() { known = gl.IsBuffer(b.name) }); err != nil {
		return core.Memory{}, err
	}
	if !known {
		return fail("%d is not a GL buffer of the context: it was deleted, never bound, or belongs to another share group", p)
	}
	var immutable, flags int32
	if err := d.doSoon("glGetNamedBufferParameteri64v", func() {
		gl.GetNamedBufferParameteri64v(b.name, gl.BUFFER_SIZE, &b.size)
		gl.GetNamedBufferParameteriv(b.name, gl.BUFFER_IMMUTABLE_STORAGE, &immutable)
		gl.GetNamedBufferParameteriv(b.name, gl.BUFFER_STORAGE_FLAGS, &flags)
	}); err != nil {
		return core.Memory{}, err
	}
	if size > b.size {
		return fail("size is %d bytes, but GL buffer %d has %d (GL_BUFFER_SIZE)", size, p, b.size)
	}
	b.fixed = immutable != 0 && flags&gl.DYNAMIC_STORAGE_BIT == 0
	return d.newMemory("ImportPointer", b, 0, size, owner)
}

// HostView returns the address at which b is mapped since its allocation.
func (d *device) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return d.View(ctx, b, func(m core.Memory) (uintptr, error) {
		if err := d.CanView(m); err != nil {
			return 0, err
		}
		return d.known(m.Handle).mapped, nil
	})
}

// CanView refuses memory that is not mapped.
func (d *device) CanView(m core.Memory) error {
	if b := d.known(m.Handle); b != nil && b.mapped != 0 || m.Handle == 0 && d.info.software {
		return nil
	}
	return core.Errorf(core.ErrNotSupported, "gl", "HostView", "GL buffer %d is not mapped: allocate with AllocOptions.HostVisible; imported memory cannot be viewed", m.Handle)
}

// known returns the buffer of a handle of the device's memory.
func (d *device) known(handle uintptr) *buffer {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.buffers[uint32(handle)]
}
