package cudalike

import (
	"context"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
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
		if err := x.hold(call); err != nil {
			return err
		}
		defer x.Drop()
	}
	same, err := backendkit.CheckCopy(dst, src)
	if err != nil {
		return err
	}
	var q *queue
	if s != nil {
		var ok bool
		if q, ok = s.(*queue); !ok || q.device != d && q.device != p {
			return d.Errorf(core.ErrDevice, call, "the stream belongs to neither %v nor %v", d.ID(), p.ID())
		}
	}
	dstOnDevice, err := d.onDevice(call, "dst", dst)
	if err != nil {
		return err
	}
	srcOnDevice, err := p.onDevice(call, "src", src)
	switch {
	case err != nil:
		return err
	case same:
		return stream.SubmitSame(ctx, s, dst, src)
	case dst.NumElements() == 0:
		return nil
	}
	// If one tensor is in host memory, the device of the other can copy alone.
	enqueue := func(q *queue) error { return d.copyFor(ctx, q, dst, src) }
	switch {
	case dstOnDevice && srcOnDevice:
		c := peerCopy{d, p, dst, src}
		if err := c.verify(call); err != nil {
			return err
		}
		if err := c.enableAccess(); err != nil {
			return err
		}
		enqueue = func(q *queue) error { return c.enqueue(ctx, q) }
	case srcOnDevice:
		enqueue = func(q *queue) error { return p.copyFor(ctx, q, dst, src) }
	}
	if q != nil {
		return enqueue(q)
	}
	return d.runAndWait(ctx, enqueue)
}

// onDevice reports whether a tensor lies in memory of the device, and not in host memory. It fails with ErrDevice
// for memory of another device. name is that of the argument.
func (d *device) onDevice(call, name string, t *core.Tensor) (bool, error) {
	if t.DeviceID().Type.HostAccessible() {
		return false, nil
	}
	if t.DeviceID() != d.ID() || t.Device() != nil && t.Device() != d {
		return false, d.Errorf(core.ErrDevice, call, "%s, %v, does not belong to %v: pass the core.Device that it belongs to, or move it by exchange.To", name, t, d.ID())
	}
	return true, nil
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
		if err := x.checkPlace(call, x.Tensor, b.Memory().Handle+uintptr(x.low), x.high-x.low); err != nil {
			return err
		}
	}
	return nil
}

// enqueue enqueues the copy in the fastest way that is possible. q is a stream of either device.
func (c peerCopy) enqueue(ctx context.Context, q *queue) error {
	geometry, bits := strided.OfBits(c.dst, c.src)
	n, contiguous := geometry.Contiguous()
	switch {
	case bits:
	case contiguous:
		return c.submit(ctx, q, geometry, func(p PeerCopy) Status {
			return q.device.context.CopyPeer(p, n, q.raw)
		})
	case !c.to.backend.NoPeerBoxes && fewBoxes(geometry):
		box, at := geometry.Boxes()
		return c.submit(ctx, q, at, func(p PeerCopy) Status {
			return q.device.context.CopyPeerBox(p, box, q.raw)
		})
	}
	return c.pack(ctx, q)
}

// submit calls enqueue for each piece of the copy.
func (c peerCopy) submit(ctx context.Context, q *queue, pieces strided.Copy, enqueue func(PeerCopy) Status) error {
	dst, err := c.dst.Buffer()
	if err != nil {
		return err
	}
	src, err := c.src.Buffer()
	if err != nil {
		return err
	}
	return q.submit(ctx, "CopyPeer", []*core.Tensor{c.dst}, c.src, func() error {
		for to, from := range pieces.Pieces() {
			s := enqueue(PeerCopy{
				To: c.to.context.ID(), Dst: dst.Memory().Handle + uintptr(to),
				From: c.from.context.ID(), Src: src.Memory().Handle + uintptr(from),
			})
			if err := q.device.check(s, "a copy from %v to %v", c.from.ID(), c.to.ID()); err != nil {
				return err
			}
		}
		return nil
	})
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
	if err := (peerCopy{c.to, c.from, dst.bytes, src.bytes}).enqueue(ctx, q); err != nil {
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
