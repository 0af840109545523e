package gonum

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/cblas128"
	"gonum.org/v1/gonum/blas/cblas64"
	"gonum.org/v1/gonum/mat"
)

func numbers(n int) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = float64(i)
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

func at[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func same(t *testing.T, got, want uintptr) {
	t.Helper()
	if got != want {
		t.Fatalf("the memory is at %#x, not at %#x: something was copied", got, want)
	}
}

// A slice of a matrix, with rows in between that are not in it, goes to a tensor and back.
func TestDenseShares(t *testing.T) {
	data := numbers(5 * 7)
	part := mat.NewDense(5, 7, data).Slice(1, 4, 2, 6).(*mat.Dense)
	x := coretest.Keep(t)(FromDense(part))
	same(t, address(t, x), at(&data[1*7+2]))
	if got := x.Layout(); !slices.Equal(got.Shape(), []int64{3, 4}) || !slices.Equal(got.Strides(), []int64{7, 1}) {
		t.Fatalf("shape %v, strides %v", got.Shape(), got.Strides())
	}
	m, release, err := ToDense(x)
	if err != nil {
		t.Fatal(err)
	}
	x.Close() // m has a reference of its own
	raw := m.RawMatrix()
	same(t, at(&raw.Data[0]), at(&data[1*7+2]))
	if raw.Stride != 7 || cap(raw.Data) != 2*7+4 {
		t.Fatalf("stride %d, capacity %d", raw.Stride, cap(raw.Data))
	}
	if !mat.Equal(m, part) {
		t.Fatal("the elements differ")
	}
	m.Set(2, 3, -1)
	if data[3*7+5] != -1 {
		t.Fatal("a write did not reach the slice")
	}
	release()
	release()
	if !m.IsEmpty() {
		t.Fatal("the matrix is not empty after release")
	}
}

func TestGeneralsShare(t *testing.T) {
	testGeneral(t, func(d []float32) blas32.General { return blas32.General{Rows: 2, Cols: 3, Stride: 4, Data: d} },
		func(g blas32.General) *float32 { return &g.Data[0] })
	testGeneral(t, func(d []float64) blas64.General { return blas64.General{Rows: 2, Cols: 3, Stride: 4, Data: d} },
		func(g blas64.General) *float64 { return &g.Data[0] })
	testGeneral(t, func(d []complex64) cblas64.General { return cblas64.General{Rows: 2, Cols: 3, Stride: 4, Data: d} },
		func(g cblas64.General) *complex64 { return &g.Data[0] })
	testGeneral(t, func(d []complex128) cblas128.General {
		return cblas128.General{Rows: 2, Cols: 3, Stride: 4, Data: d}
	}, func(g cblas128.General) *complex128 { return &g.Data[0] })
}

func testGeneral[G General, T core.Element](t *testing.T, general func([]T) G, first func(G) *T) {
	t.Helper()
	data := make([]T, 7) // the last row ends without its gap
	x := coretest.Keep(t)(FromGeneral(general(data)))
	same(t, address(t, x), at(&data[0]))
	if x.DType() != core.DTypeOf[T]() || !slices.Equal(x.Layout().Strides(), []int64{4, 1}) {
		t.Fatalf("%v with strides %v", x.DType(), x.Layout().Strides())
	}
	g, release, err := ToGeneral[G](x)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	same(t, at(first(g)), at(&data[0]))
}

func TestVectorsShare(t *testing.T) {
	testVector(t, func(inc int, d []float32) blas32.Vector { return blas32.Vector{N: 3, Inc: inc, Data: d} },
		func(v blas32.Vector) (*float32, int) { return &v.Data[0], v.Inc })
	testVector(t, func(inc int, d []float64) blas64.Vector { return blas64.Vector{N: 3, Inc: inc, Data: d} },
		func(v blas64.Vector) (*float64, int) { return &v.Data[0], v.Inc })
	testVector(t, func(inc int, d []complex64) cblas64.Vector { return cblas64.Vector{N: 3, Inc: inc, Data: d} },
		func(v cblas64.Vector) (*complex64, int) { return &v.Data[0], v.Inc })
	testVector(t, func(inc int, d []complex128) cblas128.Vector { return cblas128.Vector{N: 3, Inc: inc, Data: d} },
		func(v cblas128.Vector) (*complex128, int) { return &v.Data[0], v.Inc })
}

func testVector[V Vector, T core.Element](t *testing.T, vector func(int, []T) V, raw func(V) (*T, int)) {
	t.Helper()
	data := make([]T, 5)
	for _, inc := range []int{2, -2} {
		x := coretest.Keep(t)(FromVector(vector(inc, data)))
		first := &data[0]
		if inc < 0 {
			first = &data[4]
		}
		same(t, address(t, x), at(first))
		v, release, err := ToVector[V](x)
		if err != nil {
			t.Fatal(err)
		}
		p, got := raw(v)
		same(t, at(p), at(&data[0])) // Data begins at the lowest address, whatever Inc is
		if got != inc {
			t.Fatalf("increment %d, not %d", got, inc)
		}
		release()
	}
}

// BLAS reads a vector with a negative increment as the tensor has it.
func TestReversedVector(t *testing.T) {
	x := coretest.Keep(t)(core.FromSlice([]float64{1, 10, 100}))
	back := coretest.Keep(t)(x.Slice(0, 2, -1, -1))
	v, release, err := ToVector[blas64.Vector](back)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if got := blas64.Dot(v, blas64.Vector{N: 3, Inc: 1, Data: []float64{1, 2, 3}}); got != 100+20+3 {
		t.Fatalf("the product is %v", got)
	}
	_, _, err = ToVecDense(back)
	coretest.WantError(t, err, core.ErrLayout, "ToVecDense of a reversed tensor")
}

func TestVecDenseShares(t *testing.T) {
	data := numbers(12)
	column := mat.NewDense(3, 4, data).ColView(1).(*mat.VecDense)
	x := coretest.Keep(t)(FromVecDense(column))
	same(t, address(t, x), at(&data[1]))
	v, release, err := ToVecDense(x)
	if err != nil {
		t.Fatal(err)
	}
	same(t, at(&v.RawVector().Data[0]), at(&data[1]))
	if v.AtVec(2) != 9 {
		t.Fatalf("the last element is %v", v.AtVec(2))
	}
	release()
	if !v.IsEmpty() {
		t.Fatal("the vector is not empty after release")
	}
}

func TestCDenseShares(t *testing.T) {
	data := []complex128{1, 2i, 3, 4i}
	x := coretest.Keep(t)(FromCDense(mat.NewCDense(2, 2, data)))
	same(t, address(t, x), at(&data[0]))
	m, release, err := ToCDense(x)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	same(t, at(&m.RawCMatrix().Data[0]), at(&data[0]))
}

// Any strides can be read through ToMatrix, of the same memory.
func TestMatrixStrides(t *testing.T) {
	base := coretest.Keep(t)(core.FromSlice(numbers(12), 3, 4))
	reversed := coretest.Keep(t)(base.Slice(1, 3, -1, -2)) // columns 3 and 1
	row := coretest.Keep(t)(base.Slice(0, 1, 2, 1))
	for name, x := range map[string]*core.Tensor{
		"transposed": coretest.Keep(t)(base.Transpose()),
		"reversed":   reversed,
		"broadcast":  coretest.Keep(t)(row.Broadcast(5, 4)),
		"read-only":  coretest.Keep(t)(base.AsReadOnly()),
	} {
		m, release, err := ToMatrix(x)
		if err != nil {
			t.Fatal(name, err)
		}
		want, err := core.ToSlice[float64](context.Background(), x)
		if err != nil {
			t.Fatal(name, err)
		}
		rows, cols := m.Dims()
		if !mat.Equal(m, mat.NewDense(rows, cols, want)) || !mat.Equal(m.T(), mat.NewDense(rows, cols, want).T()) {
			t.Errorf("%s: the elements differ", name)
		}
		release()
		if rows, cols := m.Dims(); rows != 0 || cols != 0 {
			t.Errorf("%s: %d x %d after release", name, rows, cols)
		}
	}
	m, release, err := ToMatrix(reversed)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := core.Set(base, 42.0, 2, 3); err != nil {
		t.Fatal(err)
	}
	if m.At(2, 0) != 42 {
		t.Fatal("the matrix does not share the memory")
	}
	for _, index := range [][2]int{{-1, 0}, {3, 0}, {0, -1}, {0, 2}} {
		func() {
			defer func() {
				if _, ok := recover().(mat.Error); !ok {
					t.Errorf("At%v does not panic as gonum does", index)
				}
			}()
			m.At(index[0], index[1])
		}()
	}
}

func TestRefusals(t *testing.T) {
	keep := coretest.Keep(t)
	base := keep(core.FromSlice(numbers(12), 3, 4))
	closed := keep(core.FromSlice(numbers(12), 3, 4))
	closed.Close()
	backward := keep(base.Slice(0, 2, -1, -1))
	row := keep(base.Slice(0, 0, 1, 1))
	memory, err := base.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	overlapping := keep(core.NewTensor(memory, core.Spec{DType: core.TypeFloat64, Shape: []int64{3, 4}, Strides: []int64{2, 1}}))
	unaligned := keep(core.NewTensor(memory, core.Spec{DType: core.TypeFloat64, Shape: []int64{1, 2}, Offset: 4}))
	device := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
	for name, c := range map[string]struct {
		tensor *core.Tensor
		want   error
	}{
		"nil":          {nil, core.ErrInvalid},
		"closed":       {closed, core.ErrClosed},
		"float32":      {keep(core.FromSlice(make([]float32, 12), 3, 4)), core.ErrDType},
		"one axis":     {keep(base.Reshape(12)), core.ErrLayout},
		"no axis":      {keep(core.FromSlice([]float64{1}, []int64{}...)), core.ErrLayout},
		"transposed":   {keep(base.Transpose()), core.ErrLayout},
		"backward":     {backward, core.ErrLayout},
		"columns back": {keep(base.Slice(1, 3, -1, -1)), core.ErrLayout},
		"every second": {keep(base.Slice(1, 0, 4, 2)), core.ErrLayout},
		"broadcast":    {keep(row.Broadcast(5, 4)), core.ErrLayout},
		"overlapping":  {overlapping, core.ErrLayout},
		"unaligned":    {unaligned, core.ErrLayout},
		"read-only":    {keep(base.AsReadOnly()), core.ErrReadOnly},
		"device":       {keep(core.Empty(t.Context(), device, core.TypeFloat64, []int64{3, 4}, core.AllocOptions{})), core.ErrDevice},
	} {
		_, release, err := ToDense(c.tensor)
		coretest.WantError(t, err, c.want, name)
		if release != nil {
			t.Errorf("%s: a function comes with the error", name)
		}
		_, release, err = ToGeneral[blas64.General](c.tensor)
		coretest.WantError(t, err, c.want, name)
		if release != nil {
			t.Errorf("%s: a function comes with the error", name)
		}
	}
	for name, c := range map[string]struct {
		g    blas64.General
		want error
	}{
		"short":         {blas64.General{Rows: 3, Cols: 4, Stride: 4, Data: numbers(11)}, core.ErrLayout},
		"negative rows": {blas64.General{Rows: -1, Cols: 4, Stride: 4, Data: numbers(11)}, core.ErrLayout},
		"negative cols": {blas64.General{Rows: 1, Cols: -4, Stride: 4, Data: numbers(11)}, core.ErrLayout},
		"stride":        {blas64.General{Rows: 3, Cols: 4, Stride: 3, Data: numbers(12)}, core.ErrLayout},
		"no stride":     {blas64.General{Rows: 3, Cols: 4, Data: numbers(12)}, core.ErrLayout},
		"huge":          {blas64.General{Rows: math.MaxInt, Cols: math.MaxInt, Stride: math.MaxInt, Data: numbers(12)}, core.ErrLayout},
	} {
		_, err := FromGeneral(c.g)
		coretest.WantError(t, err, c.want, name)
	}
	for name, v := range map[string]blas64.Vector{
		"no increment": {N: 2, Data: numbers(3)},
		"short":        {N: 3, Inc: 2, Data: numbers(4)},
		"short back":   {N: 3, Inc: -2, Data: numbers(4)},
		"negative":     {N: -1, Inc: 1, Data: numbers(4)},
		"huge":         {N: math.MaxInt, Inc: math.MaxInt, Data: numbers(4)},
		"huge back":    {N: math.MaxInt, Inc: math.MinInt, Data: numbers(4)},
		"empty back":   {N: 1, Inc: -1},
	} {
		_, err := FromVector(v)
		coretest.WantError(t, err, core.ErrLayout, name)
	}
	_, err = FromDense(nil)
	coretest.WantError(t, err, core.ErrInvalid, "FromDense(nil)")
	_, err = FromCDense(nil)
	coretest.WantError(t, err, core.ErrInvalid, "FromCDense(nil)")
	_, err = FromVecDense(nil)
	coretest.WantError(t, err, core.ErrInvalid, "FromVecDense(nil)")
	_, err = CopyMatrix(nil)
	coretest.WantError(t, err, core.ErrInvalid, "CopyMatrix(nil)")
}

// Tensors with axes of extent 0 or 1 have strides that mean nothing.
func TestSmall(t *testing.T) {
	for _, shape := range [][]int64{{0, 0}, {0, 3}, {3, 0}} {
		m, release, err := ToDense(coretest.Keep(t)(core.FromSlice([]float64{}, shape...)))
		if err != nil || !m.IsEmpty() {
			t.Fatalf("%v: %v", shape, err)
		}
		release()
	}
	if _, release, err := ToDense(coretest.Keep(t)(core.FromSliceStrided([]float64{}, 0, []int64{0, 3}, []int64{1, 5}))); err != nil {
		t.Fatal(err) // strides of no elements mean nothing
	} else {
		release()
	}
	x := coretest.Keep(t)(FromDense(new(mat.Dense)))
	if !slices.Equal(x.Shape(), []int64{0, 0}) {
		t.Fatalf("the empty matrix has shape %v", x.Shape())
	}
	coretest.Keep(t)(FromVecDense(new(mat.VecDense)))
	data := numbers(3)
	for _, c := range []struct{ shape, strides []int64 }{
		{[]int64{1, 3}, []int64{-7, 1}}, {[]int64{1, 1}, []int64{0, -9}}, {[]int64{3, 1}, []int64{1, 5}},
	} {
		x := coretest.Keep(t)(core.FromSliceStrided(data, 0, c.shape, c.strides))
		m, release, err := ToDense(x)
		if err != nil {
			t.Fatal(c, err)
		}
		rows, cols := m.Dims()
		if got := m.At(rows-1, cols-1); got != data[rows*cols-1] {
			t.Errorf("%v: the last element is %v", c, got)
		}
		release()
	}
}

func TestCopies(t *testing.T) {
	ctx := t.Context()
	base := coretest.Keep(t)(core.FromSlice(numbers(6), 2, 3))
	turned := coretest.Keep(t)(base.Transpose())
	want := mat.NewDense(3, 2, []float64{0, 3, 1, 4, 2, 5})
	got, err := CopyDense(ctx, turned)
	if err != nil || !mat.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	integers := coretest.Keep(t)(turned.AsType(ctx, core.TypeInt16))
	if got, err = CopyDense(ctx, integers); err != nil || !mat.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	d := coretest.OpenSimulated(t, coretest.Options{Submit: stream.Submit, Log: t.Logf})
	there := coretest.Keep(t)(core.Empty(ctx, d, core.TypeFloat64, []int64{3, 2}, core.AllocOptions{}))
	if err := d.Copy(ctx, nil, there, turned); err != nil {
		t.Fatal(err)
	}
	if got, err = CopyDense(ctx, there); err != nil || !mat.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	if got, err = CopyDense(ctx, coretest.Keep(t)(there.AsType(ctx, core.TypeInt16))); err != nil || !mat.Equal(got, want) {
		t.Fatalf("%v, %v", got, err)
	}
	if got, err = CopyDense(ctx, coretest.Keep(t)(core.FromSlice([]float64{}, 0, 3))); err != nil || !got.IsEmpty() {
		t.Fatalf("%v, %v", got, err)
	}

	symmetric := mat.NewSymDense(2, []float64{1, 2, math.NaN(), 3}) // the lower triangle is not used
	x := coretest.Keep(t)(CopyMatrix(symmetric))
	if s, err := core.Values[float64](x); err != nil || !slices.Equal(s, []float64{1, 2, 2, 3}) {
		t.Fatalf("%v, %v", s, err)
	}
	coretest.Keep(t)(CopyMatrix(new(mat.Dense)))
}

// A matrix is handed out only when the work on its memory is done, and not if the last write failed.
func TestWaits(t *testing.T) {
	x := coretest.Keep(t)(core.FromSlice(make([]float64, 1), 1, 1))
	b, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	write := stream.NewEvent()
	b.Wrote(write)
	go func() {
		m, err := core.MutableWithoutWaiting[float64](x)
		if err == nil {
			m[0] = 7
		}
		write.Complete(err)
	}()
	m, release, err := ToDense(x)
	if err != nil || m.At(0, 0) != 7 {
		t.Fatalf("%v", err)
	}
	release()

	failed := stream.NewEvent()
	b.Wrote(failed)
	failed.Complete(core.ErrDeviceLost)
	if _, _, err = ToDense(x); !errors.Is(err, core.ErrDeviceLost) {
		t.Fatalf("the error is %v", err)
	}
	if _, _, err = ToMatrix(x); !errors.Is(err, core.ErrDeviceLost) {
		t.Fatalf("the error is %v", err)
	}
}
