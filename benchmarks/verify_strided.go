package benchmarks

import (
	"bytes"

	"github.com/dlx-go/dlx/core"
)

// verifyStrided returns a function that changes dst, a whole tensor in a row, has again write it, and compares it
// with the elements of a view. base is the row-major tensor of the host, and of is the view of it.
func (e *env) verifyStrided(d core.Device, dst, base, of *core.Tensor, again func() error) func() (*Mismatch, error) {
	return func() (*Mismatch, error) {
		written, err := e.bytesOf(d, dst)
		if err != nil {
			return nil, err
		}
		defer written.tensor.Close()
		read, err := e.bytesOf(nil, base)
		if err != nil {
			return nil, err
		}
		defer read.tensor.Close()
		elements, err := core.Values[uint8](read.host)
		if err != nil {
			return nil, err
		}
		want := gathered(elements, of, of.Offset()-base.Offset())
		if err := e.write(written, beforeSeed); err != nil {
			return nil, err
		}
		if err := again(); err != nil {
			return nil, err
		}
		return e.checkBytes(written, func(got []byte) *Mismatch {
			if bytes.Equal(want, got) {
				return nil
			}
			before := make([]byte, len(got))
			fill(before, beforeSeed)
			return explain(want, got, before)
		})
	}
}

// bytesOf returns the bytes of a tensor, which begins where its memory does, as a tensor on that memory. The caller closes it.
func (e *env) bytesOf(d core.Device, t *core.Tensor) (place, error) {
	b, err := t.Buffer()
	if err != nil {
		return place{}, err
	}
	whole, err := core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: []int64{t.NumBytes()}})
	if err != nil {
		return place{}, err
	}
	return arrivedAt(d, whole), nil
}

// gathered returns the elements of a view in a row, one after the other, so that it has nothing in common with what it checks.
// The view's first element is at offset bytes of base.
func gathered(base []byte, of *core.Tensor, offset int64) []byte {
	if of.IsEmpty() {
		return nil
	}
	row := make([]byte, 0, of.NumBytes())
	size := of.NumBytes() / of.NumElements()
	var axis func(at int64, shape, strides []int64)
	axis = func(at int64, shape, strides []int64) {
		if len(shape) == 0 {
			row = append(row, base[at:at+size]...)
			return
		}
		for range shape[0] {
			axis(at, shape[1:], strides[1:])
			at += strides[0] * size
		}
	}
	axis(offset, of.Shape(), of.Layout().Strides())
	return row
}
