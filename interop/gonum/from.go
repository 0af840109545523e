package gonum

import (
	"math"
	"reflect"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/hostmem"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/cblas128"
	"gonum.org/v1/gonum/blas/cblas64"
	"gonum.org/v1/gonum/mat"
)

// General is a matrix of one of gonum's packages for BLAS.
type General interface {
	blas32.General | blas64.General | cblas64.General | cblas128.General
}

// Vector is a vector of one of gonum's packages for BLAS. As in BLAS, the elements of a vector with a negative Inc
// are in the reverse order: the first one is the last of Data.
type Vector interface {
	blas32.Vector | blas64.Vector | cblas64.Vector | cblas128.Vector
}

// FromDense returns a tensor of shape (rows, columns) on the elements of m. The caller closes it. FromDense returns
// core.ErrInvalid if m is nil.
func FromDense(m *mat.Dense) (*core.Tensor, error) {
	if m == nil {
		return nil, isNil("FromDense")
	}
	g := m.RawMatrix()
	return fromGeneral("FromDense", g.Rows, g.Cols, g.Stride, g.Data)
}

// FromCDense is like FromDense for a complex matrix.
func FromCDense(m *mat.CDense) (*core.Tensor, error) {
	if m == nil {
		return nil, isNil("FromCDense")
	}
	g := m.RawCMatrix()
	return fromGeneral("FromCDense", g.Rows, g.Cols, g.Stride, g.Data)
}

// FromVecDense returns a tensor with one axis on the elements of v. The caller closes it. FromVecDense returns
// core.ErrInvalid if v is nil.
func FromVecDense(v *mat.VecDense) (*core.Tensor, error) {
	if v == nil {
		return nil, isNil("FromVecDense")
	}
	r := v.RawVector()
	return fromVector("FromVecDense", r.N, r.Inc, r.Data)
}

// FromGeneral returns a tensor of shape (Rows, Cols) on the elements of g. The caller closes it. FromGeneral returns
// core.ErrLayout if the rows overlap or leave Data, or if a number is negative.
func FromGeneral[G General](g G) (*core.Tensor, error) {
	const call = "FromGeneral"
	switch g := any(g).(type) {
	case blas32.General:
		return fromGeneral(call, g.Rows, g.Cols, g.Stride, g.Data)
	case cblas64.General:
		return fromGeneral(call, g.Rows, g.Cols, g.Stride, g.Data)
	case cblas128.General:
		return fromGeneral(call, g.Rows, g.Cols, g.Stride, g.Data)
	default:
		b := g.(blas64.General)
		return fromGeneral(call, b.Rows, b.Cols, b.Stride, b.Data)
	}
}

// FromVector returns a tensor with one axis on the elements of v. The caller closes it. FromVector returns
// core.ErrLayout if Inc is 0, N is negative, or the elements leave Data.
func FromVector[V Vector](v V) (*core.Tensor, error) {
	const call = "FromVector"
	switch v := any(v).(type) {
	case blas32.Vector:
		return fromVector(call, v.N, v.Inc, v.Data)
	case cblas64.Vector:
		return fromVector(call, v.N, v.Inc, v.Data)
	case cblas128.Vector:
		return fromVector(call, v.N, v.Inc, v.Data)
	default:
		b := v.(blas64.Vector)
		return fromVector(call, b.N, b.Inc, b.Data)
	}
}

func fromGeneral[T core.Element](call string, rows, cols, stride int, data []T) (*core.Tensor, error) {
	if rows > 1 && stride < cols {
		return nil, core.Errorf(core.ErrLayout, "gonum", call, "the rows overlap: stride %d is less than the %d columns", stride, cols)
	}
	t, err := core.FromSliceStrided(data, 0, []int64{int64(rows), int64(cols)}, []int64{int64(max(stride, 1)), 1})
	return t, named(call, err)
}

func fromVector[T core.Element](call string, n, inc int, data []T) (*core.Tensor, error) {
	if inc == 0 && n > 0 {
		return nil, core.Errorf(core.ErrLayout, "gonum", call, "the increment is 0")
	}
	first, last := 0, len(data)-1
	if inc < 0 && n > 0 {
		// Checked by division: the product may overflow.
		if n-1 > last/-inc {
			return nil, core.Errorf(core.ErrLayout, "gonum", call, "%d elements with increment %d leave the slice, which has %d", n, inc, len(data))
		}
		first = (n - 1) * -inc
	}
	t, err := core.FromSliceStrided(data, first, []int64{int64(n)}, []int64{int64(inc)})
	return t, named(call, err)
}

// CopyMatrix returns a tensor of shape (rows, columns) with a copy of all elements of m, which may be of any kind,
// such as mat.SymDense. The caller closes it. CopyMatrix returns core.ErrInvalid if m is nil, and core.ErrOutOfMemory if the
// copy does not fit into memory.
func CopyMatrix(m mat.Matrix) (*core.Tensor, error) {
	if nothing(m) {
		return nil, isNil("CopyMatrix")
	}
	rows, cols := m.Dims()
	if rows == 0 || cols == 0 { // gonum allocates no matrix without elements
		return core.FromSlice([]float64{}, int64(rows), int64(cols))
	}
	if int64(rows) > math.MaxInt64/8/int64(cols) {
		return nil, core.Errorf(core.ErrOutOfMemory, "gonum", "CopyMatrix", "%d times %d elements cannot be allocated", rows, cols)
	}
	if err := hostmem.Check(8 * int64(rows) * int64(cols)); err != nil {
		return nil, core.Errorf(core.ErrOutOfMemory, "gonum", "CopyMatrix", "%d times %d elements cannot be allocated: %v", rows, cols, err)
	}
	return FromDense(mat.DenseCopyOf(m))
}

// nothing reports whether m is nil, a nil pointer, or the transpose of such a matrix.
func nothing(m mat.Matrix) bool {
	v := reflect.ValueOf(m)
	if !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return true
	}
	t, ok := m.(mat.Untransposer)
	return ok && nothing(t.Untranspose())
}

func isNil(call string) error {
	return core.Errorf(core.ErrInvalid, "gonum", call, "the argument is nil")
}

// named returns the error of a function of core as an error of call.
func named(call string, err error) error {
	if err == nil {
		return nil
	}
	return core.Errorf(err, "gonum", call, "")
}
