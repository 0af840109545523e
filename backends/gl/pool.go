//go:build gl && linux && cgo

package gl

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/core"
)

// class is what buffers must have in common to replace each other.
type class struct {
	size    int64
	visible bool // it is mapped
}

func (c class) Bytes() int64 { return c.size }

const (
	// kept is how many bytes of freed buffers a device keeps. Making and mapping a small buffer takes longer than copying
	// into it; for a large one that is the other way round, but for the first touch of its pages.
	kept = 64 << 20
	// keptFor is how long, or twice it at most, a freed buffer is kept that nobody needs.
	keptFor = 10 * time.Second
)

// newPool makes the pool of a device whose context is its own. See DESIGN.md for contexts of the caller.
func (d *device) newPool() *blockpool.Pool[class, *buffer] {
	p := blockpool.New("gl", &d.Mu, d.makeBlock, d.destroyBlock)
	p.Keep, p.Idle = kept, keptFor
	return p
}

// makeBlock makes a buffer. Mu is held, but not while OpenGL is called, since its thread locks it.
func (d *device) makeBlock(c class) (*buffer, error) {
	d.Mu.Unlock()
	defer d.Mu.Lock()
	return d.newBuffer(context.Background(), "Alloc", c.size, c.visible)
}

// destroyBlock deletes a buffer that nobody uses. Mu is held, but not while OpenGL is called.
func (d *device) destroyBlock(b *buffer) {
	delete(d.kept, b.name)
	d.Mu.Unlock()
	defer d.Mu.Lock()
	d.discard(b.destroy)
}

// allocPooled is Alloc of size bytes, more than 0, from the pool.
func (d *device) allocPooled(size int64, visible bool) (m core.Memory, err error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	defer func() { d.Count(err) }()
	if err := d.usable("Alloc"); err != nil {
		return m, err
	}
	if err := checkSize("Alloc", size); err != nil {
		return m, err
	}
	part, _, err := d.Take(class{blockpool.RoundUp(size, alignment), visible}, size, nil)
	if err != nil {
		return m, err
	}
	if err := d.IsOpen("Alloc"); err != nil {
		return m, err // the context was destroyed meanwhile, with its objects
	}
	b := part.Block
	delete(d.kept, b.name)
	b.part, b.asked = part, size
	return d.handOut("Alloc", b, 0, size, nil)
}

// giveBack gives a buffer back to the pool. All work on it is done.
func (d *device) giveBack(b *buffer) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	part := b.part
	b.part = nil
	d.Put(part, b.asked, nil)
}
