package coretest

import (
	"unsafe"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// CopyNaive copies the elements of src into dst one by one. Tests compare fast copies with
// it. Both tensors must be host-accessible, or lie on this package's devices without
// Options.Opaque. CopyNaive does not wait for work. It returns the errors of
// [backendkit.CheckCopy].
func CopyNaive(dst, src *core.Tensor) error {
	if _, err := backendkit.CheckCopy(dst, src); err != nil {
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

// naiveCopy returns a function that copies src to dst, which CheckCopy has accepted. The
// function uses their memory, but not the tensors. It refers to memory of Go by pointers, so
// that the memory is not reused if the function runs late.
func naiveCopy(dst, src *core.Tensor, locate locator) (work func() error, err error) {
	to, from, err := locateBoth(dst, src, locate)
	if err != nil {
		return nil, err
	}
	// The size of eight elements in bytes equals the size of one in bits.
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

// plainCopy is naiveCopy, but copies all bytes at once if both tensors are contiguous and
// their elements are whole bytes. Large tensors would otherwise take seconds.
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

// locateBoth returns pointers to the first bytes of two tensors, nil if they have no elements.
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

// offset returns the position of the element at index, in elements from the first one.
func offset(l core.Layout, index []int64) int64 {
	var o int64
	for axis, i := range index {
		o += i * l.Stride(axis)
	}
	return o
}

// advance changes index to that of the next element in row-major order.
func advance(index []int64, l core.Layout) {
	for axis := len(index) - 1; axis >= 0; axis-- {
		if index[axis]++; index[axis] < l.Dim(axis) {
			return
		}
		index[axis] = 0
	}
}

// copyBits copies n bits from bit fromBit of from to bit toBit of to. The bits of a byte
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

// deviceBit is set in the addresses of this package's devices. No process has such addresses,
// so a host that uses one faults.
const deviceBit = ^uintptr(0) >> 63 << 52

// at returns a pointer to the byte that lies by bytes after an address of the host or of a
// device.
func at(address uintptr, by int64) *byte {
	address = address&^deviceBit + uintptr(by)
	return *(**byte)(unsafe.Pointer(&address)) // the memory is outside of Go's heap, or its owner keeps it alive
}
