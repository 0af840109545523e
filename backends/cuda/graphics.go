//go:build cuda && linux && cgo

package cuda

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/relay"
	"github.com/dlx-go/dlx/core"
)

var liveGLBuffers = core.NewLiveCounter("cuda.GLBuffer")

type glBuffer struct {
	device *device
	relay  *relay.Relay
	access GLAccess

	mu       sync.Mutex // never held while something waits for the relay
	resource driver.Graphics
	closed   bool
	mapped   bool
	tensors  bool         // the memory of the mapping is in use
	pending  []core.Event // work on it that may be unfinished
}

func registerGLBuffer(run func(f func()), d core.Device, buffer uint32, access GLAccess) (*GLBuffer, error) {
	const call = "RegisterGLBuffer"
	inner, err := deviceOf(call, d)
	switch {
	case err != nil:
		return nil, err
	case run == nil:
		return nil, errorf(core.ErrInvalid, call, "run is nil")
	case access > GLWriteDiscard:
		return nil, errorf(core.ErrInvalid, call, "access is %d", access)
	}
	g := &GLBuffer{glBuffer{device: inner, relay: relay.New(name, run), access: access}}
	err = inner.open(call, func() error {
		var s driver.Status
		if err := g.relay.First(func() { g.resource, s = inner.context.RegisterGLBuffer(buffer, registerFlags[access]) }); err != nil {
			return err
		}
		return inner.checkGL(s, "cuGraphicsGLRegisterBuffer", "buffer %d", buffer)
	})
	if err != nil {
		return nil, err
	}
	liveGLBuffers.Add(1)
	return g, nil
}

// registerFlags are those of cuGraphicsGLRegisterBuffer.
var registerFlags = [...]uint32{
	GLReadOnly: driver.GraphicsReadOnly, GLWriteDiscard: driver.GraphicsWriteDiscard,
}

func (g *glBuffer) mapOn(ctx context.Context, s core.Stream, spec core.Spec) (*core.Tensor, error) {
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
func (g *glBuffer) usable(ctx context.Context, call string) error {
	if g.device == nil {
		return errorf(core.ErrClosed, call, "the buffer is not registered")
	}
	return ctx.Err()
}

// mapTensor does it, on the thread of OpenGL's context.
func (g *glBuffer) mapTensor(q *queue, spec core.Spec) (*core.Tensor, error) {
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
func (g *glBuffer) mapNow(q *queue) (core.Memory, error) {
	const call = "Map"
	d := g.device
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closed:
		return core.Memory{}, errorf(core.ErrClosed, call, "the registered buffer was closed")
	case g.mapped:
		return core.Memory{}, errorf(core.ErrInvalid, call, "the buffer is mapped already: close its tensors and call Unmap first")
	}
	var address uintptr
	var size int64
	err := q.enqueue(call, func() error {
		if err := d.checkGL(d.context.Map(g.resource, q.raw), "cuGraphicsMapResources", "a buffer of OpenGL"); err != nil {
			return err
		}
		var s driver.Status
		if address, size, s = d.context.MappedPointer(g.resource); s != driver.Success {
			d.context.Unmap(g.resource, q.raw)
		}
		return d.checkGL(s, "cuGraphicsResourceGetMappedPointer", "a buffer of OpenGL")
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

func (g *glBuffer) unmapOn(ctx context.Context, s core.Stream) error {
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
func (g *glBuffer) checkUnused(call string) error {
	switch {
	case g.closed:
		return errorf(core.ErrClosed, call, "the registered buffer was closed")
	case !g.mapped:
		return errorf(core.ErrInvalid, call, "the buffer is not mapped")
	case g.tensors:
		return errorf(core.ErrInvalid, call, "tensors on the buffer are open: close them first")
	}
	return nil
}

// unmapNow unmaps it, on the thread of OpenGL's context.
func (g *glBuffer) unmapNow(q *queue) error {
	const call = "Unmap"
	d := g.device
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := g.checkUnused(call); err != nil {
		return err
	}
	return q.enqueue(call, func() error {
		s := d.context.Unmap(g.resource, q.raw)
		over := s == driver.Success
		if !over { // that may be earlier work, and the buffer unmapped nevertheless
			_, _, still := d.context.MappedPointer(g.resource)
			over = still != driver.Success
		}
		if over {
			g.mapped, g.pending = false, nil
		}
		return d.checkGL(s, "cuGraphicsUnmapResources", "a buffer of OpenGL")
	})
}

func (g *glBuffer) close() (err error) {
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
			err = errorf(core.ErrInvalid, "Close", "the buffer is mapped: close its tensors and call Unmap first")
			return
		}
		g.closed = true
		err = d.checkGL(d.context.Unregister(g.resource), "cuGraphicsUnregisterResource", "a buffer of OpenGL")
		d.Drop()
		liveGLBuffers.Add(-1)
	})
	if ctx.Err() != nil && errors.Is(unserved, ctx.Err()) {
		return g.relay.Untaken("Close")
	}
	return cmp.Or(unserved, err)
}

// checkGL is check for calls that need a context of OpenGL.
func (d *device) checkGL(s driver.Status, call, format string, args ...any) error {
	switch s {
	case driver.InvalidGraphicsContext:
		return statusf(core.ErrInvalid, s, call, "no context of OpenGL is current where run runs it")
	case driver.InvalidValue, driver.InvalidHandle:
		return statusf(core.ErrInvalid, s, call, "the context has no such buffer with storage")
	case driver.InvalidDevice, driver.OperatingSystem:
		return statusf(core.ErrDevice, s, call, "the context of OpenGL is not on %v", d.ID())
	}
	return d.check(s, call, format, args...)
}
