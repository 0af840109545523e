package coretest

import (
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// CopyNaive copies the elements of src into dst, both in memory that the host can
// reach or memory of this package's devices that has addresses: one element after
// the other, found by its index, without any cleverness. It is the oracle for
// copies that are fast. It waits for nothing, and fails like [core.CheckCopy].
func CopyNaive(dst, src *core.Tensor) error {
	if _, err := core.CheckCopy(dst, src); err != nil {
		return err
	}
	work, err := naiveCopy(dst, src, (*core.Tensor).Address)
	if err != nil {
		return err
	}
	return work()
}

// locator finds the address of a tensor's first element.
type locator func(*core.Tensor) (uintptr, error)

// naiveCopy prepares the copy of two tensors that were checked. The work needs
// their memory, but not the tensors. It holds memory of Go by pointers, so that a
// device which is late on purpose spoils no memory of others.
func naiveCopy(dst, src *core.Tensor, locate locator) (work func() error, err error) {
	to, from, err := locateBoth(dst, src, locate)
	if err != nil {
		return nil, err
	}
	// Eight elements take as many bytes as one takes bits.
	width, err := dst.DType().Size(8, dst.Padded())
	if err != nil {
		return nil, err
	}
	toLayout, fromLayout := dst.Layout(), src.Layout()
	index := make([]int64, dst.Rank())
	return func() error {
		for range toLayout.NumElements() {
			copyBits(to, from, offset(toLayout, index)*width, offset(fromLayout, index)*width, width)
			advance(index, toLayout)
		}
		return nil
	}, nil
}

// plainCopy is naiveCopy, or one move of bytes where both tensors lie in a row and
// share no byte with others: large tensors would take seconds otherwise.
func plainCopy(dst, src *core.Tensor, locate locator) (work func() error, err error) {
	n := dst.NumElements()
	bytes, whole := dst.DType().ItemSize()
	if n == 0 || !whole || dst.Padded() || !dst.Layout().IsContiguous() || !src.Layout().IsContiguous() {
		return naiveCopy(dst, src, locate)
	}
	to, from, err := locateBoth(dst, src, locate)
	if err != nil {
		return nil, err
	}
	return func() error {
		copy(unsafe.Slice(to, n*bytes), unsafe.Slice(from, n*bytes))
		return nil
	}, nil
}

// locateBoth finds the first bytes of two tensors, nil where they have no elements.
func locateBoth(dst, src *core.Tensor, locate locator) (to, from *byte, err error) {
	d, err := locate(dst)
	if err != nil {
		return nil, nil, err
	}
	s, err := locate(src)
	if err != nil || dst.IsEmpty() {
		return nil, nil, err
	}
	return at(d, 0), at(s, 0), nil
}

// offset is where the element at index lies, in elements.
func offset(l core.Layout, index []int64) int64 {
	var o int64
	for axis, i := range index {
		o += i * l.Stride(axis)
	}
	return o
}

// advance steps index to the next element in row-major order.
func advance(index []int64, l core.Layout) {
	for axis := len(index) - 1; axis >= 0; axis-- {
		if index[axis]++; index[axis] < l.Dim(axis) {
			return
		}
		index[axis] = 0
	}
}

// copyBits copies n bits that lie so many bits from two addresses. Bits of a byte
// count from the lowest.
func copyBits(to, from *byte, toBit, fromBit, n int64) {
	for n > 0 {
		d, s := byteAt(to, toBit>>3), byteAt(from, fromBit>>3)
		step := int64(1)
		if toBit%8 == 0 && fromBit%8 == 0 && n >= 8 {
			step = n &^ 7
			copy(unsafe.Slice(d, step/8), unsafe.Slice(s, step/8))
		} else if bit := byte(1) << (toBit & 7); *s>>(fromBit&7)&1 == 1 {
			*d |= bit
		} else {
			*d &^= bit
		}
		toBit, fromBit, n = toBit+step, fromBit+step, n-step
	}
}

func byteAt(p *byte, by int64) *byte { return (*byte)(unsafe.Add(unsafe.Pointer(p), by)) }

// deviceBit is set in the addresses of this package's devices, so that a host
// which uses one faults. It makes no address that a process can have.
const deviceBit = ^uintptr(0) >> 63 << 52

// at gives the byte at an address of the host or of a device.
func at(address uintptr, by int64) *byte {
	address = address&^deviceBit + uintptr(by)
	return *(**byte)(unsafe.Pointer(&address)) // outside of Go's heap, or kept alive by its owner
}
