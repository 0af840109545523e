package devicebase

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// StreamOf returns s as a stream of the device, whose streams have the type Q. It fails with ErrDevice for a
// stream of another device.
func StreamOf[Q core.Stream](d *Device, call string, s core.Stream) (Q, error) {
	q, ok := s.(Q)
	if !ok || q.Device() != d.self {
		var none Q
		return none, d.Errorf(core.ErrDevice, call, "the stream is not one of %v as this core.Device has opened it: make one by its NewStream", d.Info.ID)
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

// BeginCopy does what Copy does on every device, whose streams have the type Q: it checks the arguments, finds both
// operands, and keeps the order of a copy of elements onto themselves, which needs no more. For every other copy it
// returns todo, with the operands, and the zero value of Q for a nil stream; the device is held then, and the caller calls Drop.
func BeginCopy[Q core.Stream, S Operand](ctx context.Context, d *Device, s core.Stream, dst, src *core.Tensor, operand func(*core.Tensor) (S, error)) (q Q, p Pair[S], todo bool, err error) {
	if q, err = begin[Q](ctx, d, "Copy", s); err != nil {
		return q, p, false, err
	}
	defer func() { d.dropUnless(todo) }()
	p, needs, err := check(d, "Copy", dst, src, operand)
	if err == nil && needs == order {
		err = stream.SubmitSame(ctx, s, dst, src)
	}
	return q, p, err == nil && needs == all, err
}

// BeginCopyPeer does what CopyPeer does on every device d, as BeginCopy does for Copy. dst lies on d or the host, src on peer or
// the host, and s is a stream of either device. The devices are held meanwhile.
func BeginCopyPeer[Q core.Stream](ctx context.Context, d, peer *Device, s core.Stream, dst, src *core.Tensor) (q Q, todo bool, err error) {
	const call = "CopyPeer"
	same, err := backendkit.CheckCopy(dst, src)
	if err != nil {
		return q, false, err
	}
	if s != nil {
		own, ok := s.(Q)
		if !ok || own.Device() != d.self && own.Device() != peer.self {
			return q, false, d.Errorf(core.ErrDevice, call, "the stream belongs to neither %v nor %v", d.ID(), peer.ID())
		}
		q = own
	}
	for _, x := range []struct {
		*Device
		*core.Tensor
		name string
	}{{d, dst, "dst"}, {peer, src, "src"}} {
		id := x.DeviceID()
		if !id.Type.HostAccessible() && (id != x.ID() || x.Tensor.Device() != nil && x.Tensor.Device() != x.self) {
			return q, false, d.Errorf(core.ErrDevice, call, "%s, %v, does not belong to %v: pass the core.Device that it belongs to, or move it by exchange.To", x.name, x.Tensor, x.ID())
		}
	}
	if same {
		return q, false, stream.SubmitSame(ctx, s, dst, src)
	}
	return q, dst.NumElements() > 0, nil
}

// Pair is the operands of one copy.
type Pair[S Operand] struct{ Dst, Src S }

// CopyBatch does what CopyBatch does on every device, as BeginCopy does for Copy. It calls work with copies that can be
// made in any order.
func CopyBatch[Q core.Stream, S Operand](ctx context.Context, d *Device, s core.Stream, dst, src []*core.Tensor, operand func(*core.Tensor) (S, error), work func(q Q, pairs []Pair[S]) error) error {
	const call = "CopyBatch"
	q, err := begin[Q](ctx, d, call, s)
	if err != nil {
		return err
	}
	defer d.Drop()
	if len(dst) != len(src) {
		return d.Errorf(core.ErrInvalid, call, "there are %d tensors to copy to and %d to copy from", len(dst), len(src))
	}
	pairs, kinds := make([]Pair[S], len(dst)), make([]need, len(dst))
	for i := range dst {
		if pairs[i], kinds[i], err = check(d, call, dst[i], src[i], operand); err != nil {
			return err
		}
	}
	independent := backendkit.Independent(dst, src)
	for i, p := range pairs {
		independent = independent && !hidden(p.Dst, dst[i]) && !hidden(p.Src, src[i])
	}
	var together []Pair[S]
	for i, p := range pairs {
		switch {
		case kinds[i] == order:
			err = stream.SubmitSame(ctx, s, dst[i], src[i])
		case kinds[i] == nothing:
		case independent:
			together = append(together, p)
		default:
			err = work(q, pairs[i:i+1])
		}
		if err != nil {
			return err
		}
	}
	if len(together) == 0 {
		return nil
	}
	return work(q, together)
}

// hidden reports whether only the device knows where the host sees the memory of t, which core cannot compare then.
func hidden[S Operand](o S, t *core.Tensor) bool {
	if !o.Ours() || o.Host() == 0 {
		return false
	}
	b, err := t.Buffer()
	return err != nil || b.Memory().Host == 0
}

// begin checks a copy's device and its stream. It holds the device unless it fails.
func begin[Q core.Stream](ctx context.Context, d *Device, call string, s core.Stream) (q Q, err error) {
	if err := ctx.Err(); err != nil {
		return q, err
	}
	if err := d.Hold(call); err != nil || s == nil {
		return q, err
	}
	q, err = StreamOf[Q](d, call, s)
	d.dropUnless(err == nil)
	return q, err
}

// dropUnless ends what begin began, unless there is work to do.
func (d *Device) dropUnless(todo bool) {
	if !todo {
		d.Drop()
	}
}

// need is what a copy needs.
type need uint8

const (
	nothing need = iota // there are no elements
	order               // dst and src are the same elements
	all                 // the bytes must be copied
)

// check checks the tensors of a copy, and returns its operands.
func check[S Operand](d *Device, call string, dst, src *core.Tensor, operand func(*core.Tensor) (S, error)) (p Pair[S], n need, err error) {
	same, err := backendkit.CheckCopy(dst, src)
	if err != nil {
		return p, nothing, err
	}
	if p.Dst, err = operand(dst); err != nil {
		return p, nothing, err
	}
	if p.Src, err = operand(src); err != nil {
		return p, nothing, err
	}
	if !same {
		if same, err = backendkit.CheckCopyOnHost(dst, src, p.Dst.Host(), p.Src.Host()); err != nil {
			return p, nothing, err
		}
	}
	switch {
	case same:
		return p, order, nil
	case dst.NumElements() == 0:
		return p, nothing, nil
	case !p.Dst.Ours() && !p.Src.Ours():
		return p, nothing, d.Errorf(core.ErrDevice, call, "dst and src both lie in host memory: copy by the device cpu")
	}
	return p, all, nil
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
