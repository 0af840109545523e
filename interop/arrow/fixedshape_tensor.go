package arrow

import (
	"cmp"
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/dlx-go/dlx/core"
)

// ToFixedShape returns an array of N tensors on the memory of t, whose first axis has extent N. names are the names of
// the other axes; there is one for each, or none at all. The caller releases the result.
//
// The tensors must lie one after the other without gaps. The axes of each may be in any order: the type of the result
// then has a permutation. ToFixedShape returns the errors of ToTensor, and core.ErrLayout if t has no axes, or the
// memory has gaps or repeats elements: use Contiguous.
func ToFixedShape(ctx context.Context, t *core.Tensor, names ...string) (*FixedShapeArray, error) {
	return toFixedShape(ctx, "ToFixedShape", t, names, access{})
}

func toFixedShape(ctx context.Context, call string, t *core.Tensor, names []string, how access) (*FixedShapeArray, error) {
	if t == nil {
		return nil, isNil(call)
	}
	if t.Rank() == 0 {
		return nil, core.Errorf(core.ErrLayout, backend, call, "the tensor has no axis: use Expand")
	}
	if len(names) != 0 && len(names) != t.Rank()-1 {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "%d names for the %d axes after the first one", len(names), t.Rank()-1)
	}
	value, err := toArrow(call, t.DType())
	if err != nil {
		return nil, err
	}
	l := t.Layout()
	stored := storedAxes(l)
	var storedNames []string
	shape, permutation := make([]int64, len(stored)), make([]int, len(stored))
	for i, axis := range stored {
		shape[i] = l.Dim(axis)
		permutation[axis-1] = i
		if len(names) != 0 {
			storedNames = append(storedNames, names[axis-1])
		}
	}
	inOrder, err := l.Permute(append([]int{0}, stored...)...)
	if err != nil {
		return nil, named(call, err)
	}
	if !inOrder.IsContiguous() {
		return nil, core.Errorf(core.ErrLayout, backend, call, "shape %v with strides %v is not a sequence of dense tensors: use Contiguous", l.Shape(), l.Strides())
	}
	dtype, err := NewFixedShapeType(value, shape, storedNames, permutation)
	if err != nil {
		return nil, err
	}
	elements, err := toData(ctx, call, t, how)
	if err != nil {
		return nil, err
	}
	defer elements.Release()
	lists := array.NewData(dtype.Storage, int(l.Dim(0)), []*memory.Buffer{nil}, []arrow.ArrayData{elements}, 0, 0)
	defer lists.Release()
	storage := array.NewFixedSizeListData(lists)
	defer storage.Release()
	return array.NewExtensionArrayWithStorage(dtype, storage).(*FixedShapeArray), nil
}

// storedAxes returns the axes after the first one in the order in which they are stored, the largest stride first.
func storedAxes(l core.Layout) []int {
	axes := make([]int, 0, l.Rank()-1)
	for i := 1; i < l.Rank(); i++ {
		axes = append(axes, i)
	}
	if l.IsContiguous() {
		return axes
	}
	// Axes of extent 1 lie where they stand: their strides mean nothing.
	places := make([]int, 0, len(axes))
	var long []int
	for at, axis := range axes {
		if l.Dim(axis) != 1 {
			places, long = append(places, at), append(long, axis)
		}
	}
	slices.SortStableFunc(long, func(a, b int) int { return cmp.Compare(l.Stride(b), l.Stride(a)) })
	for i, at := range places {
		axes[at] = long[i]
	}
	return axes
}

// FromFixedShape returns a tensor on the memory of an array of N tensors, which may only be read. Its first axis has
// extent N, the other axes are those of the tensors, in the order that the permutation of the type gives. The caller
// closes it. x need not stay unreleased. FromFixedShape returns core.ErrInvalid if x is nil or something in it is
// null, and core.ErrDType if the elements are no numbers.
func FromFixedShape(x *FixedShapeArray) (*core.Tensor, error) {
	const call = "FromFixedShape"
	if x == nil || nothing(x.Data()) {
		return nil, isNil(call)
	}
	dtype, ok := x.DataType().(*FixedShapeType)
	lists, isList := x.Storage().(*array.FixedSizeList)
	if !ok || !isList {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the array has the type %v", x.DataType())
	}
	element, err := fromArrow(call, dtype.ValueType())
	if err != nil {
		return nil, err
	}
	shape, strides, err := dtype.layout(call, int64(x.Len()))
	if err != nil {
		return nil, err
	}
	// Of a slice of an array, Offset counts the tensors before it.
	all := lists.ListValues()
	n, size, length := lists.Data().Offset(), dtype.size(), x.Len()
	if size != 0 && n+length > all.Len()/size {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "%d tensors after %d others are more than the %d elements", length, n, all.Len())
	}
	values := array.NewSlice(all, int64(n*size), int64((n+length)*size))
	defer values.Release()
	if err := noNulls(call, x.NullN()+values.NullN()); err != nil {
		return nil, err
	}
	return fromData(call, values.Data(), element, int64(values.Data().Offset()), shape, strides)
}

// size returns the number of elements of a tensor.
func (t *FixedShapeType) size() int { return int(t.Storage.(*arrow.FixedSizeListType).Len()) }

// layout returns the shape and the strides of an array of n tensors.
func (t *FixedShapeType) layout(call string, n int64) (shape, strides []int64, err error) {
	l, err := core.NewLayout(append([]int64{n}, t.shape...)...)
	if err == nil && t.permutation != nil {
		axes := []int{0}
		for _, axis := range t.permutation {
			axes = append(axes, axis+1)
		}
		l, err = l.Permute(axes...)
	}
	if err != nil {
		return nil, nil, named(call, err)
	}
	return l.Shape(), l.Strides(), nil
}
