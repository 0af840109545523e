package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange/internal/opened"
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
				p := pipeline{ctx: ctx, from: r.from.Device, to: r.dst, fill: fill, empty: empty}
				defer p.release()
				size := min(max(staging.PieceBytes, c.bytes/max(1, src.NumElements())), c.bytes)
				for i := range p.buffers {
					var err error
					if p.buffers[i], err = r.stagingBuffer(ctx, size); err != nil {
						return err
					}
				}
				whole, err := c.fresh.Buffer()
				if err != nil {
					return err
				}
				defer inside.Parts(whole)() // the result reports the error of each piece
				if err := p.run(c.fresh, src); err != nil {
					return err
				}
				return p.drain()
			})
		})
	})
}

// pipeline copies a tensor in pieces through staging buffers.
type pipeline struct {
	ctx         context.Context
	from, to    core.Device
	fill, empty core.Stream // of from and to
	buffers     [opened.StagingBuffers]stagingBuffer

	next   int          // the buffer that comes next
	target *core.Tensor // where the piece goes that the buffer before holds; nil if there is none
	staged *core.Tensor // that piece
}

func (p *pipeline) release() {
	p.drop()
	for _, b := range p.buffers {
		b.release()
	}
}

// run copies src to dst, both with the same shape, in pieces that fit a buffer.
func (p *pipeline) run(dst, src *core.Tensor) error {
	bytes := src.NumBytes()
	axis := firstAxis(src)
	if bytes <= staging.PieceBytes || axis < 0 {
		return p.piece(dst, src)
	}
	extent := src.Layout().Dim(axis)
	step := max(1, staging.PieceBytes/(bytes/extent))
	for i := int64(0); i < extent; i += step {
		if err := p.slice(dst, src, axis, i, min(i+step, extent)); err != nil {
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
func (p *pipeline) slice(dst, src *core.Tensor, axis int, start, stop int64) error {
	d, err := dst.Slice(axis, start, stop, 1)
	if err != nil {
		return err
	}
	defer d.Close()
	s, err := src.Slice(axis, start, stop, 1)
	if err != nil {
		return err
	}
	defer s.Close()
	return p.run(d, s)
}

// piece fills the next buffer, and empties the one before meanwhile.
func (p *pipeline) piece(dst, src *core.Tensor) error {
	b := &p.buffers[p.next%len(p.buffers)]
	p.next++
	in, err := like(b.in, src)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := p.from.Copy(p.ctx, p.fill, in, src); err != nil {
		return err
	}
	if err := p.drain(); err != nil {
		return err
	}
	if p.staged, err = like(b.out, src); err != nil {
		return err
	}
	if p.target, err = dst.Share(); err != nil {
		_ = p.staged.Close()
		p.staged = nil
	}
	return err
}

// drain empties the buffer that was filled last.
func (p *pipeline) drain() error {
	if p.target == nil {
		return nil
	}
	err := p.to.Copy(p.ctx, p.empty, p.target, p.staged)
	p.drop()
	return err
}

// drop forgets the piece that was filled last.
func (p *pipeline) drop() {
	if p.target != nil {
		_, _ = p.target.Close(), p.staged.Close()
		p.target, p.staged = nil, nil
	}
}

// like makes a row-major tensor of the type and shape of t on the memory of buffer.
func like(buffer, t *core.Tensor) (*core.Tensor, error) {
	b, err := buffer.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, core.Spec{DType: t.DType(), Shape: t.Shape(), Flags: t.Flags() & core.FlagSubBytePadded})
}
