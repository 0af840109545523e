package tensorfile

import (
	"bufio"
	"context"
	"io"

	"github.com/dlx-go/dlx/core"
)

// source is a tensor to write.
type source struct {
	name   string
	dtype  core.DType
	layout core.Layout
	memory *core.Tensor // keeps the memory of the elements alive
	bytes  []byte       // the range of bytes that the elements span
	first  int64        // the position of the first element in bytes
	fetch  *fetcher     // brings elements that the host cannot access; nil for others, whose memory is in bytes
}

// newFetched makes a source of a tensor that the host cannot access. The caller closes the memory of the source.
func newFetched(t Named, f *fetcher, at fault) (*source, error) {
	shared, err := t.Tensor.Share()
	if err != nil {
		return nil, at.errorf(core.ErrClosed, "it was closed")
	}
	s := &source{name: t.Name, dtype: t.Tensor.DType(), layout: t.Tensor.Layout(), memory: shared, fetch: f}
	switch {
	case t.Tensor.Device() == nil:
		err = at.errorf(core.ErrDevice, "it lies on %v, which no opened device can read", t.Tensor.DeviceID())
	case s.dtype.SubByte() && (t.Tensor.Padded() || !s.layout.IsContiguous()):
		err = at.errorf(core.ErrNotSupported, "elements of %v are padded or not contiguous: copy the tensor first", s.dtype)
	}
	if err != nil {
		_ = shared.Close()
		return nil, err
	}
	return s, nil
}

// newSource makes a source and waits for the last write to the tensor. The caller closes the
// memory of the source.
func newSource(ctx context.Context, t Named, at fault) (*source, error) {
	s := &source{name: t.Name, dtype: t.Tensor.DType(), layout: t.Tensor.Layout()}
	b, err := t.Tensor.Buffer()
	if err != nil {
		return nil, at.errorf(core.ErrClosed, "it was closed")
	}
	begin := t.Tensor.Offset() - b.Memory().Offset
	size, whole := s.dtype.ItemSize()
	low, high := s.layout.Extent()
	switch {
	case t.Tensor.Padded() && s.dtype.SubByte():
		return nil, at.errorf(core.ErrNotSupported, "elements of %v take a byte each: pack them first", s.dtype)
	case s.layout.IsContiguous():
		low, high = 0, t.Tensor.NumBytes()
	case !whole || s.dtype.SubByte():
		return nil, at.errorf(core.ErrNotSupported, "packed elements of %v with strides %v: copy the tensor first", s.dtype, s.layout.Strides())
	default:
		low, high = low*size, high*size
	}
	s.first = -low
	if s.memory, err = core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{high - low}, Offset: begin + low}); err != nil {
		return nil, at.errorf(err, "its memory")
	}
	if s.bytes, err = core.ValuesWithoutWaiting[uint8](s.memory); err == nil {
		err = s.memory.WaitReady(ctx) // Values would wait without ctx
	}
	if err != nil {
		_ = s.memory.Close()
		return nil, at.errorf(err, "its elements cannot be read")
	}
	return s, nil
}

// gatherSize is the size in bytes of the buffer that collects elements before they are written.
const gatherSize = 1 << 16

// write writes the elements to w in the row-major order of layout l, which is that of s or its
// transpose.
func (s *source) write(w io.Writer, l core.Layout) error {
	if s.fetch != nil {
		return s.fetch.write(w, s.memory, l.IsContiguous() && !s.layout.IsContiguous())
	}
	if l.IsContiguous() {
		_, err := w.Write(s.bytes)
		return err
	}
	size, _ := s.dtype.ItemSize()
	// Innermost axes that are contiguous are written as one piece.
	axes, run := l.Rank(), size
	for axes > 0 && (l.Dim(axes-1) == 1 || l.Stride(axes-1)*size == run) {
		axes--
		run *= l.Dim(axes)
	}
	g := bufio.NewWriterSize(w, gatherSize)
	if err := s.gather(g, l, size, run, 0, axes, s.first); err != nil {
		return err
	}
	return g.Flush()
}

// gather writes pieces of run bytes along the axes from axis up to but not including end. The
// first piece begins at byte at.
func (s *source) gather(w *bufio.Writer, l core.Layout, size, run int64, axis, end int, at int64) error {
	step := l.Stride(axis) * size
	if axis == end-1 {
		return s.gatherAxis(w, l.Dim(axis), step, run, at)
	}
	for range l.Dim(axis) {
		if err := s.gather(w, l, size, run, axis+1, end, at); err != nil {
			return err
		}
		at += step
	}
	return nil
}

// gatherAxis writes n pieces of run bytes that lie step bytes apart. It collects as many at a
// time as fit into the buffer. A piece that does not fit is written directly.
func (s *source) gatherAxis(w *bufio.Writer, n, step, run, at int64) error {
	for n > 0 {
		pieces := w.AvailableBuffer()
		for n > 0 && int64(cap(pieces)-len(pieces)) >= run {
			pieces = append(pieces, s.bytes[at:at+run]...)
			at += step
			n--
		}
		if len(pieces) == 0 {
			pieces = s.bytes[at : at+run]
			at += step
			n--
		}
		if _, err := w.Write(pieces); err != nil {
			return err
		}
	}
	return nil
}

// columnMajor reports whether the elements lie in column-major and not in row-major order. It
// also returns the layout in whose row-major order to write them.
func (s *source) columnMajor() (core.Layout, bool) {
	if s.layout.IsContiguous() {
		return s.layout, false
	}
	l, err := transpose(s.layout)
	if err != nil || !l.IsContiguous() {
		return s.layout, false
	}
	return l, true
}
