package arrow

import (
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/arrow/tensor"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// numbers returns 0, 1, 2 and so on.
func numbers[T int32 | float32 | float64](n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(i)
	}
	return s
}

func address(t *testing.T, x *core.Tensor) uintptr {
	t.Helper()
	a, err := x.Address()
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wantAt fails the test unless the bytes lie at the address.
func wantAt(t *testing.T, bytes []byte, want uintptr) {
	t.Helper()
	if got := uintptr(unsafe.Pointer(unsafe.SliceData(bytes))); got != want {
		t.Fatalf("the memory is at %#x, not at %#x: something was copied", got, want)
	}
}

func wantDims(t *testing.T, x *core.Tensor, shape, strides []int64) {
	t.Helper()
	if l := x.Layout(); !slices.Equal(l.Shape(), shape) || !slices.Equal(l.Strides(), strides) {
		t.Fatalf("shape %v with strides %v, not %v with %v", l.Shape(), l.Strides(), shape, strides)
	}
}

func wantReadOnly(t *testing.T, x *core.Tensor) {
	t.Helper()
	if !x.ReadOnly() {
		t.Fatal("data of Arrow can be written to")
	}
}

// A transposed part of a matrix goes to an Arrow tensor and back. The tensors are closed in the worst order.
func TestTensorShares(t *testing.T) {
	data := numbers[float64](20)
	base := coretest.Keep(t)(core.FromSlice(data, 4, 5))
	part := coretest.Keep(t)(base.Slice(1, 1, 4, 1))
	turned := coretest.Keep(t)(part.Transpose())
	x, err := ToTensor(t.Context(), turned, "column", "row")
	if err != nil {
		t.Fatal(err)
	}
	base.Close()
	part.Close()
	turned.Close()
	wantAt(t, x.Data().Buffers()[1].Bytes(), uintptr(unsafe.Pointer(&data[1])))
	if !slices.Equal(x.Shape(), []int64{3, 4}) || !slices.Equal(x.Strides(), []int64{8, 40}) || x.DimName(1) != "row" {
		t.Fatalf("%v %v %v", x.Shape(), x.Strides(), x.DimNames())
	}
	if got := x.(*tensor.Float64).Value([]int64{2, 3}); got != data[3*5+3] {
		t.Fatalf("the last element is %v", got)
	}
	back := coretest.Keep(t)(FromTensor(x))
	x.Release()
	wantDims(t, back, []int64{3, 4}, []int64{1, 5})
	wantReadOnly(t, back)
	if address(t, back) != uintptr(unsafe.Pointer(&data[1])) {
		t.Fatal("something was copied")
	}
	if got, err := core.At[float64](back, 2, 3); err != nil || got != data[3*5+3] {
		t.Fatalf("%v, %v", got, err)
	}
}

// All element types go to tensors and arrays and back. Memory of Arrow is counted to the last byte.
func TestTypes(t *testing.T) {
	for _, pair := range types {
		t.Run(pair.dlx.String(), func(t *testing.T) {
			size := int(itemSize(pair.dlx))
			bytes := coretest.Pattern(6*size, 1)
			raw := coretest.Keep(t)(core.FromSlice(bytes))
			b, err := raw.Buffer()
			if err != nil {
				t.Fatal(err)
			}
			flat := coretest.Keep(t)(core.NewTensor(b, core.Spec{DType: pair.dlx, Shape: []int64{6}}))
			a, err := ToArray(t.Context(), flat)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Release()
			if !arrow.TypeEqual(a.DataType(), pair.arrow) || a.Len() != 6 || a.NullN() != 0 {
				t.Fatalf("%v", a)
			}
			wantAt(t, a.Data().Buffers()[1].Bytes(), uintptr(unsafe.Pointer(&bytes[0])))
			part := array.NewSlice(a, 2, 5)
			defer part.Release()
			x := coretest.Keep(t)(FromArray(part))
			wantDims(t, x, []int64{3}, []int64{1})
			wantReadOnly(t, x)
			if x.DType() != pair.dlx || address(t, x) != uintptr(unsafe.Pointer(&bytes[2*size])) {
				t.Fatal(x)
			}
			y, err := ToTensor(t.Context(), flat)
			if pair.dlx == core.TypeFloat16 {
				coretest.WantError(t, err, core.ErrDType, "float16")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer y.Release()
			if back := coretest.Keep(t)(FromTensor(y)); back.DType() != pair.dlx {
				t.Fatal(back)
			}
		})
	}
}

// Memory that Arrow's allocator made is freed when the tensor is closed, not before.
func TestReferences(t *testing.T) {
	checked := memory.NewCheckedAllocator(memory.DefaultAllocator)
	defer checked.AssertSize(t, 0)
	builder := array.NewFloat32Builder(checked)
	builder.AppendValues([]float32{1, 2, 3}, nil)
	a := builder.NewArray()
	builder.Release()
	x, err := FromArray(a)
	if err != nil {
		t.Fatal(err)
	}
	a.Release()
	if checked.CurrentAlloc() == 0 {
		t.Fatal("the memory was freed before the tensor was closed")
	}
	if s, err := core.Values[float32](x); err != nil || !slices.Equal(s, []float32{1, 2, 3}) {
		t.Fatalf("%v, %v", s, err)
	}
	x.Close()
	if n := checked.CurrentAlloc(); n != 0 {
		t.Fatalf("%d bytes are not freed", n)
	}
}

// A program that makes a buffer of ours larger gets a copy, and the tensor is released.
func TestReallocate(t *testing.T) {
	x := coretest.Keep(t)(core.FromSlice([]byte{1, 2, 3}))
	b, err := toBuffer(t.Context(), "test", x, access{})
	if err != nil {
		t.Fatal(err)
	}
	b.Resize(100)
	if got := b.Bytes()[:3]; !slices.Equal(got, []byte{1, 2, 3}) {
		t.Fatal(got)
	}
	b.Bytes()[0] = 9
	if s, err := core.Values[byte](x); err != nil || s[0] != 1 {
		t.Fatal(s, err)
	}
	b.Release()
}

func TestEmptyAndSmall(t *testing.T) {
	for _, shape := range [][]int64{{0}, {0, 3}, {3, 0}, {}, {1}, {1, 1}} {
		n := int64(1)
		for _, extent := range shape {
			n *= extent
		}
		x := coretest.Keep(t)(core.FromSlice(make([]int32, n), shape...))
		y, err := ToTensor(t.Context(), x)
		if err != nil {
			t.Fatal(shape, err)
		}
		back := coretest.Keep(t)(FromTensor(y))
		y.Release()
		if !slices.Equal(back.Shape(), shape) {
			t.Fatalf("%v became %v", shape, back.Shape())
		}
	}
	// The stride of an axis of extent 1 may be any number.
	odd := coretest.Keep(t)(core.FromSliceStrided(make([]int32, 9), 0, []int64{3, 1, 2}, []int64{3, math.MinInt64, 1}))
	y, err := ToTensor(t.Context(), odd)
	if err != nil {
		t.Fatal(err)
	}
	y.Release()
	empty := coretest.Keep(t)(core.FromSlice([]int32{}))
	a, err := ToArray(t.Context(), empty)
	if err != nil || a.Len() != 0 {
		t.Fatal(a, err)
	}
	coretest.Keep(t)(FromArray(a))
	a.Release()
}

func TestRefusals(t *testing.T) {
	keep, ctx := coretest.Keep(t), t.Context()
	flat := keep(core.FromSlice(numbers[int32](6)))
	matrix := keep(core.FromSlice(numbers[int32](6), 2, 3))
	closed := keep(core.FromSlice(numbers[int32](6)))
	closed.Close()
	b, err := flat.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	bools := keep(core.FromSlice(make([]bool, 2)))
	unaligned := keep(core.NewTensor(b, core.Spec{DType: core.TypeInt32, Shape: []int64{2}, Offset: 2}))
	backward := keep(flat.Slice(0, 5, -1, -1))
	d := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
	far := keep(core.Empty(ctx, d, core.TypeInt32, []int64{2}, core.AllocOptions{}))
	for name, c := range map[string]struct {
		x    *core.Tensor
		want error
	}{
		"nil": {nil, core.ErrInvalid}, "closed": {closed, core.ErrClosed}, "bools": {bools, core.ErrDType},
		"unaligned": {unaligned, core.ErrLayout}, "backward": {backward, core.ErrLayout}, "device": {far, core.ErrDevice},
	} {
		_, err := ToTensor(ctx, c.x)
		coretest.WantError(t, err, c.want, "ToTensor: "+name)
		_, err = ToArray(ctx, c.x)
		coretest.WantError(t, err, c.want, "ToArray: "+name)
		_, err = ToFixedShape(ctx, c.x)
		coretest.WantError(t, err, c.want, "ToFixedShape: "+name)
	}
	_, err = ToTensor(ctx, flat, "a", "b")
	coretest.WantError(t, err, core.ErrInvalid, "two names for one axis")
	_, err = ToArray(ctx, matrix)
	coretest.WantError(t, err, core.ErrLayout, "an array of a matrix")
	_, err = ToArray(ctx, keep(flat.Slice(0, 0, 6, 2)))
	coretest.WantError(t, err, core.ErrLayout, "an array with gaps")

	_, err = FromArray(nil)
	coretest.WantError(t, err, core.ErrInvalid, "no array")
	_, err = FromTensor(nil)
	coretest.WantError(t, err, core.ErrInvalid, "no tensor")
	_, err = FromFixedShape(nil)
	coretest.WantError(t, err, core.ErrInvalid, "no array of tensors")
	builder := array.NewInt32Builder(memory.DefaultAllocator)
	defer builder.Release()
	builder.AppendNull()
	nulls := builder.NewArray()
	defer nulls.Release()
	_, err = FromArray(nulls)
	coretest.WantError(t, err, core.ErrInvalid, "nulls")
	strings := array.NewStringBuilder(memory.DefaultAllocator)
	defer strings.Release()
	text := strings.NewArray()
	defer text.Release()
	_, err = FromArray(text)
	coretest.WantError(t, err, core.ErrDType, "strings")
}

// A tensor of Arrow checks nothing of its shape and strides.
func TestHostileTensors(t *testing.T) {
	buffer := memory.NewBufferBytes(make([]byte, 48))
	for name, c := range map[string]struct {
		offset         int
		shape, strides []int64
	}{
		"outside":            {0, []int64{7}, []int64{8}},
		"offset":             {6, []int64{1}, []int64{8}},
		"negative offset":    {-1, []int64{1}, []int64{8}},
		"huge offset":        {math.MaxInt / 4, []int64{1}, []int64{8}},
		"negative stride":    {0, []int64{2}, []int64{-8}},
		"half an element":    {0, []int64{2}, []int64{4}},
		"negative extent":    {0, []int64{-1}, []int64{8}},
		"more than an int64": {0, []int64{math.MaxInt64, 3}, []int64{8, 8}},
		"more strides":       {0, []int64{2}, []int64{8, 8}},
		"wrapping":           {0, []int64{math.MaxInt64}, []int64{math.MaxInt64 &^ 7}},
	} {
		data := array.NewData(arrow.PrimitiveTypes.Float64, 0, []*memory.Buffer{nil, buffer}, nil, 0, 0)
		moved := array.NewData(arrow.PrimitiveTypes.Float64, 0, []*memory.Buffer{nil, buffer}, nil, 0, c.offset)
		_, err := FromTensor(fake{tensor.New(data, c.shape, c.strides, nil), moved})
		coretest.WantError(t, err, core.ErrLayout, name)
	}
	data := array.NewData(arrow.PrimitiveTypes.Float64, 0, nil, nil, 0, 0)
	_, err := FromTensor(fake{nil, data})
	coretest.WantError(t, err, core.ErrInvalid, "no buffers")
}

// fake is a tensor with other data.
type fake struct {
	tensor.Interface
	data arrow.ArrayData
}

func (f fake) Data() arrow.ArrayData    { return f.data }
func (f fake) DataType() arrow.DataType { return f.data.DataType() }
func (f fake) Shape() []int64 {
	if f.Interface == nil {
		return nil
	}
	return f.Interface.Shape()
}
func (f fake) Strides() []int64 {
	if f.Interface == nil {
		return nil
	}
	return f.Interface.Strides()
}

// The To functions wait for the last write, and fail if it failed.
func TestWaits(t *testing.T) {
	x := coretest.Keep(t)(core.FromSlice(make([]int32, 1)))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	failed := stream.NewEvent()
	b.Wrote(failed)
	failed.Complete(core.ErrDeviceLost)
	_, err = ToTensor(t.Context(), x)
	if err == nil {
		t.Fatal("memory whose last write failed was handed out")
	}
	if _, err = ToArray(t.Context(), x); err == nil {
		t.Fatal("memory whose last write failed was handed out")
	}
	b.Wrote(nil)
}
