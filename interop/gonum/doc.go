// Package gonum shares memory between tensors and the matrices and vectors of gonum.org/v1/gonum, both ways.
//
// # From gonum
//
// FromDense, FromCDense, FromVecDense, FromGeneral and FromVector return a tensor on the slice of the matrix or
// vector. Nothing is copied; a slice of a larger matrix becomes a tensor with strides. The caller closes the tensor.
// The slice stays alive and at its address until then. Do not use the matrix as the receiver of an operation that
// changes its size meanwhile: gonum may then give it another slice.
//
// # To gonum
//
// ToDense, ToCDense, ToVecDense, ToGeneral and ToVector return a matrix or vector on the memory of a tensor, and a
// function that releases that memory. They hold a reference of their own, so the tensor may be closed before. The
// memory is kept until release is called, even if the garbage collector finds the matrix unused: a forgotten release
// is a leak that core.Live shows, never a use of freed memory. After release the matrix is empty; copies of it, and
// views such as its Slice, must not be used any more. Do not use it as the receiver of an operation that changes its size:
// gonum then writes between the rows, to memory that may belong to others.
//
// They block until all work on the memory is done, as core.Mutable does, and return
//
//   - core.ErrInvalid or core.ErrClosed if the tensor is nil or closed;
//   - core.ErrDType if the elements have another type;
//   - core.ErrDevice if the host cannot access the memory: move the tensor with exchange.To first, or use CopyDense;
//   - core.ErrReadOnly for a tensor that may only be read;
//   - core.ErrLayout if gonum cannot express the strides.
//
// A matrix of gonum has rows whose elements are adjacent, and that do not overlap. CopyDense copies a tensor with any
// strides, from any device.
//
// # Triangles and bands
//
// Symmetric, triangular and banded matrices store only a part of their elements, so they share nothing with a tensor.
// CopyMatrix copies any matrix of gonum, with all its elements.
package gonum
