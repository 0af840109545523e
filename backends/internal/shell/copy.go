package shell

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// StreamOf is s as a stream of the device, whose streams are of the type Q.
func StreamOf[Q core.Stream](d *Device, call string, s core.Stream) (Q, error) {
	q, ok := s.(Q)
	if !ok || q.Device() != d.self {
		var none Q
		return none, d.Errorf(core.ErrDevice, call, "the stream belongs to another device")
	}
	return q, nil
}

// Side is where one tensor of a copy lies, as a backend sees it.
type Side interface {
	// Host is where the host sees the byte that offsets count from; 0 if it does not.
	Host() uintptr
	// Ours reports whether the device uses the memory, which else only the host does.
	Ours() bool
}

// Copy is Copy of a device whose streams are of the type Q, apart from the copying: it
// checks the arguments, finds both sides, and orders a copy of elements onto themselves.
// work does what is left to do, with the zero value of Q for a nil stream.
func Copy[Q core.Stream, S Side](ctx context.Context, d *Device, s core.Stream, dst, src *core.Tensor, side func(*core.Tensor) (S, error), work func(q Q, dst, src S) error) error {
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
	to, err := side(dst)
	if err != nil {
		return err
	}
	from, err := side(src)
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
		return d.Errorf(core.ErrDevice, call, "dst and src both lie in memory of the host: copy through the device cpu")
	}
	return work(q, to, from)
}

// Locate returns the memory of t and whether it is the host's. It refuses memory of
// another device; a tensor that belongs to no opened device may be of this one.
func (d *Device) Locate(t *core.Tensor) (m core.Memory, host bool, err error) {
	b, err := t.Buffer()
	if err != nil {
		return m, false, err
	}
	m = b.Memory()
	host = m.ID.Type.HostAccessible()
	if !host && (m.ID != d.Info.ID || m.Device != nil && m.Device != d.self) {
		return m, false, d.Errorf(core.ErrDevice, "Copy", "%v lies on another device than this %v: copy through the host, or see package exchange", t, d.Info.ID)
	}
	return m, host, nil
}

// Fence orders what the host did in its turn on a stream before whoever learns from the
// driver that the turn is over: Go's memory model knows nothing of the driver's events.
type Fence struct{ passed atomic.Int64 }

// Pass is called when the host has done its work, before the driver is told.
func (f *Fence) Pass() { f.passed.Add(1) }

// See is called when the driver says that work is over.
func (f *Fence) See() { f.passed.Load() }

// Lending keeps streams of the device's own, for copies that need one for a while. The
// zero value has none.
type Lending[Q any] struct {
	idle sync.Cond // lent has become less
	free []Q
	lent int
}

// Borrow lends a stream, which open makes with Mu held if none is free.
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

// GiveBack ends a loan. The stream has no work.
func (l *Lending[Q]) GiveBack(d *Device, q Q) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	l.free = append(l.free, q)
	l.lent--
	l.idle.L = &d.Mu
	l.idle.Broadcast()
}

// All waits until no stream is lent, and returns all of them. Mu is held, and the device
// is closed.
func (l *Lending[Q]) All(d *Device) []Q {
	l.idle.L = &d.Mu
	for l.lent > 0 {
		l.idle.Wait()
	}
	return l.free
}
