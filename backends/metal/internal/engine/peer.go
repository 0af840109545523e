package engine

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// CanPeer returns nil for every open device of Metal.
func (d *device) CanPeer(peer core.Device) error {
	_, err := d.peerOf("CanPeer", peer)
	return err
}

// peerOf returns peer as a device of Metal, and fails if one of both is closed.
func (d *device) peerOf(call string, peer core.Device) (*device, error) {
	p, err := deviceOf(call, peer)
	if err != nil {
		return nil, err
	}
	if p.driver != d.driver {
		return nil, errorf(core.ErrDevice, call, "%v is a device of another driver", p.ID())
	}
	if err := d.IsOpen(call); err != nil {
		return nil, err
	}
	return p, p.IsOpen(call)
}

// CopyPeer copies through host memory that one GPU writes and the other reads. The GPUs wait for each other by shared
// events. If src is memory that the host reaches, or if both are the same GPU, no host memory is between. Metal's views of
// a buffer on another GPU (newRemoteBufferViewForDevice:) are not used: only some GPUs of the Mac Pro of 2019 have them.
//
// s is a stream of d or of peer.
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
	q, todo, err := devicebase.BeginCopyPeer[*queue](ctx, &d.Base.Device, &p.Base.Device, s, dst, src)
	if err != nil || !todo {
		return err
	}
	switch {
	case dst.DeviceID().Type.HostAccessible():
		return p.copyBeside(ctx, q, dst, src)
	case src.DeviceID().Type.HostAccessible():
		return d.copyBeside(ctx, q, dst, src)
	case d.id == p.id:
		return d.copyOfSame(ctx, q, dst, src)
	}
	seen, err := p.viewForPeer(ctx, q, src)
	if err != nil {
		return err
	}
	defer func() { _ = seen.Close() }() // never fails
	return d.copyBeside(ctx, q, dst, seen)
}

// viewForPeer returns a tensor on the host with the elements of src, which work before q's next item may still write. It
// is a view of src if the host reaches that, else of a copy. The caller closes it.
func (d *device) viewForPeer(ctx context.Context, q *queue, src *core.Tensor) (*core.Tensor, error) {
	o, err := d.OperandOf(src)
	if err != nil || o.At != 0 {
		return d.viewOf(ctx, src, err)
	}
	m, err := d.Alloc(ctx, src.NumBytes(), core.AllocOptions{HostVisible: true})
	if err != nil {
		return nil, err
	}
	packed, err := wrap(m, core.Spec{DType: src.DType(), Shape: src.Shape(), Flags: src.Flags() & core.FlagSubBytePadded})
	if err != nil {
		return nil, err
	}
	defer func() { _ = packed.Close() }()
	return d.viewOf(ctx, packed, d.copyBeside(ctx, q, packed, src))
}

// viewOf returns a tensor of the host over the memory of t, unless there is an error already. It has the order of t.
func (d *device) viewOf(ctx context.Context, t *core.Tensor, err error) (*core.Tensor, error) {
	if err != nil {
		return nil, err
	}
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	m, err := d.HostView(ctx, b)
	if err != nil {
		return nil, err
	}
	view, err := wrap(m, core.Spec{DType: t.DType(), Shape: t.Shape(), Strides: t.Layout().AppendStrides(nil),
		Offset: t.Offset() - b.Memory().Offset, Flags: t.Flags() &^ core.FlagCopied})
	if err != nil {
		return nil, err
	}
	if own, err := view.Buffer(); err == nil { // no other code can have closed it yet
		own.OrderWith(b, 0)
	}
	return view, nil
}

// wrap is core.Wrap, which frees the memory if it fails.
func wrap(m core.Memory, spec core.Spec) (*core.Tensor, error) {
	t, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
	}
	return t, err
}

// copyOfSame copies between memory of two opened devices that are one GPU.
func (d *device) copyOfSame(ctx context.Context, q *queue, dst, src *core.Tensor) error {
	b, err := src.Buffer()
	if err != nil {
		return err
	}
	to, err := d.OperandOf(dst)
	if err != nil {
		return err
	}
	o, err := d.lookUp("CopyPeer", driver.ID(b.Memory().Handle))
	if err != nil {
		return err
	}
	return d.copyInOrderOf(ctx, q, to, operand{Tensor: src, Object: o, At: o.host})
}

// copyBeside copies between the device and the host, in the order of q. If q is nil, it waits for the copy.
func (d *device) copyBeside(ctx context.Context, q *queue, dst, src *core.Tensor) error {
	to, err := d.OperandOf(dst)
	if err != nil {
		return err
	}
	from, err := d.OperandOf(src)
	if err != nil {
		return err
	}
	return d.copyInOrderOf(ctx, q, to, from)
}

// copyInOrderOf copies on q, if that is a stream of the device. Otherwise it copies on another stream of the device, after
// earlier work of q and before later work. If q is nil, it waits for the copy.
func (d *device) copyInOrderOf(ctx context.Context, q *queue, dst, src operand) error {
	if q == nil || q.device == d {
		return d.CopyBetween(ctx, q, dst, src)
	}
	before, err := q.Record()
	if err != nil {
		return err
	}
	own, err := d.Borrow()
	if err != nil {
		return err
	}
	_ = own.Wait(before) // an event that failed is over, and its errors are those of its own tensors
	err = d.CopyBetween(ctx, own, dst, src)
	own.Mu.Lock()
	done := own.At(own.Newest())
	own.Mu.Unlock()
	_ = q.Wait(done) // q is open, or the copy need not wait for it
	d.Reaper.After([]core.Event{done}, func() { d.GiveBack(own) })
	return err
}
