package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

const (
	// chunkBytes is how much of a tensor a staging buffer takes: measured, between
	// PoCL and llvmpipe, 1 MiB is a quarter slower, since each piece costs some 50 us
	// whatever its size, and 16 MiB leave the cache.
	chunkBytes = 4 << 20
	// stages is how many there are: while one is filled, the other is emptied.
	stages = 2
)

// stage copies in pieces. Both devices keep the order by the events of the
// staging buffers: one is filled again when it was emptied. Where a device cannot
// wait for the other's events, this waits, while the other buffer is at work.
func stage(ctx context.Context, r *run, p *parcel) error {
	return r.withSource(p, func(src *core.Tensor) error {
		return r.onLane(ctx, r.from.Device, func(from core.Stream) error {
			return r.onLane(ctx, r.dst, func(to core.Stream) error {
				var buffers [stages]stagingBuffer
				defer func() {
					for _, b := range buffers {
						b.release()
					}
				}()
				c := conveyor{ctx: ctx, from: r.from.Device, to: r.dst, out: from, in: to, buffers: &buffers}
				defer c.drop()
				size := min(max(chunkBytes, p.bytes/max(1, src.NumElements())), p.bytes)
				for i := range buffers {
					var err error
					if buffers[i], err = r.stagingBuffer(ctx, size); err != nil {
						return err
					}
				}
				if err := c.carry(p.fresh, src); err != nil {
					return err
				}
				return c.flush()
			})
		})
	})
}

// conveyor carries pieces of a tensor through staging buffers.
type conveyor struct {
	ctx      context.Context
	from, to core.Device
	out, in  core.Stream // of from and to
	buffers  *[stages]stagingBuffer

	next   int          // the buffer that comes next
	filled *core.Tensor // what the piece in the buffer before is to be copied into; nil if there is none
	staged *core.Tensor // that piece
}

// carry moves src to dst, both with the same shape, in pieces that fit a buffer.
func (c *conveyor) carry(dst, src *core.Tensor) error {
	bytes := src.NumBytes()
	axis := firstAxis(src)
	if bytes <= chunkBytes || axis < 0 {
		return c.piece(dst, src)
	}
	extent := src.Layout().Dim(axis)
	step := max(1, chunkBytes/(bytes/extent))
	for i := int64(0); i < extent; i += step {
		if err := c.slice(dst, src, axis, i, min(i+step, extent)); err != nil {
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

// slice carries a part of an axis.
func (c *conveyor) slice(dst, src *core.Tensor, axis int, start, stop int64) error {
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
	return c.carry(d, s)
}

// piece fills the next buffer, and has the one before emptied meanwhile.
func (c *conveyor) piece(dst, src *core.Tensor) error {
	b := &c.buffers[c.next%stages]
	c.next++
	in, err := like(b.in, src)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := c.from.Copy(c.ctx, c.out, in, src); err != nil {
		return err
	}
	if err := c.flush(); err != nil {
		return err
	}
	if c.staged, err = like(b.out, src); err != nil {
		return err
	}
	if c.filled, err = dst.Share(); err != nil {
		_ = c.staged.Close()
		c.staged = nil
	}
	return err
}

// flush empties the buffer that was filled last.
func (c *conveyor) flush() error {
	if c.filled == nil {
		return nil
	}
	err := c.to.Copy(c.ctx, c.in, c.filled, c.staged)
	c.drop()
	return err
}

// drop forgets the piece that was filled last.
func (c *conveyor) drop() {
	if c.filled != nil {
		_, _ = c.filled.Close(), c.staged.Close()
		c.filled, c.staged = nil, nil
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
