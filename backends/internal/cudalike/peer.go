package cudalike

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
)

// CanPeer returns nil for every device of this backend that is open: where devices cannot reach each other's memory, the
// driver copies through the host. A device that was opened twice is its own peer.
func (d *device) CanPeer(peer core.Device) error {
	_, err := d.peerOf("CanPeer", peer)
	return err
}

// peerOf returns peer as a device of this backend, and fails if one of both is closed.
func (d *device) peerOf(call string, peer core.Device) (*device, error) {
	p, err := d.backend.deviceOf(call, peer)
	if err != nil {
		return nil, err
	}
	if err := d.checkOpen(call); err != nil {
		return nil, err
	}
	return p, p.checkOpen(call)
}

// CopyPeer copies on a stream of either device. Contiguous elements and few boxes are copied from card to card.
// Other elements are packed on one device and unpacked on the other. The first copy gives the devices access to
// each other's memory, if they can have it. The access lasts as long as their primary contexts, since other code in the
// process may come to rely on it.
func (d *device) CopyPeer(ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
	const call = "CopyPeer"
	if err := ctx.Err(); err != nil {
		return err
	}
	p, err := d.peerOf(call, peer)
	if err != nil {
		return err
	}
	for _, x := range []*device{d, p} {
		if err := x.Hold(call); err != nil {
			return err
		}
		defer x.Drop()
	}
	q, todo, err := devicebase.BeginCopyPeer[*queue](ctx, &d.Device, &p.Device, s, dst, src)
	if err != nil || !todo {
		return err
	}
	// If one tensor is in host memory, the device of the other can copy alone.
	enqueue := func(q *queue) error { return d.copyFor(ctx, q, dst, src) }
	switch {
	case dst.DeviceID() == d.ID() && src.DeviceID() == p.ID():
		c := peerCopy{d, p, dst, src}
		if err := c.verify(call); err != nil {
			return err
		}
		if err := c.enableAccess(); err != nil {
			return err
		}
		enqueue = func(q *queue) error { return c.submit(ctx, q) }
	case src.DeviceID() == p.ID():
		enqueue = func(q *queue) error { return p.copyFor(ctx, q, dst, src) }
	}
	if q != nil {
		return enqueue(q)
	}
	return d.runAndWait(ctx, enqueue)
}

// peerCopy is a copy between memory of two devices, whose arguments were checked.
type peerCopy struct {
	to, from *device
	dst, src *core.Tensor
}

// enableAccess gives both devices access to each other's memory, so that the driver copies without the host. It also
// succeeds if they cannot have it.
func (c peerCopy) enableAccess() error {
	if c.to.context.ID() == c.from.context.ID() {
		return nil
	}
	for _, x := range []struct {
		*device
		peer *device
		*core.Tensor
	}{{c.to, c.from, c.dst}, {c.from, c.to, c.src}} {
		if err := x.check(x.context.EnablePeer(x.peer.context.ID()), "access of %v to %v", x.ID(), x.peer.ID()); err != nil {
			return err
		}
		b, err := x.Buffer()
		if err != nil {
			return err
		}
		if err := x.openTo(x.peer, b); err != nil {
			return err
		}
	}
	return nil
}

// verify fails if memory that another library calls the driver's is not.
func (c peerCopy) verify(call string) error {
	geometry, bits := copyplan.OfBits(c.dst, c.src)
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
		if err := x.checkPlace(call, x.Tensor, b.Memory().Handle+uintptr(x.low), x.high-x.low); err != nil {
			return err
		}
	}
	return nil
}

// submit submits the copy in the fastest way that is possible. q is a stream of either device.
func (c peerCopy) submit(ctx context.Context, q *queue) error {
	geometry, bits := copyplan.OfBits(c.dst, c.src)
	x := &peerCommands{peerCopy: c, queue: q, pieces: geometry}
	_, contiguous := geometry.Contiguous()
	switch {
	case bits:
		return c.pack(ctx, q)
	case contiguous:
	case !c.to.backend.NoPeerBoxes && fewBoxes(geometry):
		var box copyplan.Box
		box, x.pieces = geometry.Boxes()
		x.box = &box
	default:
		return c.pack(ctx, q)
	}
	s := &submission{queue: q, call: "CopyPeer", writes: []*core.Tensor{c.dst}, reads: []*core.Tensor{c.src}, commands: x}
	return s.submit(ctx)
}

// peerCommands are the commands of a copy between two devices: one for each piece.
type peerCommands struct {
	peerCopy
	queue  *queue
	pieces copyplan.Copy
	box    *copyplan.Box // what a piece is; nil for contiguous bytes
}

func (x *peerCommands) enqueue() error {
	dst, err := x.dst.Buffer()
	if err != nil {
		return err
	}
	src, err := x.src.Buffer()
	if err != nil {
		return err
	}
	d := x.queue.device
	for to, from := range x.pieces.Pieces() {
		p := PeerCopy{
			To: x.to.context.ID(), Dst: dst.Memory().Handle + uintptr(to),
			From: x.from.context.ID(), Src: src.Memory().Handle + uintptr(from),
		}
		var s Status
		if x.box == nil {
			s = d.context.CopyPeer(p, x.pieces.Elem, x.queue.raw)
		} else {
			s = d.context.CopyPeerBox(p, *x.box, x.queue.raw)
		}
		if err := d.check(s, "a copy from %v to %v", x.from.ID(), x.to.ID()); err != nil {
			return err
		}
	}
	return nil
}

// pack packs the elements on one device, copies the bytes, and unpacks them on the other device.
func (c peerCopy) pack(ctx context.Context, q *queue) error {
	src, err := c.from.newPacked(ctx, c.src)
	if err != nil {
		return err
	}
	defer src.close()
	dst, err := c.to.newPacked(ctx, c.dst)
	if err != nil {
		return err
	}
	defer dst.close()
	if err := c.from.copyFor(ctx, q, src.elements, c.src); err != nil {
		return err
	}
	if err := (peerCopy{c.to, c.from, dst.bytes, src.bytes}).submit(ctx, q); err != nil {
		return err
	}
	return c.to.copyFor(ctx, q, c.dst, dst.elements)
}

// packed is memory of a device for the elements of a tensor in row-major order, as elements and as bytes.
type packed struct{ elements, bytes *core.Tensor }

func (d *device) newPacked(ctx context.Context, t *core.Tensor) (packed, error) {
	size := t.NumBytes()
	bytes, err := core.Empty(ctx, d, core.TypeUint8, []int64{size}, core.AllocOptions{})
	if err != nil {
		return packed{}, err
	}
	var elements *core.Tensor
	b, err := bytes.Buffer()
	if err == nil {
		elements, err = core.NewTensor(b, packedSpec(t))
	}
	if err != nil {
		bytes.Close()
		return packed{}, err
	}
	return packed{elements, bytes}, nil
}

func (p packed) close() { _, _ = p.elements.Close(), p.bytes.Close() }

// copyFor copies within this device as a part of the work of q. If q belongs to another device, it copies on a
// stream of this one, in q's order.
func (d *device) copyFor(ctx context.Context, q *queue, dst, src *core.Tensor) error {
	if q.device == d {
		return d.Copy(ctx, q, dst, src)
	}
	own, err := d.borrow()
	if err != nil {
		return err
	}
	done, err := d.copyInOrder(ctx, q, own, dst, src)
	if err != nil {
		_ = own.Synchronize(context.WithoutCancel(ctx)) // err is the first error
		d.giveBack(own)
		return err
	}
	d.Reaper.After([]core.Event{done}, func() { d.giveBack(own) })
	return nil
}

// copyInOrder copies on the stream own, after the earlier work of q and before its later work.
func (d *device) copyInOrder(ctx context.Context, q, own *queue, dst, src *core.Tensor) (done core.Event, err error) {
	before, err := q.recordForOrder()
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
