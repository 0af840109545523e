package core_test

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestFromSliceSharesMemory(t *testing.T) {
	s := []float32{1, 2, 3, 4, 5, 6}
	v, err := core.FromSlice(s, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	w, err := core.Mutable[float32](v)
	if err != nil {
		t.Fatal(err)
	}
	w[4] = 50
	s[0] = 10
	if s[4] != 50 || w[0] != 10 {
		t.Errorf("slice %v, tensor %v", s, w)
	}
	tr, err := v.Transpose()
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	seq, err := core.All[float32](tr)
	if err != nil {
		t.Fatal(err)
	}
	if got := slices.Collect(seq); !slices.Equal(got, []float32{10, 4, 2, 50, 3, 6}) {
		t.Error(got)
	}
	for x := range seq {
		if x != 10 {
			t.Error("the sequence does not start anew")
		}
		break
	}
	if _, err := core.Values[float32](tr); !errors.Is(err, core.ErrLayout) {
		t.Errorf("Values of a transposed tensor: %v, want ErrLayout", err)
	}
	if _, err := core.Values[int32](v); !errors.Is(err, core.ErrDType) {
		t.Errorf("Values of another type: %v, want ErrDType", err)
	}
}

func TestFromSliceKeepsTheSliceAlive(t *testing.T) {
	v, err := core.FromSlice(slices.Repeat([]int64{42}, 1<<16))
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	runtime.GC()
	junk := make([][]int64, 64)
	for i := range junk {
		junk[i] = make([]int64, 1<<16)
	}
	runtime.KeepAlive(junk)
	s, err := core.Values[int64](v)
	if err != nil || slices.ContainsFunc(s, func(x int64) bool { return x != 42 }) {
		t.Errorf("the memory was reused, %v", err)
	}
}

func TestFromSliceRefuses(t *testing.T) {
	for _, shape := range [][]int64{{4}, {2, 2}, {-3}, {}, {math.MaxInt64, 3}} {
		if v, err := core.FromSlice([]int8{1, 2, 3}, shape...); !errors.Is(err, core.ErrLayout) {
			t.Errorf("shape %v: %v, %v; want ErrLayout", shape, v, err)
		}
	}
}

func TestZeroDimensionalTensor(t *testing.T) {
	v, err := core.FromSlice([]complex128{3 + 4i}, []int64{}...)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	scalar, err := v.Squeeze()
	if err != nil {
		t.Fatal(err)
	}
	defer scalar.Close()
	seq, err := core.All[complex128](scalar)
	if err != nil || scalar.Rank() != 0 {
		t.Fatal(scalar, err)
	}
	if got := slices.Collect(seq); !slices.Equal(got, []complex128{3 + 4i}) {
		t.Error(got)
	}
}

func TestMisalignedValuesAreRefused(t *testing.T) {
	m, _ := hostMemory(16)
	odd := 1 + int64(-m.Handle%8)
	v, err := core.Wrap(m, core.Spec{DType: core.TypeFloat64, Shape: []int64{1}, Offset: odd})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if _, err := core.Values[float64](v); !errors.Is(err, core.ErrLayout) {
		t.Errorf("%v, want ErrLayout", err)
	}
}

func TestFloat16AgainstEveryValue(t *testing.T) {
	for i := range 1 << 16 {
		h := core.Float16(i)
		f := h.Float32()
		back := core.NewFloat16(f)
		if f != f {
			if g := back.Float32(); g == g || (back^h)&0x8000 != 0 {
				t.Fatalf("NaN %#04x comes back as %#04x", i, back)
			}
			continue
		}
		if back != h {
			t.Fatalf("%#04x is %g, which rounds to %#04x", i, f, back)
		}
		exp, frac := i>>10&31, float64(i&0x3ff)
		want := math.Ldexp(frac+1024, exp-25)
		switch exp {
		case 0:
			want = math.Ldexp(frac, -24)
		case 31:
			want = math.Inf(1)
		}
		if i&0x8000 != 0 {
			want = -want
		}
		if float64(f) != want {
			t.Fatalf("%#04x is %g, want %g", i, f, want)
		}
	}
}

// Halfway between two neighbours the even one wins; a little beside, the nearer.
func TestHalfPrecisionRounding(t *testing.T) {
	for i := range uint16(0x7c00) {
		low, high := core.Float16(i).Float32(), core.Float16(i+1).Float32()
		if i+1 == 0x7c00 {
			high = 65536 // where infinity would be
		}
		mid := low/2 + high/2
		even := core.Float16(i + i&1)
		for f, want := range map[float32]core.Float16{
			mid: even, math.Nextafter32(mid, 0): core.Float16(i), math.Nextafter32(mid, math.MaxFloat32): core.Float16(i + 1),
		} {
			if got := core.NewFloat16(f); got != want {
				t.Fatalf("%g rounds to %#04x, want %#04x", f, got, want)
			}
			if got := core.NewFloat16(-f); got != want|0x8000 {
				t.Fatalf("%g rounds to %#04x, want %#04x", -f, got, want|0x8000)
			}
		}
	}
	for f, want := range map[float32]core.BFloat16{
		1: 0x3f80, 1.00390625: 0x3f80, 1.01171875: 0x3f82, math.MaxFloat32: 0x7f80, float32(math.Inf(-1)): 0xff80, 1e-45: 0,
	} {
		if got := core.NewBFloat16(f); got != want {
			t.Errorf("bfloat16 of %g is %#04x, want %#04x", f, got, want)
		}
	}
	if f := core.NewBFloat16(math.Float32frombits(0x7f800001)).Float32(); f == f {
		t.Error("a NaN with a low payload became", f)
	}
	if f := core.NewFloat16(math.Float32frombits(0xff800001)).Float32(); f == f {
		t.Error("a NaN with a low payload became", f)
	}
	for i := range 1 << 16 {
		if h := core.BFloat16(i); h.Float32() == h.Float32() && core.NewBFloat16(h.Float32()) != h {
			t.Fatalf("bfloat16 %#04x does not come back", i)
		}
	}
}

func TestCheckCopy(t *testing.T) {
	from := func(n int64, shape ...int64) *core.Tensor {
		v, err := core.FromSlice(make([]int16, n), shape...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		return v
	}
	keep := func(v *core.Tensor, err error) *core.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { v.Close() })
		return v
	}
	a, b := from(6, 2, 3), from(6, 2, 3)
	other, err := core.FromSlice(make([]int32, 6), 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	square := from(9, 3, 3)
	row := keep(square.Slice(0, 0, 2, 1))
	next := keep(square.Slice(0, 1, 3, 1))
	repeated := core.Spec{DType: core.TypeInt16, Shape: []int64{2, 3}, Strides: []int64{0, 1}}
	buf, err := a.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		dst, src *core.Tensor
		want     error
		same     bool
	}{
		"plain":               {a, b, nil, false},
		"itself":              {a, a, nil, true},
		"a second view of it": {a, keep(a.Share()), nil, true},
		"nil":                 {nil, a, core.ErrInvalid, false},
		"read-only dst":       {keep(a.AsReadOnly()), b, core.ErrReadOnly, false},
		"read-only src":       {a, keep(b.AsReadOnly()), nil, false},
		"other type":          {a, other, core.ErrDType, false},
		"other shape":         {a, keep(b.Reshape(3, 2)), core.ErrLayout, false},
		"dst repeats":         {keep(core.NewTensor(buf, repeated)), b, core.ErrLayout, false},
		"src repeats":         {b, keep(core.NewTensor(buf, repeated)), nil, false},
		"overlapping rows":    {row, next, core.ErrLayout, false},
		"transposed in place": {keep(square.Transpose()), square, core.ErrLayout, false},
		"halves of one":       {keep(square.Slice(0, 0, 1, 1)), keep(square.Slice(0, 2, 3, 1)), nil, false},
		"zero-size":           {from(0, 0), from(0, 0), nil, false},
	} {
		same, err := core.CheckCopy(c.dst, c.src)
		if !errors.Is(err, c.want) || same != c.same {
			t.Errorf("%s: %v, %v; want %v, %v", name, same, err, c.same, c.want)
		}
	}
}
