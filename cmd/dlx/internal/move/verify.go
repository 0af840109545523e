package move

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/memfault"
)

// MismatchError is the error for a tensor whose elements differ from those at the start.
type MismatchError struct {
	Tensor string  `json:"-"`
	Trip   int     `json:"trip"`  // counted from 1
	Hop    int     `json:"hop"`   // counted from 1
	Index  []int64 `json:"index"` // position of the first element that differs
	Want   string  `json:"want"`  // the bytes of that element in memory, in hexadecimal
	Got    string  `json:"got"`
}

var _ error = (*MismatchError)(nil)

// Error names the tensor, the hop and the first element that differs.
func (e *MismatchError) Error() string {
	if e == nil {
		return "<nil>"
	}
	return fmt.Sprintf("tensor %q differs after hop %d of trip %d: element %v has bytes %s, the file has %s", e.Tensor, e.Hop, e.Trip, e.Index, e.Got, e.Want)
}

// asMismatch returns err as a MismatchError, nil if it is another error.
func asMismatch(err error) *MismatchError {
	var m *MismatchError
	errors.As(err, &m)
	return m
}

// verify compares the elements after hop i with those at the start, if Options.Verify is set.
func (j *journey) verify(ctx context.Context, i int, t *core.Tensor) error {
	if !j.opts.Verify {
		return nil
	}
	host, err := j.Fetch(ctx, t)
	if err != nil {
		return err
	}
	defer host.Close()
	got, err := rowMajor(host)
	if err != nil {
		return err
	}
	var mismatch *MismatchError
	gone := memfault.Guard(
		func(address uintptr) bool { return memfault.Within(j.want)(address) || memfault.Within(got)(address) },
		func() { mismatch = j.compare(i, t, got) },
	)
	if gone != nil {
		return unreadable(gone)
	}
	intact := mismatch == nil
	j.hops[i].Verified = &intact
	if intact {
		return nil
	}
	return mismatch
}

// compare compares the elements of t with those at the start. got are their bytes.
func (j *journey) compare(i int, t *core.Tensor, got []byte) *MismatchError {
	element, differs := firstDifference(j.want, got, storageBits(t), t.NumElements())
	if !differs {
		return nil
	}
	return &MismatchError{
		Tensor: j.name,
		Trip:   j.trips,
		Hop:    i + 1,
		Index:  unravel(element, t.Layout()),
		Want:   hex.EncodeToString(elementBytes(j.want, element, storageBits(t))),
		Got:    hex.EncodeToString(elementBytes(got, element, storageBits(t))),
	}
}

// unreadable returns the error for memory that cannot be read, such as that of a truncated file.
func unreadable(gone error) error {
	return core.Errorf(core.ErrInvalid, "move", "Verify", "the elements cannot be compared: %v", gone)
}

// rowMajor returns the bytes of the elements of a tensor in host memory, in row-major order. They
// are the memory of the tensor, valid while it is open, or a copy if the order differs. rowMajor
// does not copy with devices, because their copies are what is verified.
func rowMajor(t *core.Tensor) ([]byte, error) {
	b, err := t.Buffer()
	if err != nil || t.NumElements() == 0 {
		return nil, err
	}
	asBytes := core.Spec{
		DType:  core.TypeUint8,
		Shape:  []int64{t.NumBytes()},
		Offset: t.Offset() - b.Memory().Offset,
		Flags:  core.FlagReadOnly,
	}
	if !t.Layout().IsContiguous() {
		width := storageBits(t)
		if width%8 != 0 {
			return nil, core.Errorf(core.ErrNotSupported, "move", "Verify", "packed %v with strides %v cannot be compared", t.DType(), t.Layout().Strides())
		}
		l, err := t.Layout().Squeeze() // makes room for one more axis: 64 axes with extents above 1 have too many elements
		if err != nil {
			return nil, err
		}
		asBytes.Shape = append(l.Shape(), width/8)
		asBytes.Strides = append(l.Strides(), 1)
		for i := range l.Rank() {
			asBytes.Strides[i] *= width / 8
		}
	}
	view, err := core.NewTensor(b, asBytes)
	if err != nil {
		return nil, err
	}
	defer view.Close() // t keeps the memory alive
	if asBytes.Strides == nil {
		return core.Values[uint8](view)
	}
	elements, err := core.All[uint8](view)
	if err != nil {
		return nil, err
	}
	var gathered []byte
	memory := b.Memory()
	if gone := memfault.Guard(
		memfault.Between(memory.Handle+uintptr(memory.Offset), uintptr(memory.Size)),
		func() { gathered = slices.AppendSeq(make([]byte, 0, view.NumElements()), elements) },
	); gone != nil {
		return nil, unreadable(gone)
	}
	return gathered, nil
}

// storageBits returns the distance in bits between contiguous elements.
func storageBits(t *core.Tensor) int64 {
	if t.Padded() && t.DType().SubByte() {
		return 8 * int64(t.DType().Lanes)
	}
	return t.DType().ElementBits()
}

// firstDifference returns the index of the first of n elements of width bits that differs. It
// ignores bits after the last element.
func firstDifference(want, got []byte, width, n int64) (element int64, differs bool) {
	if bytes.Equal(want, got) {
		return 0, false
	}
	for i := range want {
		if x := want[i] ^ got[i]; x != 0 {
			element = (int64(i)*8 + int64(bits.TrailingZeros8(x))) / width
			return element, element < n
		}
	}
	return 0, false
}

// elementBytes returns the bytes that hold an element. Elements of fewer than 8 bits share bytes.
func elementBytes(data []byte, element, width int64) []byte {
	first := element * width
	return data[first/8 : (first+width+7)/8]
}

// unravel converts the position of an element in row-major order to an index for each axis.
func unravel(element int64, l core.Layout) []int64 {
	index := make([]int64, l.Rank())
	for axis := l.Rank() - 1; axis >= 0; axis-- {
		index[axis] = element % l.Dim(axis)
		element /= l.Dim(axis)
	}
	return index
}
