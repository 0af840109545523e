package tensorfile

import (
	"context"
	"io"

	"github.com/dlx-go/dlx/core"
)

// fetcher brings elements from devices to a writer, through two buffers. It is for one goroutine.
type fetcher struct {
	ctx      context.Context
	piece    int64 // the largest number of bytes of a copy
	progress func(done, total int64)
	done     int64
	total    int64

	device  core.Device // whose stream and buffers the others are; nil if there are none
	stream  core.Stream
	buffers [2]*staging
	filled  [2]int64 // bytes that a copy brings to each buffer and that were not written yet
	turn    int
}

// newFetcher returns a fetcher, which the caller closes.
func newFetcher(ctx context.Context, o SaveOptions) *fetcher {
	budget := o.Budget
	if budget == 0 {
		budget = defaultBudget
	}
	return &fetcher{ctx: ctx, piece: min(budget/2-block, largestPiece) &^ (block - 1), progress: o.Progress}
}

// write writes the elements of t in row-major order, or those of its transpose.
func (f *fetcher) write(w io.Writer, t *core.Tensor, transposed bool) error {
	if t.NumBytes() == 0 {
		return nil
	}
	if err := f.use(t.Device()); err != nil {
		return err
	}
	whole := t
	var err error
	switch {
	case transposed:
		if whole, err = t.Transpose(); err != nil {
			return err
		}
		defer func() { _ = whole.Close() }()
		return f.write(w, whole, false)
	case t.Layout().IsContiguous():
		// As bytes, pieces can begin anywhere.
		b, err := t.Buffer()
		if err != nil {
			return err
		}
		whole, err = core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{t.NumBytes()}, Offset: t.Offset() - b.Memory().Offset})
		if err != nil {
			return err
		}
		defer func() { _ = whole.Close() }()
	}
	if err := f.fetch(w, whole); err != nil {
		return err
	}
	return f.flush(w, 1-f.turn) // the last one
}

// fetch brings the elements of t in pieces.
func (f *fetcher) fetch(w io.Writer, t *core.Tensor) error {
	if t.NumBytes() <= f.piece {
		return f.copy(w, t)
	}
	rows := t.Shape()[0]
	step := max(f.piece/(t.NumBytes()/rows), 1)
	for row := int64(0); row < rows; row += step {
		var part *core.Tensor
		var err error
		if step > 1 || t.Rank() == 1 {
			part, err = t.Slice(0, row, min(row+step, rows), 1)
		} else {
			part, err = t.Index(0, row)
		}
		if err != nil {
			return err
		}
		err = f.fetch(w, part)
		_ = part.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// copy enqueues a copy of t to a buffer, and writes the other buffer meanwhile.
func (f *fetcher) copy(w io.Writer, t *core.Tensor) error {
	s := f.buffers[f.turn]
	dst, err := typedOf(s.mem, s.at, core.Spec{DType: t.DType(), Shape: t.Shape()})
	if err != nil {
		return err
	}
	defer func() { _ = dst.Close() }()
	if err := f.device.Copy(f.ctx, f.stream, dst, t); err != nil {
		return err
	}
	f.filled[f.turn] = t.NumBytes()
	if s.busy, err = f.stream.Record(); err != nil {
		return err
	}
	f.turn = 1 - f.turn
	return f.flush(w, f.turn)
}

// flush writes a buffer when its copy is done.
func (f *fetcher) flush(w io.Writer, i int) error {
	n := f.filled[i]
	if n == 0 {
		return nil
	}
	f.filled[i] = 0
	if err := f.buffers[i].wait(f.ctx); err != nil {
		return err
	}
	if _, err := w.Write(f.buffers[i].data[:n]); err != nil {
		return err
	}
	if f.done += n; f.progress != nil {
		f.progress(f.done, f.total)
	}
	return nil
}

// use makes the stream and the buffers those of a device.
func (f *fetcher) use(d core.Device) error {
	if f.device == d {
		return nil
	}
	if err := f.close(); err != nil {
		return err
	}
	f.device = d
	var err error
	if f.stream, err = d.NewStream(f.ctx); err != nil {
		return err
	}
	for i := range f.buffers {
		if f.buffers[i], _, err = newStaging(f.ctx, d, f.piece); err != nil {
			return err
		}
	}
	return nil
}

// close waits for copies that are not done, and closes the stream and the buffers.
func (f *fetcher) close() error {
	var err error
	if f.stream != nil {
		err = f.stream.Close()
	}
	for _, s := range f.buffers {
		if s != nil {
			s.close()
		}
	}
	f.device, f.stream, f.buffers, f.filled = nil, nil, [2]*staging{}, [2]int64{}
	return err
}
