//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/hostmem"
)

// stage copies between the host and memory that it cannot reach, if neither one plain command nor a few
// rectangular ones can do it. Elements are packed on each side that is not contiguous, and copied in one
// piece. Temporary tensors are closed at once; their memory stays until the work is done. With apart, no
// single command may use both operands, and temporary memory separates them. There is no pipeline of staging buffers:
// one command brings packed bytes between host and device, and the driver stages them as it needs.
func (d *device) stage(ctx context.Context, q *queue, to, from operand, apart bool) error {
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

// packed makes a row-major tensor like t, on the device if here is set, else on the host.
func (d *device) packed(ctx context.Context, t *core.Tensor, here bool) (*core.Tensor, error) {
	spec := core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded}
	if here {
		m, err := d.Alloc(ctx, t.NumBytes(), core.AllocOptions{})
		if err != nil {
			return nil, err
		}
		return wrap(m, spec)
	}
	if err := hostmem.Check(t.NumBytes()); err != nil {
		return nil, d.errorf(core.ErrOutOfMemory, "Copy", "%d bytes of the host cannot be allocated: %v", t.NumBytes(), err)
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

// step copies between tensors that may both lie on the host. The copy also reports errors of the host work
// that wrote src.
func (d *device) step(ctx context.Context, q *queue, dst, src *core.Tensor) error {
	to, err := d.operandOf(dst)
	if err != nil {
		return err
	}
	from, err := d.operandOf(src)
	if err != nil {
		return err
	}
	return d.copy(ctx, q, to, from, q.tasksOf(src)...)
}

// tasksOf returns the work of the host on q that wrote t. Work on q after it runs even if it fails. q may be nil.
func (q *queue) tasksOf(t *core.Tensor) []*hostTask {
	if e, ok := backendkit.UnwrapEvent(t.Ready()).(*event); ok && q != nil && e.queue == q {
		return e.hostTasks
	}
	return nil
}
