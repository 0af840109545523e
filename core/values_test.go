package core_test

import (
	"errors"
	"iter"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/float"
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

func throughTensor[T core.Element](t *testing.T, values ...T) {
	t.Helper()
	v, err := core.FromSlice(slices.Clone(values))
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	got, err := core.Mutable[T](v)
	if err != nil || !slices.Equal(got, values) {
		t.Errorf("Mutable of %v = %v, %v; want %v", v, got, err, values)
	}
	slices.Reverse(got)
	back, err := v.Slice(0, int64(len(values))-1, -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	seq, err := core.All[T](back)
	if err != nil || !slices.Equal(slices.Collect(seq), values) {
		t.Errorf("All of %v: %v, want %v", back, err, values)
	}
}

func TestEveryElementTypeIsSeenAsItself(t *testing.T) {
	throughTensor[int8](t, -128, 0, 127)
	throughTensor[int16](t, math.MinInt16, 0, math.MaxInt16)
	throughTensor[int32](t, math.MinInt32, 0, math.MaxInt32)
	throughTensor[int64](t, math.MinInt64, 0, math.MaxInt64)
	throughTensor[uint8](t, 0, 1, math.MaxUint8)
	throughTensor[uint16](t, 0, 1, math.MaxUint16)
	throughTensor[uint32](t, 0, 1, math.MaxUint32)
	throughTensor[uint64](t, 0, 1, math.MaxUint64)
	throughTensor(t, float.NewFloat16(-1.5), float.NewFloat16(0), float.NewFloat16(65504))
	throughTensor(t, float.NewBFloat16(-1.5), float.NewBFloat16(0), float.NewBFloat16(3e38))
	throughTensor[float32](t, -math.MaxFloat32, 0, math.SmallestNonzeroFloat32)
	throughTensor(t, -math.MaxFloat64, 0, math.SmallestNonzeroFloat64)
	throughTensor[complex64](t, 1-2i, 0, 3i)
	throughTensor[complex128](t, 1-2i, 0, 3i)
	throughTensor(t, true, false, false)
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

// A sequence outlives the last use of its tensor: the net must not free the memory under it.
func TestAllKeepsTheTensorReachable(t *testing.T) {
	data, err := core.FromSlice(make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	address, err := data.Address()
	if err != nil {
		t.Fatal(err)
	}
	leaveChunk(t) // an open tensor keeps its neighbours from the net
	o := &owner{}
	lost := func() iter.Seq[byte] {
		v, err := core.Wrap(core.Memory{ID: core.CPU, Handle: address, Size: 8, Owner: o}, core.Spec{
			DType: core.TypeUint8, Shape: []int64{1, 1, 1, 1, 8}, // 5 axes: their extents lie apart from the tensor
		})
		if err != nil {
			t.Fatal(err)
		}
		seq, err := core.All[byte](v)
		if err != nil {
			t.Fatal(err)
		}
		return seq
	}()
	leaveChunk(t)
	collect := func(times int) {
		for range times {
			runtime.GC()
			time.Sleep(time.Millisecond)
		}
	}
	for range lost {
		if collect(4); o.freed.Load() != 0 {
			t.Fatal("the memory was freed under the sequence")
		}
	}
	for deadline := time.Now().Add(10 * time.Second); o.freed.Load() == 0 && time.Now().Before(deadline); {
		collect(1)
	}
	if o.freed.Load() != 1 {
		t.Error("the lost tensor was not closed afterwards")
	}
	coretest.ExpectLeaks(1)
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
		h := float.Float16(i)
		f := h.Float32()
		back := float.NewFloat16(f)
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
		low, high := float.Float16(i).Float32(), float.Float16(i+1).Float32()
		if i+1 == 0x7c00 {
			high = 65536 // where infinity would be
		}
		mid := low/2 + high/2
		even := float.Float16(i + i&1)
		for f, want := range map[float32]float.Float16{
			mid: even, math.Nextafter32(mid, 0): float.Float16(i), math.Nextafter32(mid, math.MaxFloat32): float.Float16(i + 1),
		} {
			if got := float.NewFloat16(f); got != want {
				t.Fatalf("%g rounds to %#04x, want %#04x", f, got, want)
			}
			if got := float.NewFloat16(-f); got != want|0x8000 {
				t.Fatalf("%g rounds to %#04x, want %#04x", -f, got, want|0x8000)
			}
		}
	}
	for f, want := range map[float32]float.BFloat16{
		1: 0x3f80, 1.00390625: 0x3f80, 1.01171875: 0x3f82, math.MaxFloat32: 0x7f80, float32(math.Inf(-1)): 0xff80, 1e-45: 0,
	} {
		if got := float.NewBFloat16(f); got != want {
			t.Errorf("bfloat16 of %g is %#04x, want %#04x", f, got, want)
		}
	}
	if f := float.NewBFloat16(math.Float32frombits(0x7f800001)).Float32(); f == f {
		t.Error("a NaN with a low payload became", f)
	}
	if f := float.NewFloat16(math.Float32frombits(0xff800001)).Float32(); f == f {
		t.Error("a NaN with a low payload became", f)
	}
	for i := range 1 << 16 {
		if h := float.BFloat16(i); h.Float32() == h.Float32() && float.NewBFloat16(h.Float32()) != h {
			t.Fatalf("bfloat16 %#04x does not come back", i)
		}
	}
}

func TestCheckCopy(t *testing.T) {
	keep := keeper(t)
	from := func(n int64, shape ...int64) *core.Tensor {
		return keep(core.FromSlice(make([]int16, n), shape...))
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
	unitStride := core.Spec{DType: core.TypeInt16, Shape: []int64{1, 6}, Strides: []int64{99, 1}}
	object := core.Memory{ID: core.DeviceID{Type: core.DeviceVulkan}, Handle: ^uintptr(0) - 1, Size: 16}
	object1 := keep(core.Wrap(object, core.Spec{DType: core.TypeInt16, Shape: []int64{4}}))
	object2 := keep(core.Wrap(object, core.Spec{DType: core.TypeInt16, Shape: []int64{4}, Offset: 6}))
	object3 := keep(core.Wrap(object, core.Spec{DType: core.TypeInt16, Shape: []int64{4}, Offset: 8}))
	for name, c := range map[string]struct {
		dst, src *core.Tensor
		want     error
		same     bool
	}{
		"any stride where the extent is 1": {keep(a.Reshape(1, 6)), keep(core.NewTensor(buf, unitStride)), nil, true},
		"overlap within an opaque object":  {object1, object2, core.ErrLayout, false},
		"halves of an opaque object":       {object1, object3, nil, false},
		"plain":                            {a, b, nil, false},
		"itself":                           {a, a, nil, true},
		"a second view of it":              {a, keep(a.Share()), nil, true},
		"nil":                              {nil, a, core.ErrInvalid, false},
		"read-only dst":                    {keep(a.AsReadOnly()), b, core.ErrReadOnly, false},
		"read-only src":                    {a, keep(b.AsReadOnly()), nil, false},
		"other type":                       {a, other, core.ErrDType, false},
		"other shape":                      {a, keep(b.Reshape(3, 2)), core.ErrLayout, false},
		"dst repeats":                      {keep(core.NewTensor(buf, repeated)), b, core.ErrLayout, false},
		"src repeats":                      {b, keep(core.NewTensor(buf, repeated)), nil, false},
		"overlapping rows":                 {row, next, core.ErrLayout, false},
		"transposed in place":              {keep(square.Transpose()), square, core.ErrLayout, false},
		"halves of one":                    {keep(square.Slice(0, 0, 1, 1)), keep(square.Slice(0, 2, 3, 1)), nil, false},
		"zero-size":                        {from(0, 0), from(0, 0), nil, false},
	} {
		same, err := backendkit.CheckCopy(c.dst, c.src)
		if !errors.Is(err, c.want) || same != c.same {
			t.Errorf("%s: %v, %v; want %v, %v", name, same, err, c.same, c.want)
		}
	}
}
