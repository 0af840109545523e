package gonum

import (
	"github.com/dlx-go/dlx/core"
	"gonum.org/v1/gonum/mat"
)

// ToMatrix returns a matrix to read from on the memory of t, a tensor of float64 with two axes. The strides may be
// any, and t may be read-only: it suits transposed, reversed and broadcast tensors, and mapped files. Operations of
// gonum read such a matrix element by element, which is slower than to read a mat.Dense. ToMatrix waits for the last
// write, as core.Values does.
//
// As for every matrix of gonum, At panics if an index is out of range. After release the matrix is empty.
func ToMatrix(t *core.Tensor) (m mat.Matrix, release func(), err error) {
	const call = "ToMatrix"
	if err := check(call, t, 2); err != nil {
		return nil, nil, err
	}
	data, first, free, err := core.Span[float64](t)
	if err != nil {
		return nil, nil, explain[float64](call, t, err)
	}
	l := t.Layout()
	v := &view{data: data, first: int(first), rows: int(l.Dim(0)), cols: int(l.Dim(1)), row: int(l.Stride(0)), col: int(l.Stride(1))}
	return v, shared[float64]{free: free}.release(func() { *v = view{} }), nil
}

// view is a matrix with any strides, which count elements.
type view struct {
	data                 []float64
	first                int // the position of the first element in data
	rows, cols, row, col int
}

var _ mat.Matrix = (*view)(nil)

// Dims returns the number of rows and of columns.
func (v *view) Dims() (r, c int) { return v.rows, v.cols }

// At returns an element.
func (v *view) At(i, j int) float64 {
	if uint(i) >= uint(v.rows) {
		panic(mat.ErrRowAccess)
	}
	if uint(j) >= uint(v.cols) {
		panic(mat.ErrColAccess)
	}
	return v.data[v.first+i*v.row+j*v.col]
}

// T returns the transpose, on the same memory.
func (v *view) T() mat.Matrix { return mat.Transpose{Matrix: v} }
