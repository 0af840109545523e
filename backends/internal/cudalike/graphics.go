package cudalike

import (
	"cmp"
	"context"
	"errors"
	"sync"

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
	relay  *relay.Relay
	access GLAccess

	mu       sync.Mutex // never held while something waits for the relay
	resource uintptr
	closed   bool
	mapped   bool
	tensors  bool         // the memory of the mapping is in use
	pending  []core.Event // work on it that may be unfinished
}

// RegisterGLBuffer makes g, which is the zero value, a buffer of OpenGL that is registered with d.
// run runs functions where its context is current.
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
	err = inner.open(call, func() error {
		var s Status
		if err := g.relay.First(func() { g.resource, s = inner.context.RegisterGLBuffer(buffer, access) }); err != nil {
			return err
		}
		return inner.checkGL(s, "buffer %d", buffer)
	})
	if err == nil {
		b.buffers.Add(1)
	}
	return err
}

// Map lets the device use the buffer and returns a tensor on it.
func (g *GLBuffer) Map(ctx context.Context, s core.Stream, spec core.Spec) (*core.Tensor, error) {
	if err := g.usable(ctx, "Map"); err != nil {
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

// usable fails for the zero value, which is no registered buffer, and when ctx has ended.
func (g *GLBuffer) usable(ctx context.Context, call string) error {
	if g.device == nil {
		return g.device.closed(call, "registered buffer")
	}
	return ctx.Err()
}

// mapTensor does it, on the thread of OpenGL's context.
func (g *GLBuffer) mapTensor(q *queue, spec core.Spec) (*core.Tensor, error) {
	m, err := g.mapNow(q)
	if err != nil {
		return nil, err
	}
	if g.access == GLReadOnly {
		spec.Flags |= core.FlagReadOnly
	}
	t, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
		return nil, errors.Join(err, g.unmapNow(q))
	}
	ready, err := q.Record()
	if err == nil {
		var b *core.Buffer
		if b, err = t.Buffer(); err == nil {
			b.Wrote(ready)
			return t, nil
		}
	}
	return nil, errors.Join(err, t.Close(), g.unmapNow(q))
}

// mapNow maps the buffer, on the thread of OpenGL's context.
func (g *GLBuffer) mapNow(q *queue) (core.Memory, error) {
	const call = "Map"
	d := g.device
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return core.Memory{}, d.closed(call, "registered buffer")
	case g.mapped:
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "the buffer is mapped already: close its tensors and call Unmap first")
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
	g.mapped, g.tensors = true, true
	return d.handOut(d.ID(), address, size, func(pending []core.Event) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.tensors, g.pending = false, pending
		d.dropMemory()
	}), nil
}

// Unmap gives the buffer back to OpenGL.
func (g *GLBuffer) Unmap(ctx context.Context, s core.Stream) error {
	const call = "Unmap"
	if err := g.usable(ctx, call); err != nil {
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
			_ = e.Wait(ctx) // an error of the work is its stream's to report
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	unserved := g.relay.Do(ctx, func() { err = g.unmapNow(q) })
	return cmp.Or(unserved, err)
}

// checkUnused fails unless the buffer is mapped and nobody has a tensor on it. g.mu is held.
func (g *GLBuffer) checkUnused(call string) error {
	switch {
	case g.closed:
		return g.device.closed(call, "registered buffer")
	case !g.mapped:
		return g.device.Errorf(core.ErrInvalid, call, "the buffer is not mapped")
	case g.tensors:
		return g.device.Errorf(core.ErrInvalid, call, "tensors on the buffer are open: close them first")
	}
	return nil
}

// unmapNow unmaps it, on the thread of OpenGL's context.
func (g *GLBuffer) unmapNow(q *queue) error {
	const call = "Unmap"
	d := g.device
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.checkUnused(call); err != nil {
		return err
	}
	return q.enqueue(call, func() error {
		s := d.context.UnmapGL(g.resource, q.raw)
		over := s.OK()
		if !over { // that may be earlier work, and the buffer unmapped nevertheless
			_, _, still := d.context.MappedGL(g.resource)
			over = !still.OK()
		}
		if over {
			g.mapped, g.pending = false, nil
		}
		return d.checkGL(s, "a buffer of OpenGL")
	})
}

// Close ends the registration.
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
		case g.tensors, g.mapped && d.lostError() == nil: // nothing unmaps on a device that is lost
			err = d.Errorf(core.ErrInvalid, "Close", "the buffer is mapped: close its tensors and call Unmap first")
			return
		}
		g.closed = true
		err = d.checkGL(d.context.UnregisterGL(g.resource), "a buffer of OpenGL")
		d.Drop()
		d.backend.buffers.Add(-1)
	})
	if ctx.Err() != nil && errors.Is(unserved, ctx.Err()) {
		return g.relay.Untaken("Close")
	}
	return cmp.Or(unserved, err)
}

// checkGL is check for calls that need a context of OpenGL.
func (d *device) checkGL(s Status, format string, args ...any) error {
	switch s.Kind {
	case NoGraphics:
		return d.backend.statusf(core.ErrInvalid, s, "no context of OpenGL is current where run runs it")
	case BadValue, BadHandle:
		return d.backend.statusf(core.ErrInvalid, s, "the context has no such buffer with storage")
	case BadDevice:
		return d.backend.statusf(core.ErrDevice, s, "the context of OpenGL is not on %v", d.ID())
	}
	return d.check(s, format, args...)
}
