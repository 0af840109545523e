package core

import (
	"sync"
	"unsafe"
)

// Span returns the memory of a host-accessible tensor with any strides, from the element with
// the lowest address to the one with the highest, and the position of the first element of
// the tensor in it. It does not copy. It is for other descriptions of the same memory, such
// as an image with rows that have gaps between them. Only read from the slice; elements in
// the gaps belong to others, and must not be used.
//
// The slice stays valid after t is closed, until release is called: Span adds a reference to
// the memory. Without the call of release the memory is never freed. Calling release again
// does nothing.
//
// Span blocks and fails as [Values] does, but does not return ErrLayout for strides. On an
// error release is nil.
func Span[T Element](t *Tensor) (s []T, first int64, release func(), err error) {
	return spanOf[T](t, "Span", forReading)
}

// MutableSpan is like [Span], but the elements of the tensor may be written to. It blocks and
// fails as [Mutable] does, but does not return ErrLayout for strides.
func MutableSpan[T Element](t *Tensor) (s []T, first int64, release func(), err error) {
	if t != nil && t.ReadOnly() {
		return nil, 0, nil, readOnly("MutableSpan")
	}
	return spanOf[T](t, "MutableSpan", forWriting)
}

func spanOf[T Element](t *Tensor, call string, w waiting) (s []T, first int64, release func(), err error) {
	b, err := t.buffer(call)
	if err != nil {
		return nil, 0, nil, err
	}
	if err := b.Retain(); err != nil {
		return nil, 0, nil, err
	}
	p, err := firstElement[T](t, call, false, w)
	if err != nil {
		b.Release()
		return nil, 0, nil, err
	}
	low, high := t.layout.Extent()
	if p != nil {
		at := unsafe.Add(unsafe.Pointer(p), low*int64(unsafe.Sizeof(*p)))
		s = unsafe.Slice((*T)(at), high-low)
	}
	return s[:len(s):len(s)], -low, sync.OnceFunc(b.Release), nil
}
