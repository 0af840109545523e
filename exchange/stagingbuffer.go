package exchange

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// stagingBuffer is host memory as two devices see it.
type stagingBuffer struct {
	in  *core.Tensor // what the source's device writes to
	out *core.Tensor // what the destination reads

	pinned pinned // what in and out are tensors of, if that is to be kept
}

// release gives the buffer back. Work on it may be unfinished.
func (b stagingBuffer) release() {
	if b.pinned.own != nil {
		opened.keepPinned(b.pinned)
		return
	}
	for _, t := range []*core.Tensor{b.in, b.out} {
		if t != nil {
			_ = t.Close()
		}
	}
}

// stagingBuffer returns memory of at least size bytes that the host and one of the
// devices reach: the source's, else the destination's, else plain memory of the host.
func (r *run) stagingBuffer(ctx context.Context, size int64) (stagingBuffer, error) {
	if p := opened.pinned(ctx, r.from.Device, size); p.own != nil {
		return stagingBuffer{in: p.own, out: p.view, pinned: p}, nil
	}
	if p := opened.pinned(ctx, r.dst, size); p.own != nil {
		return stagingBuffer{in: p.view, out: p.own, pinned: p}, nil
	}
	return plainBuffer(size)
}

// plainBuffers are slices of chunkBytes. Fresh memory would cost as much as the copy.
var plainBuffers = sync.Pool{New: func() any { return make([]byte, chunkBytes) }}

// plainBuffer makes a staging buffer of Go's memory.
func plainBuffer(size int64) (stagingBuffer, error) {
	bytes, pooled := []byte(nil), size == chunkBytes
	if pooled {
		bytes = plainBuffers.Get().([]byte)
	} else {
		bytes = make([]byte, size)
	}
	t, err := core.FromSlice(bytes)
	if err != nil {
		return stagingBuffer{}, err
	}
	b, err := t.Buffer()
	if err != nil {
		return stagingBuffer{}, err
	}
	if pooled {
		b.Attach(core.FreeFunc(func() { plainBuffers.Put(bytes) })) //nolint:staticcheck // SA6002: a slice header costs little beside its memory
	}
	view, err := t.Share()
	if err != nil {
		_ = t.Close()
		return stagingBuffer{}, err
	}
	return stagingBuffer{in: t, out: view}, nil
}

// pinned is memory of a device that the host sees, of at least chunkBytes. The
// zero value is none.
type pinned struct{ own, view *core.Tensor }

// pinned takes memory of d for staging, which the caller gives back by keepPinned.
// It returns none where d has none: then plain memory of the host does, only slower.
func (c *cache) pinned(ctx context.Context, d core.Device, size int64) pinned {
	v, ok := core.As[core.HostViewer](d)
	if !ok || size > chunkBytes || !c.watch(d) {
		return pinned{}
	}
	c.mu.Lock()
	if state := c.devices[d]; state != nil && len(state.pinned) > 0 {
		last := len(state.pinned) - 1
		p := state.pinned[last]
		state.pinned = state.pinned[:last]
		c.mu.Unlock()
		return p
	}
	c.mu.Unlock()

	m, err := d.Alloc(ctx, chunkBytes, core.AllocOptions{HostVisible: true})
	if err != nil {
		return pinned{}
	}
	m.Owner = c.owe(m.Owner, d)
	own, err := core.Wrap(m, chunkSpec)
	if err != nil {
		m.Free()
		return pinned{}
	}
	view, err := viewOf(ctx, v, own)
	if err != nil {
		_ = own.Close()
		return pinned{}
	}
	return pinned{own, view}
}

var chunkSpec = core.Spec{DType: core.TypeUint8, Shape: []int64{chunkBytes}}

// viewOf makes a tensor on the host's view of own's memory.
func viewOf(ctx context.Context, v core.HostViewer, own *core.Tensor) (*core.Tensor, error) {
	b, err := own.Buffer()
	if err != nil {
		return nil, err
	}
	m, err := v.HostView(ctx, b)
	if err != nil {
		return nil, err
	}
	return wrapBorrowed(m, b, chunkSpec, own.Device())
}

// keepPinned keeps memory for the next staged copy, until the device closes.
func (c *cache) keepPinned(p pinned) {
	c.mu.Lock()
	state := c.devices[p.own.Device()]
	keep := state != nil && len(state.pinned) < stages
	if keep {
		state.pinned = append(state.pinned, p)
		c.settled.Broadcast() // the device may be closing
	}
	c.mu.Unlock()
	if !keep {
		p.close()
	}
}

func (p pinned) close() { _, _ = p.view.Close(), p.own.Close() }
