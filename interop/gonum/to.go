package gonum

import (
	"context"
	"errors"
	"sync"

	"github.com/dlx-go/dlx/core"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/cblas128"
	"gonum.org/v1/gonum/blas/cblas64"
	"gonum.org/v1/gonum/mat"
)

// ToDense returns a matrix on the memory of t, a tensor of float64 with two axes. Without elements it is the empty
// matrix. release empties the matrix and releases the memory; calling it again does nothing.
func ToDense(t *core.Tensor) (m *mat.Dense, release func(), err error) {
	s, err := shareGeneral[float64]("ToDense", t)
	if err != nil {
		return nil, nil, err
	}
	m = new(mat.Dense)
	if len(s.data) > 0 {
		m.SetRawMatrix(blas64.General{Rows: s.rows, Cols: s.cols, Stride: s.stride, Data: s.data})
	}
	return m, s.release(func() { m.SetRawMatrix(blas64.General{}) }), nil
}

// ToCDense is like ToDense for a tensor of complex128.
func ToCDense(t *core.Tensor) (m *mat.CDense, release func(), err error) {
	s, err := shareGeneral[complex128]("ToCDense", t)
	if err != nil {
		return nil, nil, err
	}
	m = new(mat.CDense)
	if len(s.data) > 0 {
		m.SetRawCMatrix(cblas128.General{Rows: s.rows, Cols: s.cols, Stride: s.stride, Data: s.data})
	}
	return m, s.release(func() { m.SetRawCMatrix(cblas128.General{}) }), nil
}

// ToVecDense returns a vector on the memory of t, a tensor of float64 with one axis and a positive stride. release
// empties the vector and releases the memory; calling it again does nothing.
func ToVecDense(t *core.Tensor) (v *mat.VecDense, release func(), err error) {
	const call = "ToVecDense"
	s, err := shareVector[float64](call, t)
	if err != nil {
		return nil, nil, err
	}
	if s.stride < 0 {
		s.release(nil)()
		return nil, nil, core.Errorf(core.ErrLayout, "gonum", call, "mat.VecDense has no negative stride, such as %d: use ToVector, or a copy", s.stride)
	}
	v = new(mat.VecDense)
	if len(s.data) > 0 {
		v.SetRawVector(blas64.Vector{N: s.rows, Inc: s.stride, Data: s.data})
	}
	return v, s.release(func() { v.SetRawVector(blas64.Vector{}) }), nil
}

// ToGeneral returns a matrix on the memory of t, a tensor with two axes whose element type is that of G. release
// releases the memory; calling it again does nothing. The matrix must not be used after that.
func ToGeneral[G General](t *core.Tensor) (g G, release func(), err error) {
	const call = "ToGeneral"
	switch p := any(&g).(type) {
	case *blas32.General:
		s, err := shareGeneral[float32](call, t)
		*p = blas32.General{Rows: s.rows, Cols: s.cols, Stride: s.stride, Data: s.data}
		return g, s.release(nil), err
	case *cblas64.General:
		s, err := shareGeneral[complex64](call, t)
		*p = cblas64.General{Rows: s.rows, Cols: s.cols, Stride: s.stride, Data: s.data}
		return g, s.release(nil), err
	case *cblas128.General:
		s, err := shareGeneral[complex128](call, t)
		*p = cblas128.General{Rows: s.rows, Cols: s.cols, Stride: s.stride, Data: s.data}
		return g, s.release(nil), err
	default:
		s, err := shareGeneral[float64](call, t)
		*p.(*blas64.General) = blas64.General{Rows: s.rows, Cols: s.cols, Stride: s.stride, Data: s.data}
		return g, s.release(nil), err
	}
}

// ToVector returns a vector on the memory of t, a tensor with one axis whose element type is that of V. A negative
// stride becomes a negative Inc. release releases the memory; calling it again does nothing. The vector must not be
// used after that.
func ToVector[V Vector](t *core.Tensor) (v V, release func(), err error) {
	const call = "ToVector"
	switch p := any(&v).(type) {
	case *blas32.Vector:
		s, err := shareVector[float32](call, t)
		*p = blas32.Vector{N: s.rows, Inc: s.stride, Data: s.data}
		return v, s.release(nil), err
	case *cblas64.Vector:
		s, err := shareVector[complex64](call, t)
		*p = cblas64.Vector{N: s.rows, Inc: s.stride, Data: s.data}
		return v, s.release(nil), err
	case *cblas128.Vector:
		s, err := shareVector[complex128](call, t)
		*p = cblas128.Vector{N: s.rows, Inc: s.stride, Data: s.data}
		return v, s.release(nil), err
	default:
		s, err := shareVector[float64](call, t)
		*p.(*blas64.Vector) = blas64.Vector{N: s.rows, Inc: s.stride, Data: s.data}
		return v, s.release(nil), err
	}
}

// CopyDense returns a matrix with a copy of the elements of t, a tensor with two axes. The strides may be any, and t may
// be on any opened device. The elements become float64 as by core.Convert. The matrix belongs to the caller and does not
// depend on t. CopyDense blocks until the elements are there, or returns ctx's
// error if ctx ends first.
func CopyDense(ctx context.Context, t *core.Tensor) (*mat.Dense, error) {
	const call = "CopyDense"
	if err := check(call, t, 2); err != nil {
		return nil, err
	}
	if t.DType() != core.TypeFloat64 {
		converted, err := t.AsType(ctx, core.TypeFloat64)
		if err != nil {
			return nil, named(call, err)
		}
		defer converted.Close()
		t = converted
	}
	data, err := core.ToSlice[float64](ctx, t)
	if err != nil {
		return nil, named(call, err)
	}
	if len(data) == 0 {
		return new(mat.Dense), nil
	}
	l := t.Layout()
	return mat.NewDense(int(l.Dim(0)), int(l.Dim(1)), data), nil
}

// shared is the memory of a tensor as gonum describes it. A vector has rows only.
type shared[T core.Element] struct {
	rows, cols, stride int
	data               []T
	free               func() // releases the memory; nil if nothing is shared
}

// release returns a function that calls clean, if it is not nil, and then releases the memory, once.
func (s shared[T]) release(clean func()) func() {
	if s.free == nil || clean == nil {
		return s.free
	}
	return sync.OnceFunc(func() {
		clean()
		s.free()
	})
}

func shareGeneral[T core.Element](call string, t *core.Tensor) (shared[T], error) {
	if err := check(call, t, 2); err != nil {
		return shared[T]{}, err
	}
	l := t.Layout()
	rows, cols, stride := l.Dim(0), l.Dim(1), l.Stride(0)
	switch {
	case rows <= 1 || cols == 0: // the stride has no effect
		stride = max(cols, 1)
	case cols > 1 && l.Stride(1) == 1 && stride >= cols, cols == 1 && stride >= 1:
	case cols > 1 && l.Stride(0) == 1 && l.Stride(1) >= rows:
		return shared[T]{}, core.Errorf(core.ErrLayout, "gonum", call, "the columns are adjacent, not the rows (strides %v): pass the result of Transpose, and use the T method of the matrix, or use a copy", l.Strides())
	default:
		return shared[T]{}, core.Errorf(core.ErrLayout, "gonum", call, "shape %v with strides %v has no adjacent rows that do not overlap: use a copy, such as that of Contiguous or CopyDense", l.Shape(), l.Strides())
	}
	if rows > 0 && cols > 1 && l.Stride(1) != 1 {
		return shared[T]{}, core.Errorf(core.ErrLayout, "gonum", call, "the elements of a row are %d elements apart: use a copy, such as that of Contiguous or CopyDense", l.Stride(1))
	}
	return share(call, t, shared[T]{rows: int(rows), cols: int(cols), stride: int(stride)})
}

func shareVector[T core.Element](call string, t *core.Tensor) (shared[T], error) {
	if err := check(call, t, 1); err != nil {
		return shared[T]{}, err
	}
	n, stride := t.Layout().Dim(0), t.Layout().Stride(0)
	if n <= 1 {
		stride = 1
	}
	if stride == 0 {
		return shared[T]{}, core.Errorf(core.ErrLayout, "gonum", call, "the tensor repeats one element: use a copy, such as that of Contiguous")
	}
	return share(call, t, shared[T]{rows: int(n), stride: int(stride)})
}

// check checks what does not depend on the element type.
func check(call string, t *core.Tensor, rank int) error {
	if t == nil {
		return isNil(call)
	}
	if t.Rank() != rank {
		return core.Errorf(core.ErrLayout, "gonum", call, "the tensor has shape %v, but %d axes are needed: use Index, Squeeze or Reshape", t.Shape(), rank)
	}
	for _, n := range t.Shape() {
		if int64(int(n)) != n { // on 32 bits, of a tensor without elements
			return core.Errorf(core.ErrLayout, "gonum", call, "extent %d is too large", n)
		}
	}
	return nil
}

// share adds a reference to the memory of t, and sets data to the elements from the lowest to the highest address.
func share[T core.Element](call string, t *core.Tensor, s shared[T]) (shared[T], error) {
	var err error
	if s.data, _, s.free, err = core.MutableSpan[T](t); err != nil {
		return shared[T]{}, explain[T](call, t, err)
	}
	return s, nil
}

// explain says what to do about another element type, and about memory that the host cannot access.
func explain[T core.Element](call string, t *core.Tensor, err error) error {
	switch {
	case errors.Is(err, core.ErrDType):
		return core.Errorf(core.ErrDType, "gonum", call, "the tensor has %v, not %v: use AsType", t.DType(), core.DTypeOf[T]())
	case errors.Is(err, core.ErrDevice):
		return core.Errorf(core.ErrDevice, "gonum", call, "the tensor is on %v: move it to the host with exchange.To, or use CopyDense", t.DeviceID())
	}
	return named(call, err)
}
