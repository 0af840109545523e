//go:build gl && linux && cgo

package gl

import (
	"context"
	"slices"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/backends/gl/internal/ext"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/core"
)

// buffer is a GL buffer that the device knows, while memory on it is open.
type buffer struct {
	name   uint32
	object uint32  // the memory object that it uses; 0 for its own memory
	size   int64   // GL_BUFFER_SIZE
	mapped uintptr // the address of its mapping, which lasts as long as it; 0 if it is not mapped
	fixed  bool    // glNamedBufferSubData may not be used
	users  int     // memories that are open; guarded by device.Mu
	theirs bool    // the buffer belongs to the caller

	part  *blockpool.Part[class, *buffer] // of the pool, while memory on it is open; nil if it is not of the pool
	asked int64                           // for how many bytes it was taken from the pool
}

// destroy deletes, on the context's thread, what belongs to dlx.
func (b *buffer) destroy() {
	if b.name != 0 {
		gl.DeleteBuffers(1, &b.name)
	}
	if b.object != 0 {
		ext.DeleteMemoryObject(b.object)
	}
}

// maxSize is larger than any memory: larger sizes are not passed to the driver.
const maxSize = 1 << 47

func checkSize(call string, size int64) error {
	if size > maxSize {
		return core.Errorf(core.ErrOutOfMemory, "gl", call, "%d bytes were asked for; no allocation can have more than %d", size, int64(maxSize))
	}
	return nil
}

// mappable are the storage flags of a buffer that stays mapped and needs no flush.
const mappable = gl.MAP_READ_BIT | gl.MAP_WRITE_BIT | gl.MAP_PERSISTENT_BIT | gl.MAP_COHERENT_BIT

// roundUp rounds a size up to whole words, which shaders read and write.
func roundUp(size int64) int64 { return (size + 3) &^ 3 }

// newBuffer makes a buffer of at least size bytes; size is above 0. The caller discards or registers it. With
// visible, it is mapped.
func (d *device) newBuffer(ctx context.Context, call string, size int64, visible bool) (*buffer, error) {
	if err := checkSize(call, size); err != nil {
		return nil, err
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

// Mapped buffers are kept for later copies, since the first touch of new memory costs more
// than the copy. The limits are their number and their size.
const (
	maxSpares = 2
	maxSpare  = 64 << 20
)

// stage returns a mapped buffer of at least size bytes, for use until the job ends.
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

// keep takes a buffer back when OpenGL no longer uses it.
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
