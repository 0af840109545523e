//go:build opencl && linux && cgo

package opencl

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// stage copies between the host and memory that it does not reach, where neither
// one plain nor a few rectangular commands will do: elements are packed on either
// side where they are not, and cross in one piece. What lies in between is closed
// at once, and stays until the work is done. With apart, the two sides must not meet in
// one command, and what lies in between keeps them so.
func (d *device) stage(ctx context.Context, q *queue, to, from side, apart bool) error {
	src := from.tensor
	if apart || !src.Layout().IsContiguous() {
		packed, err := d.packed(ctx, src, from.mem != 0)
		if err != nil {
			return err
		}
		defer func() { _ = packed.Close() }() // never fails
		if err := d.step(ctx, q, packed, src); err != nil {
			return err
		}
		src = packed
	}
	dst := to.tensor
	if dst.Layout().IsContiguous() {
		return d.step(ctx, q, dst, src)
	}
	packed, err := d.packed(ctx, dst, to.mem != 0)
	if err != nil {
		return err
	}
	defer func() { _ = packed.Close() }()
	if err := d.step(ctx, q, packed, src); err != nil {
		return err
	}
	return d.step(ctx, q, dst, packed)
}

// packed is a row-major tensor like t, on the device or the host.
func (d *device) packed(ctx context.Context, t *core.Tensor, here bool) (*core.Tensor, error) {
	spec := core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded}
	if here {
		m, err := d.Alloc(ctx, t.NumBytes(), core.AllocOptions{})
		if err != nil {
			return nil, err
		}
		return wrap(m, spec)
	}
	room, err := core.FromSlice(make([]byte, t.NumBytes()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = room.Close() }()
	b, err := room.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, spec)
}

// wrap is core.Wrap, which frees the memory if it fails.
func wrap(m core.Memory, spec core.Spec) (*core.Tensor, error) {
	t, err := core.Wrap(m, spec)
	if err != nil {
		m.Free()
	}
	return t, err
}

// step copies between tensors of which both may lie on the host. It tells what work of
// the host failed with that src comes from.
func (d *device) step(ctx context.Context, q *queue, dst, src *core.Tensor) error {
	to, err := d.sideOf(dst)
	if err != nil {
		return err
	}
	from, err := d.sideOf(src)
	if err != nil {
		return err
	}
	var behind []*turn
	if e, ok := core.UnwrapEvent(src.Ready()).(*event); ok && q != nil && e.queue == q {
		behind = e.turns
	}
	return d.copy(ctx, q, to, from, behind...)
}
