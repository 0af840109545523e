package tensorfile

import (
	"bufio"
	"context"
	"io"

	"github.com/dlx-go/dlx/core"
)

// source is a tensor that is being written.
type source struct {
	name   string
	dtype  core.DType
	layout core.Layout
	memory *core.Tensor // the bytes that the elements reach, kept alive
	bytes  []byte       // those bytes
	first  int64        // of them, where the first element lies
}

// newSource waits for the elements of a tensor. The caller closes the memory of
// the source.
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
		err = s.memory.WaitReady(ctx) // not as Values, which no ctx ends
	}
	if err != nil {
		_ = s.memory.Close()
		return nil, at.errorf(err, "its elements cannot be read")
	}
	return s, nil
}

// gatherSize is the size of the buffer that scattered elements are gathered in.
const gatherSize = 1 << 16

// write writes the elements to w in row-major order of a layout that has them all.
func (s *source) write(w io.Writer, l core.Layout) error {
	if l.IsContiguous() {
		_, err := w.Write(s.bytes)
		return err
	}
	size, _ := s.dtype.ItemSize()
	// The innermost axes that lie in a row are written as one piece.
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

// gather writes the pieces of run bytes that the axes from axis up to the axis end
// reach from the byte at on.
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

// gatherAxis writes n pieces, as many at a time as the buffer has room for. One
// that it has no room for is written as it is.
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

// columnMajor reports whether the elements lie in column-major order, and only
// so, and gives the layout in which they are row-major.
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
