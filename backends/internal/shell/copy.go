package shell

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// StreamOf returns s as a stream of the device, whose streams have the type Q. It fails with ErrDevice for a
// stream of another device.
func StreamOf[Q core.Stream](d *Device, call string, s core.Stream) (Q, error) {
	q, ok := s.(Q)
	if !ok || q.Device() != d.self {
		var none Q
		return none, d.Errorf(core.ErrDevice, call, "the stream belongs to another device")
	}
	return q, nil
}

// Operand is the memory of one tensor of a copy, as a backend sees it.
type Operand interface {
	// Host is the address at which the host sees the byte that offsets count from, or 0.
	Host() uintptr
	// Ours reports whether the memory is the device's. All other memory is the host's.
	Ours() bool
}

// Copy does what Copy is on every device, whose streams have the type Q: it checks the arguments, finds both
// operands, and keeps the order of a copy of elements onto themselves, which needs no more. For every other
// copy it calls work, with the zero value of Q for a nil stream.
func Copy[Q core.Stream, S Operand](ctx context.Context, d *Device, s core.Stream, dst, src *core.Tensor, operand func(*core.Tensor) (S, error), work func(q Q, dst, src S) error) error {
	const call = "Copy"
	if err := d.Begin(ctx, call); err != nil {
		return err
	}
	var q Q
	if s != nil {
		var err error
		if q, err = StreamOf[Q](d, call, s); err != nil {
			return err
		}
	}
	same, err := core.CheckCopy(dst, src)
	if err != nil {
		return err
	}
	to, err := operand(dst)
	if err != nil {
		return err
	}
	from, err := operand(src)
	if err != nil {
		return err
	}
	if !same {
		if same, err = core.CheckCopyOnHost(dst, src, to.Host(), from.Host()); err != nil {
			return err
		}
	}
	switch {
	case same:
		return stream.SubmitSame(ctx, s, dst, src)
	case dst.NumElements() == 0:
		return nil
	case !to.Ours() && !from.Ours():
		return d.Errorf(core.ErrDevice, call, "dst and src both lie in host memory: copy by the device cpu")
	}
	return work(q, to, from)
}

// Locate returns the memory of t, and reports whether it is the host's. It refuses memory of another device.
// A tensor that belongs to no opened device may be memory of this one.
func (d *Device) Locate(t *core.Tensor) (m core.Memory, host bool, err error) {
	b, err := t.Buffer()
	if err != nil {
		return m, false, err
	}
	m = b.Memory()
	host = m.ID.Type.HostAccessible()
	if !host && (m.ID != d.Info.ID || m.Device != nil && m.Device != d.self) {
		return m, false, d.Errorf(core.ErrDevice, "Copy", "%v lies on another device, not on this %v: move it by exchange.To, or copy through the host", t, d.Info.ID)
	}
	return m, host, nil
}

// Fence orders work of the host before all code that learns from the driver that the work is done. Go's
// memory model does not know the driver's events.
type Fence struct{ passed atomic.Int64 }

// Pass must be called after the host has done its work and before the driver is told.
func (f *Fence) Pass() { f.passed.Add(1) }

// See must be called after the driver has reported that work is done.
func (f *Fence) See() { f.passed.Load() }

// Lending keeps streams of the device itself, and lends them to copies without a stream. The zero value has
// no streams.
type Lending[Q any] struct {
	idle sync.Cond // signalled when lent decreases
	free []Q
	lent int
}

// Borrow lends a stream. If none is free, open makes one with Mu held.
func (l *Lending[Q]) Borrow(d *Device, open func() (Q, error)) (q Q, err error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen("Copy"); err != nil {
		return q, err
	}
	if n := len(l.free); n > 0 {
		q, l.free = l.free[n-1], l.free[:n-1]
	} else if q, err = open(); err != nil {
		return q, err
	}
	l.lent++
	return q, nil
}

// GiveBack returns a stream that was lent. It must have no unfinished work.
func (l *Lending[Q]) GiveBack(d *Device, q Q) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	l.free = append(l.free, q)
	l.lent--
	l.idle.L = &d.Mu
	l.idle.Broadcast()
}

// All waits until all streams were given back, and returns them. Mu is held, and the device is closed.
func (l *Lending[Q]) All(d *Device) []Q {
	l.idle.L = &d.Mu
	for l.lent > 0 {
		l.idle.Wait()
	}
	return l.free
}
