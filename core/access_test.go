package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/core/typecode"
)

func TestAtAndSetByPosition(t *testing.T) {
	keep := keeper(t)
	base := keep(core.FromSlice([]int{0, 1, 2, 3, 4, 5}, 2, 3))
	turned := keep(base.Transpose())
	if x, err := core.At[int](turned, 2, 1); x != 5 || err != nil {
		t.Errorf("%v, %v", x, err)
	}
	if err := core.Set(turned, 70, 0, 1); err != nil {
		t.Error(err)
	}
	if x, err := core.At[int](base, 1, 0); x != 70 || err != nil {
		t.Errorf("%v, %v", x, err)
	}
	scalar := keep(keep(base.Index(0, 1)).Index(0, 1))
	if x, err := core.At[int](scalar); x != 4 || err != nil {
		t.Errorf("%v, %v", x, err)
	}
	for name, err := range map[string]error{
		"too few":     second(core.At[int](base, 1)),
		"too many":    second(core.At[int](base, 1, 1, 1)),
		"negative":    second(core.At[int](base, -1, 0)),
		"behind":      core.Set(base, 1, 2, 0),
		"an overflow": core.Set(base, 1, 0, math.MaxInt64),
		"repeated":    core.Set(repeated(t), 1, 0, 0),
	} {
		if !errors.Is(err, core.ErrLayout) {
			t.Errorf("%s: %v, want ErrLayout", name, err)
		}
	}
	if err := core.Set(keep(base.AsReadOnly()), 1, 0, 0); !errors.Is(err, core.ErrReadOnly) {
		t.Error(err)
	}
	if err := core.Set(base, int8(1), 0, 0); !errors.Is(err, core.ErrDType) {
		t.Error(err)
	}
	if _, err := core.At[int](nil); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
	if err := core.Set(nil, 1); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

// repeated is a tensor that repeats elements and does not say that it may only be read.
func repeated(t *testing.T) *core.Tensor {
	v := bytesTensor(t, core.DTypeOf[int](), make([]byte, 32), []int64{2}, 0)
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return keeper(t)(core.NewTensor(b, core.Spec{DType: v.DType(), Shape: []int64{2, 2}, Strides: []int64{0, 1}}))
}

func TestFillAndToSlice(t *testing.T) {
	keep := keeper(t)
	ctx := t.Context()
	s := make([]float64, 12)
	base := keep(core.FromSlice(s, 3, 4))
	column := keep(base.Slice(1, 3, -1, -2))
	if err := core.Fill(ctx, base, 1.0); err != nil {
		t.Error(err)
	}
	if err := core.Fill(ctx, column, -2.5); err != nil {
		t.Error(err)
	}
	if want := []float64{1, -2.5, 1, -2.5, 1, -2.5, 1, -2.5, 1, -2.5, 1, -2.5}; !slices.Equal(s, want) {
		t.Error(s)
	}
	for i := range s {
		s[i] = float64(i)
	}
	got, err := core.ToSlice[float64](ctx, column)
	if err != nil || !slices.Equal(got, []float64{3, 1, 7, 5, 11, 9}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := core.ToSlice[float64](ctx, keep(column.Transpose())); err != nil || !slices.Equal(got, []float64{3, 7, 11, 1, 5, 9}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := core.ToSlice[float64](ctx, keep(base.Slice(0, 1, 1, 1))); err != nil || len(got) != 0 {
		t.Errorf("no elements: %v, %v", got, err)
	}
	if err := core.Fill(ctx, repeated(t), 1); !errors.Is(err, core.ErrLayout) {
		t.Error(err)
	}
	if err := core.Fill(ctx, nil, 1); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := core.Fill(ended, base, 1.0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := core.ToSlice[float64](ended, base); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// What is not done yet is waited for, as long as the context allows.
func TestFillWaitsForReaders(t *testing.T) {
	v := keeper(t)(core.FromSlice(make([]float32, 4)))
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	reading := &stuck{done: make(chan struct{})}
	b.Used(reading)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := core.Fill[float32](ctx, v, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Fill while somebody reads: %v", err)
	}
	if x, err := core.At[float32](v, 0); x != 0 || err != nil {
		t.Errorf("readers wait for readers: %v, %v", x, err)
	}
	filled := make(chan error)
	go func() { filled <- core.Fill[float32](t.Context(), v, 1) }()
	close(reading.done)
	if err := <-filled; err != nil {
		t.Error(err)
	}
}

type stuck struct{ done chan struct{} }

func (s *stuck) Done() (bool, error) {
	select {
	case <-s.done:
		return true, nil
	default:
		return false, nil
	}
}

func (s *stuck) Wait(ctx context.Context) error {
	select {
	case <-s.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestEqual(t *testing.T) {
	keep := keeper(t)
	ctx := t.Context()
	zero := math.Copysign(0, -1)
	a := keep(core.FromSlice([]float64{1, 0, 3, 4}, 2, 2))
	turned := keep(keep(core.FromSlice([]float64{1, 3, zero, 4}, 2, 2)).Transpose())
	nan := keep(core.FromSlice([]float64{math.NaN()}))
	long := make([]int32, 5000)
	other := slices.Clone(long)
	other[4999] = 1
	for name, c := range map[string]struct {
		a, b          *core.Tensor
		equal, asBits bool
	}{
		"zeros of both signs": {a, turned, true, false},
		"itself":              {a, a, true, true},
		"NaN":                 {nan, nan, false, true},
		"another shape":       {a, keep(a.Reshape(4)), false, false},
		"another type":        {nan, keep(core.FromSlice([]float32{1})), false, false},
		"the last of many":    {keep(core.FromSlice(long)), keep(core.FromSlice(other)), false, false},
		"many":                {keep(core.FromSlice(long, 50, 100)), keep(core.FromSlice(slices.Clone(long), 50, 100)), true, true},
		"float16 zeros":       {keep(core.FromSlice([]float.Float16{0})), keep(core.FromSlice([]float.Float16{0x8000})), true, false},
		"bools from abroad":   {bytesTensor(t, core.TypeBool, []byte{1, 2}, []int64{2}, 0), bytesTensor(t, core.TypeBool, []byte{3, 1}, []int64{2}, 0), true, false},
		"packed":              {bytesTensor(t, core.TypeUint4, []byte{0x21, 0xf3}, []int64{3}, 0), bytesTensor(t, core.TypeUint4, []byte{0x21, 3}, []int64{3}, 0), true, true},
		"complex":             {keep(core.FromSlice([]complex64{1i})), keep(core.FromSlice([]complex64{2i})), false, false},
		"handles":             {bytesTensor(t, core.DType{Code: typecode.OpaqueHandle, Bits: 64, Lanes: 1}, []byte{1}, []int64{1}, 0), bytesTensor(t, core.DType{Code: typecode.OpaqueHandle, Bits: 64, Lanes: 1}, []byte{1}, []int64{1}, 0), true, true},
		"no elements":         {keep(core.FromSlice([]int{}, 0, 2)), keep(core.FromSlice([]int{}, 0, 2)), true, true},
	} {
		if got, err := core.Equal(ctx, c.a, c.b); got != c.equal || err != nil {
			t.Errorf("%s: Equal is %v, %v", name, got, err)
		}
		if got, err := core.EqualBits(ctx, c.a, c.b); got != c.asBits || err != nil {
			t.Errorf("%s: EqualBits is %v, %v", name, got, err)
		}
	}
	if _, err := core.Equal(ctx, a, nil); !errors.Is(err, core.ErrInvalid) {
		t.Error(err)
	}
}

func ExampleAt() {
	t, err := core.FromSlice([]float32{1, 2, 3, 4, 5, 6}, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	if err := core.Set[float32](t, 60, 1, 2); err != nil {
		fmt.Println(err)
	}
	fmt.Println(core.At[float32](t, 1, 2))
	fmt.Println(core.At[float32](t, 2, 0))
	// Output:
	// 60 <nil>
	// 0 core: At: bad layout: index 2 of axis 0 is out of range for extent 2
}

func ExampleFromSliceStrided() {
	type sample int16 // a named type is as good as the one that underlies it
	stereo := []sample{1, -1, 2, -2, 3, -3}
	right, err := core.FromSliceStrided(stereo, 1, []int64{3}, []int64{2})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer right.Close()
	fmt.Println(right)
	fmt.Println(core.ToSlice[sample](context.Background(), right))
	// Output:
	// int16[3] on cpu strides [2]
	// [-1 -2 -3] <nil>
}

func ExampleConvert() {
	ctx := context.Background()
	weights, err := core.FromSlice([]float32{0.1, 1000, -65519, 65520})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer weights.Close()
	halves := make([]float.Float16, 4)
	dst, err := core.FromSlice(halves)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer dst.Close()
	if err := core.Convert(ctx, dst, weights); err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range halves {
		fmt.Print(h.Float32(), " ")
	}
	// Output: 0.099975586 1000 -65504 +Inf
}
