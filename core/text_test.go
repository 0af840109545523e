package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/core/typecode"
)

// TestTextAgreesWithNumPy compares with str of NumPy: see text_check.py.
func TestTextAgreesWithNumPy(t *testing.T) {
	python := os.Getenv("DLX_PYTHON")
	if python == "" {
		t.Skip("DLX_PYTHON names no Python that has NumPy; make test sets it")
	}
	folder := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	tensors := make(map[string]*core.Tensor)
	special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1, -1, 0.5, 100, 1e-5, 1e10, 0.1, 1. / 3}
	number := []func() float64{
		func() float64 { return special[r.IntN(len(special))] },
		func() float64 { return special[r.IntN(10)%3*4] },
		r.NormFloat64,
		func() float64 { return math.Trunc(r.NormFloat64() * 100) },
		func() float64 { return math.Ldexp(r.NormFloat64(), r.IntN(40)-20) },
		func() float64 { return float64(r.IntN(5)) / 4 },
	}
	i := 0
	for _, name := range []string{"float32", "float64", "float16", "int8", "int64", "uint64", "uint8", "bool", "complex64", "complex128"} {
		for _, shape := range [][]int64{{}, {1}, {2, 3}, {40}, {3, 1, 30}, {1001}, {7, 150}, {10, 3, 40}, {0, 4}, {500, 3}, {2, 2, 2, 2}, {2, 7, 8, 9}} {
			for _, next := range number {
				d, err := core.ParseDType(name)
				if err != nil {
					t.Fatal(err)
				}
				count := int64(1)
				for _, n := range shape {
					count *= n
				}
				values := make([]complex128, count)
				for j := range values {
					values[j] = complex(next(), 0)
					if d.Code == typecode.Complex {
						values[j] = complex(next(), next())
					}
				}
				c, err := core.FromSlice(values, shape...)
				if err != nil {
					t.Fatal(err)
				}
				v := ofComplex(t, c, d)
				c.Close()
				file := fmt.Sprintf("%d.%s.%s", i, name, strings.Trim(strings.ReplaceAll(fmt.Sprint(shape), " ", "x"), "[]"))
				i++
				if err := os.WriteFile(filepath.Join(folder, file+".in"), bytesOf(t, v), 0o600); err != nil {
					t.Fatal(err)
				}
				tensors[file] = v
			}
		}
	}
	if out, err := exec.Command(python, "text_check.py", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bad := 0
	for file, v := range tensors {
		want, err := os.ReadFile(filepath.Join(folder, file+".out"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Text(t.Context(), core.TextOptions{})
		if err != nil || got != string(want) {
			if bad++; bad <= 5 {
				t.Errorf("%s: %v\n%s\nwant\n%s", file, err, got, want)
			}
		}
	}
	if bad > 0 {
		t.Errorf("%d of %d texts differ", bad, len(tensors))
	}
}

// ofComplex converts complex numbers to any type: their real parts where that is not complex.
func ofComplex(t *testing.T, c *core.Tensor, d core.DType) *core.Tensor {
	t.Helper()
	keep := keeper(t)
	if d.Code == typecode.Complex {
		return keep(c.AsType(t.Context(), d))
	}
	values, err := core.Values[complex128](c)
	if err != nil {
		t.Fatal(err)
	}
	reals := make([]float64, len(values))
	for i, x := range values {
		reals[i] = real(x)
	}
	v := keep(core.FromSlice(reals, c.Shape()...))
	return keep(v.AsType(t.Context(), d))
}

// The verb %+v prints no more elements than a reader can look at, also for tensors of many axes, and without a wait.
func TestFormatPrintsABoundedNumberOfElements(t *testing.T) {
	keep := keeper(t)
	shape := func(extent int64, axes int) []int64 { return slices.Repeat([]int64{extent}, axes) }
	of := func(shape ...int64) *core.Tensor {
		n := int64(1)
		for _, extent := range shape {
			n *= extent
		}
		return keep(core.FromSlice(make([]uint8, n), shape...))
	}
	text := func(x *core.Tensor, edge int64) string {
		t.Helper()
		text, err := x.Text(t.Context(), core.TextOptions{EdgeItems: edge})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	few, five, six, many := of(3, 4), of(shape(7, 5)...), of(shape(7, 6)...), of(shape(2, 20)...)
	b, err := many.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	wide := keep(core.NewTensor(b, core.Spec{DType: core.DType{Code: typecode.UInt, Bits: 8, Lanes: 60_000}, Shape: []int64{2}}))
	for _, c := range []struct {
		x    *core.Tensor
		want string
	}{
		{few, text(few, 3)}, {five, text(five, 3)}, {six, text(six, 2)}, {many, "[...]"}, {wide, text(wide, 3)},
	} {
		if got, want := fmt.Sprintf("%+v", c.x), c.x.String()+"\n"+c.want; got != want {
			t.Errorf("%v: %d bytes that begin with %.200q, want %d", c.x, len(got), got, len(want))
		}
	}
}

func TestTextOfOtherTypes(t *testing.T) {
	keep := keeper(t)
	ctx := t.Context()
	base := keep(core.FromSlice([]float32{1, -2.5, 3, 448}, 2, 2))
	for _, c := range []struct {
		v    *core.Tensor
		want string
	}{
		{keep(base.AsType(ctx, core.TypeBFloat16)), "[[  1.   -2.5]\n [  3.  448. ]]"},
		{keep(base.AsType(ctx, core.TypeFloat8E4M3FN)), "[[  1.   -2.5]\n [  3.  448. ]]"},
		{keep(base.AsType(ctx, core.TypeInt4)), "[[ 1 -2]\n [ 3  7]]"},
		{keep(base.Transpose()), "[[  1.    3. ]\n [ -2.5 448. ]]"},
		{bytesTensor(t, core.DType{Code: typecode.UInt, Bits: 8, Lanes: 3}, []byte{1, 2, 3, 10, 20, 30}, []int64{2}, 0), "[[ 1  2  3]\n [10 20 30]]"},
	} {
		if got, err := c.v.Text(ctx, core.TextOptions{}); got != c.want || err != nil {
			t.Errorf("%v: %v\n%s\nwant\n%s", c.v, err, got, c.want)
		}
	}
	if got, err := base.Text(ctx, core.TextOptions{Threshold: 3, EdgeItems: 1, LineWidth: 20, Precision: 1}); err != nil || got != "[[  1.   -2.5]\n [  3.  448. ]]" {
		t.Errorf("%v\n%s", err, got)
	}
	handles := bytesTensor(t, core.DType{Code: typecode.OpaqueHandle, Bits: 64, Lanes: 1}, make([]byte, 8), []int64{1}, 0)
	if _, err := handles.Text(ctx, core.TextOptions{}); !errors.Is(err, core.ErrDType) {
		t.Error(err)
	}
	device, err := core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 4096, Size: 4}, core.Spec{DType: core.TypeFloat32})
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	if _, err := device.Text(ctx, core.TextOptions{}); !errors.Is(err, core.ErrDevice) {
		t.Error(err)
	}
	if got := fmt.Sprintf("%+v|%s|%d|%v", device, base, base, (*core.Tensor)(nil)); got != "float32[] on cuda:0|float32[2 2] on cpu|%!d(*core.Tensor=float32[2 2] on cpu)|<nil>" {
		t.Error(got)
	}
}

// Printing by fmt shows elements that are there, and waits for none.
// The numbers from which on an exponent is printed are rounded to the type, as NumPy does.
func TestTextWithTheSmallestNumberWithoutExponent(t *testing.T) {
	text := func(x *core.Tensor, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		s, err := x.Text(t.Context(), core.TextOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	const want = "[0.0001 0.05  ]"
	if s := text(core.FromSlice([]float32{1e-4, 0.05}, 2)); s != want {
		t.Errorf("float32: %s", s)
	}
	if s := text(core.FromSlice([]float64{1e-4, 0.05}, 2)); s != want {
		t.Errorf("float64: %s", s)
	}
	if s := text(core.FromSlice([]float.Float16{float.NewFloat16(1e-4), float.NewFloat16(0.05)}, 2)); s != want {
		t.Errorf("float16: %s", s)
	}
	if s := text(core.FromSlice([]complex64{1e-4, 0.05i}, 2)); s != "[0.0001+0.j   0.    +0.05j]" {
		t.Errorf("complex64: %s", s)
	}
	if s := text(core.FromSlice([]float32{9.9e-5, 0.05}, 2)); s != "[9.9e-05 5.0e-02]" {
		t.Errorf("float32 below the limit: %s", s)
	}
}

func TestFormatDoesNotWait(t *testing.T) {
	v := keeper(t)(core.FromSlice([]int8{1, 2}))
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	writing := &stuck{done: make(chan struct{})}
	b.Wrote(writing)
	if got := fmt.Sprintf("%+v", v); got != "int8[2] on cpu" {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Text(ctx, core.TextOptions{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(writing.done)
	if got := fmt.Sprintf("%+v", v); got != "int8[2] on cpu\n[1 2]" {
		t.Error(got)
	}
}

func ExampleTensor_Text() {
	t, err := core.FromSlice([]float32{0, 0.5, 1, 1.5, 2, 100}, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer t.Close()
	fmt.Println(t.Text(context.Background(), core.TextOptions{}))
	fmt.Printf("%+v\n", t)
	// Output:
	// [[  0.    0.5   1. ]
	//  [  1.5   2.  100. ]] <nil>
	// float32[2 3] on cpu
	// [[  0.    0.5   1. ]
	//  [  1.5   2.  100. ]]
}
