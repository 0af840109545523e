package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// copyInPieces copies through the host. While the destination empties one staging
// buffer, the source's device fills the other. Both devices keep the order by the
// buffers' events: a buffer is filled again when it was emptied. If a device cannot
// wait for the other's events, this waits, while the other buffer is at work.
func copyInPieces(ctx context.Context, r *run, c *copying) error {
	return r.withSource(c, func(src *core.Tensor) error {
		return r.onStream(ctx, r.from.Device, func(fill core.Stream) error {
			return r.onStream(ctx, r.dst, func(empty core.Stream) error {
				s := &stagedCopy{run: r, fill: fill, empty: empty}
				s.pipeline.Steps, s.pipeline.Late = s, true
				s.size = min(max(staging.PieceBytes, c.bytes/max(1, src.NumElements())), c.bytes)
				defer s.pipeline.Close((*stagingBuffer).release)
				whole, err := c.fresh.Buffer()
				if err != nil {
					return err
				}
				defer privateCore.Parts(whole)() // the result reports the error of each piece
				if err := s.copy(ctx, c.fresh, src); err != nil {
					return err
				}
				return s.pipeline.Flush(ctx)
			})
		})
	})
}

// stagedCopy copies a tensor in pieces through staging buffers.
type stagedCopy struct {
	*run
	fill, empty core.Stream // of the source's device and of the destination
	size        int64       // of a buffer
	pipeline    staging.Pipeline[stagingBuffer, part, inOrder]
}

// part is a part of a tensor, and where it goes.
type part struct{ dst, src *core.Tensor }

// inOrder is the mark of a copy: tensors keep the order.
type inOrder struct{}

var _ staging.Steps[stagingBuffer, part, inOrder] = (*stagedCopy)(nil)

// copy copies src to dst, both with the same shape, in pieces that fit a buffer.
func (s *stagedCopy) copy(ctx context.Context, dst, src *core.Tensor) error {
	bytes := src.NumBytes()
	axis := firstAxis(src)
	if bytes <= staging.PieceBytes || axis < 0 {
		return s.pipeline.Put(ctx, part{dst, src})
	}
	extent := src.Layout().Dim(axis)
	step := max(1, staging.PieceBytes/(bytes/extent))
	for i := int64(0); i < extent; i += step {
		if err := s.slice(ctx, dst, src, axis, i, min(i+step, extent)); err != nil {
			return err
		}
	}
	return nil
}

// firstAxis is the first axis with more than one element, -1 if there is none.
func firstAxis(t *core.Tensor) int {
	for axis := range t.Rank() {
		if t.Layout().Dim(axis) > 1 {
			return axis
		}
	}
	return -1
}

// slice copies a part of an axis.
func (s *stagedCopy) slice(ctx context.Context, dst, src *core.Tensor, axis int, start, stop int64) error {
	d, err := dst.Slice(axis, start, stop, 1)
	if err != nil {
		return err
	}
	defer d.Close()
	from, err := src.Slice(axis, start, stop, 1)
	if err != nil {
		return err
	}
	defer from.Close()
	return s.copy(ctx, d, from)
}

// Fill lets the source's device copy a part to a buffer.
func (s *stagedCopy) Fill(ctx context.Context, b *stagingBuffer, p part, _ inOrder) (inOrder, error) {
	if b.in == nil {
		var err error
		if *b, err = s.stagingBuffer(ctx, s.size); err != nil {
			return inOrder{}, err
		}
	}
	in, err := like(b.in, p.src)
	if err != nil {
		return inOrder{}, err
	}
	defer in.Close()
	if err := s.from.Device.Copy(ctx, s.fill, in, p.src); err != nil {
		return inOrder{}, err
	}
	if b.staged, err = like(b.out, p.src); err != nil {
		return inOrder{}, err
	}
	b.target, err = p.dst.Share() // it is closed when the buffer is emptied
	return inOrder{}, err
}

// Empty lets the destination copy a part from its buffer.
func (s *stagedCopy) Empty(ctx context.Context, b *stagingBuffer, _ part, _ inOrder) (inOrder, error) {
	err := s.dst.Copy(ctx, s.empty, b.target, b.staged)
	b.forget()
	return inOrder{}, err
}

// like makes a row-major tensor of the type and shape of t on the memory of buffer.
func like(buffer, t *core.Tensor) (*core.Tensor, error) {
	b, err := buffer.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded})
}
