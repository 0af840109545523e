//go:build webgpu && linux && cgo

package webgpu

import (
	"time"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
)

// class is the size of a buffer in bytes, a multiple of 4. Buffers of other sizes do not replace each other, since a shader of the
// program may ask for the size.
type class int64

func (c class) Bytes() int64 { return int64(c) }

const (
	// kept is how many bytes of freed buffers a device keeps. Making a small buffer takes longer than copying into it.
	kept = 64 << 20
	// keptFor is how long, or twice it at most, a freed buffer is kept that nobody needs.
	keptFor = 10 * time.Second
)

func (d *device) newPool() *blockpool.Pool[class, *buffer] {
	p := blockpool.New("webgpu", &d.Mu, d.makeBlock, func(b *buffer) { release(b.handle) })
	p.Keep, p.Idle = kept, keptFor
	return p
}

// makeBlock makes a buffer. Mu is held, but not while the library is called: it may wait for the submission of another goroutine.
func (d *device) makeBlock(c class) (*buffer, error) {
	d.Calls++
	d.Mu.Unlock()
	defer func() {
		d.Mu.Lock()
		d.Calls--
	}()
	return d.newBuffer("Alloc", wgpu.Memory, c.Bytes())
}

// alloc takes a buffer from the pool. Mu is held.
func (d *device) alloc(size int64) (core.Memory, error) {
	if err := d.CheckSize(size); err != nil {
		return core.Memory{}, err
	}
	if err := d.native.Lost("Alloc"); err != nil {
		return core.Memory{}, err
	}
	if size == 0 {
		return d.newMemory(&buffer{}, 0, nil), nil
	}
	if err := d.fits("Alloc", size); err != nil {
		return core.Memory{}, err
	}
	part, _, err := d.Take(class((size+3)&^3), size, nil)
	if err != nil {
		return core.Memory{}, err
	}
	b := part.Block
	b.part, b.asked = part, size
	return d.newMemory(b, size, nil), nil
}

// TrimPool also releases the buffers that are kept for copies. That needs no Mu, also while the device is closed: each buffer counts its
// references, has one of spares, and keeps what it needs of the WGPUDevice.
func (d *device) TrimPool() {
	d.Pool.TrimPool()
	d.spares.release()
}

// giveBack gives a buffer back to the pool. All work on it is done. Mu is held.
func (d *device) giveBack(b *buffer) {
	part := b.part
	b.part = nil
	d.Put(part, b.asked, nil)
}
