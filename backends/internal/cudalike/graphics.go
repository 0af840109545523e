package cudalike

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/relay"
	"github.com/dlx-go/dlx/core"
)

// GLAccess is what a device does with a buffer of OpenGL while it is mapped.
type GLAccess uint32

// The ways to use a buffer.
const (
	GLReadWrite GLAccess = iota
	GLReadOnly
	GLWriteDiscard
)

// GLBuffer is a buffer of OpenGL that a device uses while it is mapped. Its zero value is closed.
type GLBuffer struct {
	device *device
	opened backendkit.OpenItem
	relay  *relay.Relay
	access GLAccess

	mu       sync.Mutex // not held during a wait for the relay
	resource uintptr
	closed   bool
	mapped   bool
	inUse    bool         // tensors on the mapped memory are open
	pending  []core.Event // work on the mapped memory that may be unfinished
}

// RegisterGLBuffer registers a buffer of OpenGL with d, as g, which is the zero value. run calls functions on the
// thread where the context of OpenGL is current.
func (b *Backend) RegisterGLBuffer(run func(f func()), d core.Device, buffer uint32, access GLAccess, g *GLBuffer) error {
	const call = "RegisterGLBuffer"
	inner, err := b.deviceOf(call, d)
	switch {
	case err != nil:
		return err
	case run == nil:
		return b.errorf(core.ErrInvalid, call, "run is nil")
	case access > GLWriteDiscard:
		return b.errorf(core.ErrInvalid, call, "access is %d", access)
	}
	g.device, g.relay, g.access = inner, relay.New(b.Name(), run), access
	g.opened, err = inner.open(call, "registered buffer", func() error {
		var s Status
		if err := g.relay.First(func() { g.resource, s = inner.context.RegisterGLBuffer(buffer, access) }); err != nil {
			return err
		}
		return inner.checkGL(s, "buffer %d of OpenGL", buffer)
	})
	return err
}

// Map lets the device use the buffer and returns a tensor on it.
func (g *GLBuffer) Map(ctx context.Context, s core.Stream, spec core.Spec) (*core.Tensor, error) {
	if err := g.begin(ctx, "Map"); err != nil {
		return nil, err
	}
	q, err := g.device.streamOf("Map", s)
	if err != nil {
		return nil, err
	}
	var t *core.Tensor
	unserved := g.relay.Do(ctx, func() { t, err = g.mapTensor(q, spec) })
	if err := cmp.Or(unserved, err); err != nil {
		return nil, err
	}
	return t, nil
}

// begin fails for the zero value, and if ctx has ended.
func (g *GLBuffer) begin(ctx context.Context, call string) error {
	if g.device == nil {
		return g.device.closedError(call, "registered buffer")
	}
	return ctx.Err()
}

// mapTensor is Map on the thread of OpenGL's context.
func (g *GLBuffer) mapTensor(q *queue, spec core.Spec) (*core.Tensor, error) {
	m, err := g.mapMemory(q)
	if err != nil {
		return nil, err
	}
	if g.access == GLReadOnly {
		spec.Flags |= core.FlagReadOnly
	}
	t, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
		return nil, errors.Join(err, g.unmapMemory(q))
	}
	ready, err := q.Record()
	if err == nil {
		var b *core.Buffer
		if b, err = t.Buffer(); err == nil {
			b.Wrote(ready)
			return t, nil
		}
	}
	return nil, errors.Join(err, t.Close(), g.unmapMemory(q))
}

// mapMemory maps the buffer. It is called on the thread of OpenGL's context.
func (g *GLBuffer) mapMemory(q *queue) (core.Memory, error) {
	const call = "Map"
	d := g.device
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return core.Memory{}, d.closedError(call, "registered buffer")
	case g.mapped:
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "the buffer is already mapped: close its tensors and call Unmap first")
	}
	var address uintptr
	var size int64
	err := q.enqueue(call, func() error {
		if err := d.checkGL(d.context.MapGL(g.resource, q.raw), "a buffer of OpenGL"); err != nil {
			return err
		}
		var s Status
		if address, size, s = d.context.MappedGL(g.resource); !s.OK() {
			d.context.UnmapGL(g.resource, q.raw)
		}
		return d.checkGL(s, "a buffer of OpenGL")
	})
	if err != nil {
		return core.Memory{}, err
	}
	g.mapped, g.inUse = true, true
	return d.handOutOrdered(core.Memory{ID: d.ID(), Handle: address, Size: size}, func(pending []core.Event) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.inUse, g.pending = false, pending
		d.dropMemory()
	}), nil
}

// Unmap lets OpenGL use the buffer again.
func (g *GLBuffer) Unmap(ctx context.Context, s core.Stream) error {
	const call = "Unmap"
	if err := g.begin(ctx, call); err != nil {
		return err
	}
	q, err := g.device.streamOf(call, s)
	if err != nil {
		return err
	}
	g.mu.Lock()
	err = g.checkUnused(call)
	pending := g.pending
	g.mu.Unlock()
	if err != nil {
		return err
	}
	for _, e := range pending {
		err := q.WaitSettled(e)
		if errors.Is(err, core.ErrNotSupported) {
			_ = e.Wait(ctx) // the stream of the work reports its error
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	unserved := g.relay.Do(ctx, func() { err = g.unmapMemory(q) })
	return cmp.Or(unserved, err)
}

// checkUnused fails unless the buffer is mapped and all tensors on it are closed. g.mu is held.
func (g *GLBuffer) checkUnused(call string) error {
	switch {
	case g.closed:
		return g.device.closedError(call, "registered buffer")
	case !g.mapped:
		return g.device.Errorf(core.ErrInvalid, call, "the buffer is not mapped")
	case g.inUse:
		return g.device.Errorf(core.ErrInvalid, call, "tensors on the buffer are open: close them first")
	}
	return nil
}

// unmapMemory unmaps the buffer. It is called on the thread of OpenGL's context.
func (g *GLBuffer) unmapMemory(q *queue) error {
	const call = "Unmap"
	d := g.device
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.checkUnused(call); err != nil {
		return err
	}
	return q.enqueue(call, func() error {
		s := d.context.UnmapGL(g.resource, q.raw)
		unmapped := s.OK()
		if !unmapped { // the error may be that of earlier work: ask whether the buffer is still mapped
			_, _, mapped := d.context.MappedGL(g.resource)
			unmapped = !mapped.OK()
		}
		if unmapped {
			g.mapped, g.pending = false, nil
		}
		return d.checkGL(s, "a buffer of OpenGL")
	})
}

// Close unregisters the buffer. A second Close does nothing.
func (g *GLBuffer) Close() (err error) {
	d := g.device
	if d == nil {
		return nil
	}
	ctx, stop := g.relay.Patient()
	defer stop()
	unserved := g.relay.Do(ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		switch {
		case g.closed:
			return
		case g.inUse, g.mapped && d.lostError() == nil: // a lost device cannot unmap
			err = d.Errorf(core.ErrInvalid, "Close", "the buffer is mapped: close its tensors and call Unmap first")
			return
		}
		g.closed = true
		err = d.checkGL(d.context.UnregisterGL(g.resource), "a buffer of OpenGL")
		g.opened.Close()
	})
	if ctx.Err() != nil && errors.Is(unserved, ctx.Err()) {
		return g.relay.Untaken("Close")
	}
	return cmp.Or(unserved, err)
}

// checkGL is check for functions that need a current context of OpenGL.
func (d *device) checkGL(s Status, format string, args ...any) error {
	switch s.Kind {
	case NoGraphics:
		return d.backend.statusf(core.ErrInvalid, s, "no context of OpenGL is current where run calls its function")
	case BadValue, BadHandle:
		return d.backend.statusf(core.ErrInvalid, s, "the context of OpenGL has no such buffer, or the buffer has no storage")
	case BadDevice:
		return d.backend.statusf(core.ErrDevice, s, "the context of OpenGL belongs to another card than %v", d.ID())
	}
	return d.check(s, format, args...)
}
