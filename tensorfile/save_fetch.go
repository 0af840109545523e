package tensorfile

import (
	"context"
	"io"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/staging"
)

// fetcher brings elements from devices to a writer, through staging buffers. It is for one goroutine.
type fetcher struct {
	ctx      context.Context
	piece    int64 // the largest number of bytes of a copy
	progress func(done, total int64)
	done     int64
	total    int64

	device   core.Device // whose stream and buffers the others are; nil if there are none
	stream   core.Stream
	pipeline staging.Pipeline[*stagingBuffer, fetched, core.Event]
}

// fetched is elements that go to a writer.
type fetched struct {
	w io.Writer
	t *core.Tensor // its bytes are n; it may be closed when its copy is enqueued
	n int64
}

var _ staging.Steps[*stagingBuffer, fetched, core.Event] = (*fetcher)(nil)

// newFetcher returns a fetcher, which the caller closes.
func newFetcher(ctx context.Context, o SaveOptions) *fetcher {
	budget := o.Budget
	if budget == 0 {
		budget = defaultBudget
	}
	f := &fetcher{ctx: ctx, piece: min(budget/staging.Buffers-block, largestPiece) &^ (block - 1), progress: o.Progress}
	f.pipeline.Steps, f.pipeline.Late = f, true
	return f
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
	return f.pipeline.Flush(f.ctx)
}

// fetch brings the elements of t in pieces.
func (f *fetcher) fetch(w io.Writer, t *core.Tensor) error {
	if t.NumBytes() <= f.piece {
		return f.pipeline.Put(f.ctx, fetched{w, t, t.NumBytes()})
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

// Fill enqueues the copy of elements to a buffer, which is empty.
func (f *fetcher) Fill(ctx context.Context, b **stagingBuffer, x fetched, _ core.Event) (core.Event, error) {
	if *b == nil {
		var err error
		if *b, _, err = newStagingBuffer(ctx, f.device, f.piece); err != nil {
			return nil, err
		}
	}
	dst, err := typedOf((*b).mem, (*b).at, core.Spec{DType: x.t.DType(), Shape: x.t.Shape()})
	if err != nil {
		return nil, err
	}
	defer func() { _ = dst.Close() }()
	if err := f.device.Copy(ctx, f.stream, dst, x.t); err != nil {
		return nil, err
	}
	return f.stream.Record()
}

// Empty writes a buffer when its copy is done.
func (f *fetcher) Empty(ctx context.Context, b **stagingBuffer, x fetched, copied core.Event) (core.Event, error) {
	if err := copied.Wait(ctx); err != nil {
		return nil, err
	}
	if _, err := x.w.Write((*b).data[:x.n]); err != nil {
		return nil, err
	}
	if f.done += x.n; f.progress != nil {
		f.progress(f.done, f.total)
	}
	return nil, nil
}

// use makes the stream that of a device, and has the buffers allocated there.
func (f *fetcher) use(d core.Device) error {
	if f.device == d {
		return nil
	}
	if err := f.close(); err != nil {
		return err
	}
	f.device = d
	var err error
	f.stream, err = d.NewStream(f.ctx)
	return err
}

// close waits for copies that are not done, and closes the stream and the buffers.
func (f *fetcher) close() error {
	var err error
	if f.stream != nil {
		err = f.stream.Close()
	}
	f.pipeline.Close(closeBuffer)
	f.device, f.stream = nil, nil
	return err
}
