package arrow

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/tensor"
	"github.com/dlx-go/dlx/core"
)

// ToTensor returns an Arrow tensor on the memory of t. names are the names of the axes; there is one for each, or none
// at all. The caller releases the result. ToTensor returns
//
//   - core.ErrInvalid if t is nil or the number of names is wrong, or core.ErrClosed;
//   - core.ErrDType if Arrow's tensors have no such elements;
//   - core.ErrDevice if the host cannot access the memory: move the tensor with exchange.To first;
//   - core.ErrLayout if a stride is negative, which Arrow cannot express, or the memory is not aligned;
//   - the error of the last write, or of ctx.
func ToTensor(ctx context.Context, t *core.Tensor, names ...string) (tensor.Interface, error) {
	const call = "ToTensor"
	if t == nil {
		return nil, isNil(call)
	}
	dtype, err := toArrow(call, t.DType())
	if err != nil {
		return nil, err
	}
	if dtype.ID() == arrow.FLOAT16 {
		return nil, core.Errorf(core.ErrDType, backend, call, "package arrow/tensor has no float16: use AsType, ToArray or ToFixedShape")
	}
	if len(names) != 0 && len(names) != t.Rank() {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "%d names for %d axes", len(names), t.Rank())
	}
	l := t.Layout()
	var strides []int64 // nil is row-major
	if !l.IsContiguous() {
		strides = l.Strides()
		for i := range strides {
			switch {
			case l.Dim(i) == 1:
				strides[i] = 1 // it has no effect, but may be any number
			case strides[i] < 0:
				return nil, core.Errorf(core.ErrLayout, backend, call, "axis %d has the negative stride %d, which Arrow cannot express: use Contiguous", i, strides[i])
			}
			strides[i] *= itemSize(t.DType())
		}
	}
	buffer, err := toBuffer(ctx, call, t, access{})
	if err != nil {
		return nil, err
	}
	defer buffer.Release()
	data := array.NewData(dtype, buffer.Len()/int(itemSize(t.DType())), []*memory.Buffer{nil, buffer}, nil, 0, 0)
	defer data.Release()
	return tensor.New(data, l.Shape(), strides, names), nil
}

// FromTensor returns a tensor on the memory of an Arrow tensor, which may only be read. The caller closes it. x need
// not stay unreleased. FromTensor returns core.ErrInvalid if x is nil or released, core.ErrDType for dates and other
// elements that are no numbers, and core.ErrLayout if a stride is not a multiple of the element's size or an element
// lies outside of the buffer.
func FromTensor(x tensor.Interface) (*core.Tensor, error) {
	const call = "FromTensor"
	if nothing(x) || nothing(x.Data()) {
		return nil, isNil(call)
	}
	dtype, err := fromArrow(call, x.DataType())
	if err != nil {
		return nil, err
	}
	size := itemSize(dtype)
	shape := append([]int64{}, x.Shape()...)
	var strides []int64
	for i, s := range x.Strides() {
		if s%size != 0 {
			return nil, core.Errorf(core.ErrLayout, backend, call, "axis %d has a stride of %d bytes, which is not a multiple of the element's %d", i, s, size)
		}
		strides = append(strides, s/size)
	}
	return fromData(call, x.Data(), dtype, int64(x.Data().Offset()), shape, strides)
}

// ToArray returns an array on the memory of t, which has one axis. The caller releases the result. ToArray returns the
// errors of ToTensor, and core.ErrLayout if the elements are not adjacent.
func ToArray(ctx context.Context, t *core.Tensor) (arrow.Array, error) {
	return toArray(ctx, "ToArray", t, access{})
}

func toArray(ctx context.Context, call string, t *core.Tensor, how access) (arrow.Array, error) {
	if t == nil {
		return nil, isNil(call)
	}
	if t.Rank() != 1 || !t.Layout().IsContiguous() {
		return nil, core.Errorf(core.ErrLayout, backend, call, "an array has one axis of adjacent elements, not shape %v with strides %v: use Reshape, Contiguous or ToFixedShape", t.Shape(), t.Layout().Strides())
	}
	data, err := toData(ctx, call, t, how)
	if err != nil {
		return nil, err
	}
	defer data.Release()
	return array.MakeFromData(data), nil
}

// FromArray returns a tensor with one axis on the memory of an array of numbers, which may only be read. The caller
// closes it. x need not stay unreleased. FromArray returns core.ErrInvalid if x is nil or has nulls, which a tensor
// cannot express, and core.ErrDType if the elements are no numbers.
func FromArray(x arrow.Array) (*core.Tensor, error) {
	const call = "FromArray"
	if nothing(x) || nothing(x.Data()) {
		return nil, isNil(call)
	}
	dtype, err := fromArrow(call, x.DataType())
	if err != nil {
		return nil, err
	}
	if err := noNulls(call, x.NullN()); err != nil {
		return nil, err
	}
	return fromData(call, x.Data(), dtype, int64(x.Data().Offset()), []int64{int64(x.Len())}, nil)
}

// toData returns array data with all elements of a dense tensor, in the order of the addresses.
func toData(ctx context.Context, call string, t *core.Tensor, how access) (arrow.ArrayData, error) {
	dtype, err := toArrow(call, t.DType())
	if err != nil {
		return nil, err
	}
	buffer, err := toBuffer(ctx, call, t, how)
	if err != nil {
		return nil, err
	}
	defer buffer.Release()
	return array.NewData(dtype, int(t.NumElements()), []*memory.Buffer{nil, buffer}, nil, 0, 0), nil
}

func fromData(call string, data arrow.ArrayData, dtype core.DType, first int64, shape, strides []int64) (*core.Tensor, error) {
	buffers := data.Buffers()
	if len(buffers) != 2 {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "an array of numbers has 2 buffers, not %d", len(buffers))
	}
	return fromBuffer(call, buffers[1], dtype, first, shape, strides)
}

func noNulls(call string, n int) error {
	if n == 0 {
		return nil
	}
	return core.Errorf(core.ErrInvalid, backend, call, "%d elements are null, which a tensor cannot express: fill them first", n)
}
