//go:build gl && linux && cgo

package gl

import (
	"context"
	"slices"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/gl/internal/ext"
	"github.com/dlx-go/dlx/core"
)

// buffer is a GL buffer that the device knows, as long as memory of it is open.
type buffer struct {
	name   uint32
	object uint32  // the memory object that it stands on, 0 for its own memory
	size   int64   // GL_BUFFER_SIZE
	mapped uintptr // where the host sees it for as long as it lives, 0 if it does not
	fixed  bool    // glNamedBufferSubData may not be used
	users  int     // memories that are open; guarded by device.Mu
	theirs bool    // the name is the caller's
}

// destroy deletes on the context's thread what is dlx's.
func (b *buffer) destroy() {
	if b.name != 0 {
		gl.DeleteBuffers(1, &b.name)
	}
	if b.object != 0 {
		ext.DeleteMemoryObject(b.object)
	}
}

// maxSize is more than any memory has: larger sizes are not put to the driver.
const maxSize = 1 << 47

// mappable is the storage of a buffer that stays mapped, and needs no flush.
const mappable = gl.MAP_READ_BIT | gl.MAP_WRITE_BIT | gl.MAP_PERSISTENT_BIT | gl.MAP_COHERENT_BIT

// roundUp makes sizes whole words, which is what shaders read and write.
func roundUp(size int64) int64 { return (size + 3) &^ 3 }

// newBuffer makes a buffer of at least size bytes, above 0, which the caller
// discards or registers. With visible, the host sees it.
func (d *device) newBuffer(ctx context.Context, call string, size int64, visible bool) (*buffer, error) {
	if size > maxSize {
		return nil, core.Errorf(core.ErrOutOfMemory, "gl", call, "%d bytes were asked for; no allocation can have more than %d", size, int64(maxSize))
	}
	b := &buffer{size: roundUp(size)}
	flags := uint32(gl.DYNAMIC_STORAGE_BIT)
	if visible {
		flags |= mappable
	}
	err := d.do(ctx, "glNamedBufferStorage", func() {
		gl.CreateBuffers(1, &b.name)
		gl.NamedBufferStorage(b.name, int(b.size), nil, flags)
	})
	if err == nil && visible {
		err = d.do(ctx, "glMapNamedBufferRange", func() {
			b.mapped = uintptr(gl.MapNamedBufferRange(b.name, 0, int(b.size), mappable))
		})
	}
	if err != nil {
		d.discard(b.destroy)
		return nil, err
	}
	return b, nil
}

// Mapped buffers are kept for the next copy that needs one, since the first touch of
// new memory costs more than the copy: so many, and none larger than this.
const (
	maxSpares = 2
	maxSpare  = 64 << 20
)

// stage gives a mapped buffer of at least size bytes for the rest of the job.
func (j *job) stage(size int64) (*buffer, error) {
	b, err := j.device.spare(j.ctx, size)
	if err == nil {
		j.after = append(j.after, func() { j.device.keep(b) })
	}
	return b, err
}

func (d *device) spare(ctx context.Context, size int64) (*buffer, error) {
	d.Mu.Lock()
	for i, b := range d.spares {
		if b.size >= size {
			d.spares = slices.Delete(d.spares, i, i+1)
			d.Mu.Unlock()
			return b, nil
		}
	}
	d.Mu.Unlock()
	return d.newBuffer(ctx, "Copy", size, true)
}

// keep takes a spare back, with which OpenGL is done.
func (d *device) keep(b *buffer) {
	d.Mu.Lock()
	if b.size <= maxSpare {
		d.spares = append(d.spares, b)
		b = nil
		if len(d.spares) > maxSpares {
			b = d.spares[0]
			d.spares = d.spares[1:]
		}
	}
	d.Mu.Unlock()
	if b != nil {
		d.discard(b.destroy)
	}
}
