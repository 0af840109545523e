//go:build cgo

package main

import "github.com/dlx-go/dlx/core"

// viewOf returns a view of t, whose first element lies offset elements after that of t. All its elements lie between
// the first and the last one of t in memory: the memory of an imported tensor has no known size.
func viewOf(t *core.Tensor, shape, strides []int64, offset int64) (*core.Tensor, error) {
	const call = "view"
	var l core.Layout
	var err error
	if strides == nil {
		l, err = core.NewLayout(shape...)
	} else {
		l, err = core.NewStridedLayout(shape, strides)
	}
	if err != nil {
		return nil, err
	}
	low, high := l.Extent()
	first, end := t.Layout().Extent()
	if offset < first-low || offset > end-high {
		return nil, core.Errorf(core.ErrLayout, origin, call, "shape %v with strides %v at element %d leaves the tensor, which is %v", shape, l.Strides(), offset, t.Layout())
	}
	eight, err := t.DType().Size(8, t.Padded()) // bytes of 8 elements
	if err != nil {
		return nil, err
	}
	bytes, rest := offset/8*eight, offset%8*eight
	if rest%8 != 0 {
		return nil, core.Errorf(core.ErrLayout, origin, call, "element %d of packed %v does not start on a byte", offset, t.DType())
	}
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	if err := b.Retain(); err != nil { // t may be closed by another thread
		return nil, err
	}
	defer b.Release()
	return core.NewTensor(b, core.Spec{
		DType:   t.DType(),
		Shape:   shape,
		Strides: strides,
		Offset:  t.Offset() - b.Memory().Offset + bytes + rest/8,
		Flags:   t.Flags() &^ core.FlagCopied,
	})
}
