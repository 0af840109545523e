package core_test

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/float"
)

type (
	kelvin  float32
	status  int
	pixel   uint8
	enabled bool
	wave    complex64
)

func TestNamedTypesAndPlainInts(t *testing.T) {
	throughTensor(t, math.MinInt, 0, math.MaxInt)
	throughTensor[uint](t, 0, 1, math.MaxUint)
	throughTensor[status](t, -1, 0, 200)
	throughTensor[kelvin](t, 0, 273.15)
	throughTensor[pixel](t, 0, 255)
	throughTensor[enabled](t, true, false)
	throughTensor[wave](t, 1i, -2)
	throughTensor(t, float.NewFloat8E5M2(1.5), float.NewFloat8E5M2(-0.25))
	dtypeOf[int](t, "int"+strconv.Itoa(strconv.IntSize))
	dtypeOf[uint](t, "uint"+strconv.Itoa(strconv.IntSize))
	dtypeOf[status](t, "int"+strconv.Itoa(strconv.IntSize))
	dtypeOf[kelvin](t, "float32")
	dtypeOf[pixel](t, "uint8")
	dtypeOf[enabled](t, "bool")
	dtypeOf[wave](t, "complex64")
	dtypeOf[float.Float8E4M3](t, "float8_e4m3")
	dtypeOf[float.Float8E3M4](t, "float8_e3m4")
	dtypeOf[float.Float8E4M3FN](t, "float8_e4m3fn")
	dtypeOf[float.Float8E4M3FNUZ](t, "float8_e4m3fnuz")
	dtypeOf[float.Float8E4M3B11FNUZ](t, "float8_e4m3b11fnuz")
	dtypeOf[float.Float8E5M2](t, "float8_e5m2")
	dtypeOf[float.Float8E5M2FNUZ](t, "float8_e5m2fnuz")
	dtypeOf[float.Float8E8M0FNU](t, "float8_e8m0fnu")
}

// A tensor of one type is seen through every Go type that has the same elements.
func TestValuesThroughAnotherTypeOfTheSameElements(t *testing.T) {
	v, err := core.FromSlice([]int64{1, -2})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if strconv.IntSize == 64 {
		if s, err := core.Values[int](v); err != nil || !slices.Equal(s, []int{1, -2}) {
			t.Errorf("int: %v, %v", s, err)
		}
	}
	type id int64
	if s, err := core.Values[id](v); err != nil || !slices.Equal(s, []id{1, -2}) {
		t.Errorf("id: %v, %v", s, err)
	}
	if _, err := core.Values[uint64](v); !errors.Is(err, core.ErrDType) {
		t.Errorf("uint64: %v, want ErrDType", err)
	}
}

func TestFromSliceStrided(t *testing.T) {
	s := []int32{0, 1, 2, 3, 4, 5}
	for name, c := range map[string]struct {
		first          int
		shape, strides []int64
		want           []int32
	}{
		"row-major":         {0, []int64{2, 3}, nil, s},
		"a part":            {1, []int64{2}, nil, []int32{1, 2}},
		"columns":           {0, []int64{3, 2}, []int64{1, 3}, []int32{0, 3, 1, 4, 2, 5}},
		"backwards":         {5, []int64{6}, []int64{-1}, []int32{5, 4, 3, 2, 1, 0}},
		"repeated":          {2, []int64{3}, []int64{0}, []int32{2, 2, 2}},
		"0-d":               {4, nil, nil, []int32{4}},
		"nothing":           {6, []int64{0, 7}, nil, nil},
		"stride unreached":  {5, []int64{1}, []int64{1 << 40}, []int32{5}},
		"overlapping pairs": {0, []int64{3, 2}, []int64{1, 1}, []int32{0, 1, 1, 2, 2, 3}},
	} {
		v, err := core.FromSliceStrided(s, c.first, c.shape, c.strides)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all, err := core.All[int32](v)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := slices.Collect(all); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if v.ReadOnly() != (name == "repeated") {
			t.Errorf("%s: read-only is %v", name, v.ReadOnly())
		}
		v.Close()
	}
	for name, c := range map[string]struct {
		first          int
		shape, strides []int64
	}{
		"behind the end":        {1, []int64{6}, nil},
		"before the start":      {2, []int64{4}, []int64{-1}},
		"first is negative":     {-1, []int64{1}, nil},
		"first behind the end":  {7, []int64{0}, nil},
		"a large first":         {math.MaxInt, []int64{1}, nil},
		"a small first":         {math.MinInt, []int64{1}, nil},
		"stride too large":      {0, []int64{2}, []int64{6}},
		"stride overflows":      {0, []int64{3}, []int64{math.MaxInt64}},
		"negative extent":       {0, []int64{-1}, nil},
		"strides of other rank": {0, []int64{2}, []int64{1, 1}},
	} {
		_, err := core.FromSliceStrided(s, c.first, c.shape, c.strides)
		if !errors.Is(err, core.ErrLayout) || !strings.HasPrefix(err.Error(), "core: FromSliceStrided: ") {
			t.Errorf("%s: %v, want ErrLayout", name, err)
		}
	}
}

// Whatever the numbers are, a tensor either stays inside the slice or is refused.
func FuzzFromSliceStrided(f *testing.F) {
	f.Add(0, int64(2), int64(3), int64(3), int64(1))
	f.Add(9, int64(3), int64(2), int64(-3), int64(-1))
	f.Add(1, int64(1)<<62, int64(4), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, first int, m, n, a, b int64) {
		s := make([]uint16, 10)
		v, err := core.FromSliceStrided(s, first, []int64{m, n}, []int64{a, b})
		if err != nil {
			if !errors.Is(err, core.ErrLayout) {
				t.Error(err)
			}
			return
		}
		defer v.Close()
		for _, i := range []int64{0, m - 1} {
			for _, j := range []int64{0, n - 1} {
				if at := int64(first) + i*a + j*b; m > 0 && n > 0 && (at < 0 || at >= int64(len(s))) {
					t.Errorf("[%d %d] is element %d of %d", i, j, at, len(s))
				}
			}
		}
	})
}

// An error names the function that was called, not one that it uses.
func TestErrorsNameTheCall(t *testing.T) {
	v, err := core.FromSlice(make([]float32, 6), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	closed, err := v.Share()
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	defer v.Close()
	var nilTensor *core.Tensor
	failing := map[string][]func(*core.Tensor) error{
		"Slice":      {func(v *core.Tensor) error { _, err := v.Slice(1, 0, 4, 1); return err }, func(v *core.Tensor) error { _, err := v.Slice(7, 0, 1, 1); return err }},
		"Index":      {func(v *core.Tensor) error { _, err := v.Index(1, -1); return err }, func(v *core.Tensor) error { _, err := v.Index(2, 0); return err }},
		"Permute":    {func(v *core.Tensor) error { _, err := v.Permute(0); return err }, func(v *core.Tensor) error { _, err := v.Permute(0, 0); return err }},
		"Reshape":    {func(v *core.Tensor) error { _, err := v.Reshape(4); return err }, func(v *core.Tensor) error { _, err := v.Reshape(-1, -1); return err }, func(v *core.Tensor) error { _, err := v.Reshape(-1, 5); return err }},
		"Squeeze":    {func(v *core.Tensor) error { _, err := v.Squeeze(0); return err }, func(v *core.Tensor) error { _, err := v.Squeeze(-1); return err }},
		"Expand":     {func(v *core.Tensor) error { _, err := v.Expand(3); return err }},
		"Broadcast":  {func(v *core.Tensor) error { _, err := v.Broadcast(3); return err }, func(v *core.Tensor) error { _, err := v.Broadcast(4, 3); return err }},
		"Values":     {func(v *core.Tensor) error { _, err := core.Values[int8](v); return err }, func(*core.Tensor) error { _, err := core.Values[int8](nilTensor); return err }},
		"Mutable":    {func(*core.Tensor) error { _, err := core.Mutable[int8](nilTensor); return err }},
		"AllMutable": {func(*core.Tensor) error { _, err := core.AllMutable[int8](nilTensor); return err }},
		"FromSlice":  {func(*core.Tensor) error { _, err := core.FromSlice([]int{1}, -1); return err }},
		"NewTensor":  {func(*core.Tensor) error { _, err := core.NewTensor(nil, core.Spec{}); return err }},
		"Wrap": {func(*core.Tensor) error {
			_, err := core.Wrap(core.Memory{}, core.Spec{DType: core.TypeInt8, Shape: []int64{-1}})
			return err
		}},
	}
	for call, fs := range failing {
		for i, f := range fs {
			var e *core.Error
			if err := f(v); !errors.As(err, &e) || e.Call != call {
				t.Errorf("%s %d: %v", call, i, err)
			}
		}
	}
	for call, f := range map[string]func() (*core.Tensor, error){
		"Share": closed.Share, "AsReadOnly": closed.AsReadOnly, "Transpose": closed.Transpose,
		"Index": func() (*core.Tensor, error) { return closed.Index(0, 0) },
	} {
		var e *core.Error
		if _, err := f(); !errors.As(err, &e) || e.Call != call || e.Err != core.ErrClosed {
			t.Errorf("%s of a closed tensor: %v", call, err)
		}
	}
}
