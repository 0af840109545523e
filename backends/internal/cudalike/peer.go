package cudalike

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// CanPeer asks the driver. Another opening of the same device is a peer, too.
func (d *device) CanPeer(peer core.Device) error {
	_, err := d.peer("CanPeer", peer)
	return err
}

// peer is peer as an opened device whose memory this one reaches.
func (d *device) peer(call string, peer core.Device) (*device, error) {
	p, err := d.backend.deviceOf(call, peer)
	if err != nil {
		return nil, err
	}
	if err := d.checkOpen(call); err != nil {
		return nil, err
	}
	if err := p.checkOpen(call); err != nil || p.ordinal == d.ordinal {
		return p, err
	}
	can, s := d.backend.driver.CanAccessPeer(d.ordinal, p.ordinal)
	if err := d.check(s, "%v of %v", p.ID(), d.ID()); err != nil {
		return nil, err
	}
	if !can {
		return nil, d.Errorf(core.ErrNotSupported, call, "%v does not reach memory of %v: no link of the machine lets it", d.ID(), p.ID())
	}
	return p, nil
}

// CopyPeer copies on a stream of either device. Contiguous elements and few boxes go
// from card to card as they are; others are gathered on the one and spread on the
// other, by copies of these devices. The devices get
// access to each other's memory with the first copy, for as long as their primary
// contexts live: others in the process may rely on it then.
func (d *device) CopyPeer(ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
	const call = "CopyPeer"
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := d.peer(call, peer)
	if err != nil {
		return err
	}
	for _, x := range []*device{d, p} {
		if err := x.hold(call); err != nil {
			return err
		}
		defer x.Drop()
	}
	same, err := core.CheckCopy(dst, src)
	if err != nil {
		return err
	}
	var q *queue
	if s != nil {
		var ok bool
		if q, ok = s.(*queue); !ok || q.device != d && q.device != p {
			return d.Errorf(core.ErrDevice, call, "the stream belongs to another device than %v and %v", d.ID(), p.ID())
		}
	}
	near, err := d.beside(call, "dst", dst)
	if err != nil {
		return err
	}
	far, err := p.beside(call, "src", src)
	switch {
	case err != nil:
		return err
	case same:
		return stream.SubmitSame(ctx, s, dst, src)
	case dst.NumElements() == 0:
		return nil
	}
	copies := func(q *queue) error { return d.aside(ctx, q, dst, src) }
	switch {
	case near && far:
		c := peerCopy{d, p, dst, src}
		if err := c.verify(call); err != nil {
			return err
		}
		if err := d.reach(p); err != nil {
			return err
		}
		copies = func(q *queue) error { return c.enqueue(ctx, q) }
	case far:
		copies = func(q *queue) error { return p.aside(ctx, q, dst, src) }
	}
	if q != nil {
		return copies(q)
	}
	return d.waited(ctx, copies)
}

// beside reports whether a tensor lies in memory of the device's card, and not in the
// host's, which both devices reach. It refuses memory of others.
func (d *device) beside(call, side string, t *core.Tensor) (bool, error) {
	if t.DeviceID().Type.HostAccessible() {
		return false, nil
	}
	if t.DeviceID() != d.ID() || t.Device() != nil && t.Device() != d {
		return false, d.Errorf(core.ErrDevice, call, "%s, %v, does not belong to this opening of %v", side, t, d.ID())
	}
	return true, nil
}

// reach lets the driver copy between two devices without the host, once for both directions.
func (d *device) reach(p *device) error {
	if p.context.ID() == d.context.ID() {
		return nil
	}
	for _, pair := range [][2]*device{{d, p}, {p, d}} {
		if err := pair[0].check(pair[0].context.EnablePeer(pair[1].context.ID()), "to %v for %v", pair[1].ID(), pair[0].ID()); err != nil {
			return err
		}
	}
	return nil
}

// peerCopy is a copy that was checked.
type peerCopy struct {
	to, from *device
	dst, src *core.Tensor
}

// verify proves that memory which another library says to be the driver's is.
func (c peerCopy) verify(call string) error {
	geometry, bits := strided.OfBits(c.dst, c.src)
	r := geometry.ByteRange(bits)
	for _, x := range []struct {
		*device
		*core.Tensor
		low, high int64
	}{{c.to, c.dst, r.DstLow, r.DstHigh}, {c.from, c.src, r.SrcLow, r.SrcHigh}} {
		b, err := x.Buffer()
		if err != nil {
			return err
		}
		if b.Memory().Device != nil {
			continue
		}
		if err := x.prove(call, x.Tensor, b.Memory().Handle+uintptr(x.low), x.high-x.low); err != nil {
			return err
		}
	}
	return nil
}

// enqueue picks the way, and enqueues it on q, a stream of either device.
func (c peerCopy) enqueue(ctx context.Context, q *queue) error {
	geometry, bits := strided.OfBits(c.dst, c.src)
	n, contiguous := geometry.Contiguous()
	switch {
	case bits:
	case contiguous:
		return c.submit(ctx, q, geometry, func(p PeerCopy) Status {
			return q.device.context.CopyPeer(p, n, q.raw)
		})
	case fewBoxes(geometry):
		box, at := geometry.Boxes()
		return c.submit(ctx, q, at, func(p PeerCopy) Status {
			return q.device.context.CopyPeerBox(p, box, q.raw)
		})
	}
	return c.staged(ctx, q)
}

// submit enqueues each piece of a copy.
func (c peerCopy) submit(ctx context.Context, q *queue, pieces strided.Copy, enqueue func(PeerCopy) Status) error {
	dst, err := c.dst.Buffer()
	if err != nil {
		return err
	}
	src, err := c.src.Buffer()
	if err != nil {
		return err
	}
	return q.submit(ctx, stream.Submit, "CopyPeer", []*core.Tensor{c.dst}, c.src, func() error {
		for to, from := range pieces.Pieces() {
			s := enqueue(PeerCopy{
				To: c.to.context.ID(), Dst: dst.Memory().Handle + uintptr(to),
				From: c.from.context.ID(), Src: src.Memory().Handle + uintptr(from),
			})
			if err := q.device.check(s, "from %v to %v", c.from.ID(), c.to.ID()); err != nil {
				return err
			}
		}
		return nil
	})
}

// staged gathers the elements on the one device, carries them over, and spreads them on the other.
func (c peerCopy) staged(ctx context.Context, q *queue) error {
	far, err := c.from.packed(ctx, c.src)
	if err != nil {
		return err
	}
	defer far.bytes.Close()
	defer far.elements.Close()
	near, err := c.to.packed(ctx, c.dst)
	if err != nil {
		return err
	}
	defer near.bytes.Close()
	defer near.elements.Close()
	if err := c.from.aside(ctx, q, far.elements, c.src); err != nil {
		return err
	}
	if err := (peerCopy{c.to, c.from, near.bytes, far.bytes}).enqueue(ctx, q); err != nil {
		return err
	}
	return c.to.aside(ctx, q, c.dst, near.elements)
}

// packed is fresh memory for the elements of a tensor, row-major, and its bytes.
type packed struct{ elements, bytes *core.Tensor }

func (d *device) packed(ctx context.Context, t *core.Tensor) (packed, error) {
	size := t.NumBytes()
	bytes, err := core.Empty(ctx, d, core.TypeUint8, []int64{size}, core.AllocOptions{})
	if err != nil {
		return packed{}, err
	}
	var elements *core.Tensor
	b, err := bytes.Buffer()
	if err == nil {
		elements, err = core.NewTensor(b, core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded})
	}
	if err != nil {
		bytes.Close()
		return packed{}, err
	}
	return packed{elements, bytes}, nil
}

// aside copies within this device as a part of the work of q. Where q is another
// device's, a stream of this one takes its place meanwhile.
func (d *device) aside(ctx context.Context, q *queue, dst, src *core.Tensor) error {
	if q.device == d {
		return d.Copy(ctx, q, dst, src)
	}
	own, err := d.borrow()
	if err != nil {
		return err
	}
	done, err := d.between(ctx, q, own, dst, src)
	if err != nil {
		_ = own.Synchronize(context.WithoutCancel(ctx)) // the error comes first
		d.giveBack(own)
		return err
	}
	d.Reaper.After([]core.Event{done}, func() { d.giveBack(own) })
	return nil
}

// between copies on own, after the work of q so far and before its later work.
func (d *device) between(ctx context.Context, q, own *queue, dst, src *core.Tensor) (done core.Event, err error) {
	before, err := q.mark()
	if err != nil {
		return nil, err
	}
	if err := own.Wait(before); err != nil {
		return nil, err
	}
	if err := d.Copy(ctx, own, dst, src); err != nil {
		return nil, err
	}
	if done, err = own.Record(); err != nil {
		return nil, err
	}
	return done, q.Wait(done)
}
