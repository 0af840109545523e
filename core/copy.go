package core

import "context"

// CheckCopy is CheckCopy of package backendkit.
func (privateCore) CheckCopy(dst, src *Tensor) (same bool, err error) {
	fail := func(sentinel error, format string, args ...any) (bool, error) {
		return false, Errorf(sentinel, "core", "Copy", format, args...)
	}
	if dst == nil || src == nil {
		return fail(ErrInvalid, "dst or src is nil")
	}
	db, err := dst.Buffer()
	if err != nil {
		return false, err
	}
	sb, err := src.Buffer()
	if err != nil {
		return false, err
	}
	switch {
	case dst.ReadOnly():
		return fail(ErrReadOnly, "dst may only be read")
	case dst.dtype != src.dtype:
		return fail(ErrDType, "dst has %v, src has %v", dst.dtype, src.dtype)
	case dst.dtype.SubByte() && dst.Padded() != src.Padded():
		return fail(ErrDType, "dst and src store %v differently: one is packed, one padded", dst.dtype)
	case !dst.layout.SameShape(src.layout):
		return fail(ErrLayout, "dst has shape %v, src has %v", dst.layout.shape(), src.layout.shape())
	case dst.layout.HasOverlap():
		return fail(ErrLayout, "dst repeats elements: strides %v", dst.layout.strides())
	case dst.NumElements() == 0:
		return false, nil
	}
	return relate(dst, src, db, sb).result()
}

// CheckCopyOnHost is CheckCopyOnHost of package backendkit.
func (privateCore) CheckCopyOnHost(dst, src *Tensor, dstAddress, srcAddress uintptr) (same bool, err error) {
	if dst == nil || src == nil || dstAddress == 0 || srcAddress == 0 || dst.NumElements() == 0 {
		return false, nil
	}
	return compare(dst, src, int64(dstAddress)+dst.offset, int64(srcAddress)+src.offset, false).result()
}

// result returns the results of CheckCopy for a relation.
func (r relation) result() (same bool, err error) {
	if r == overlapping {
		return false, Errorf(ErrLayout, "core", "Copy", "dst and src share memory but are not the same elements: copy src to a third tensor, and that to dst")
	}
	return r == identical, nil
}

// Empty allocates a row-major tensor on d. Its elements are not initialized. The caller
// closes it. Empty returns ErrInvalid if d is nil, ErrLayout or ErrDType for an invalid
// shape or type, or the error of [Device.Alloc].
func Empty(ctx context.Context, d Device, dtype DType, shape []int64, opts AllocOptions) (*Tensor, error) {
	l, err := NewLayout(shape...)
	if err != nil {
		return nil, err
	}
	size, err := dtype.Size(l.NumElements(), false)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, Errorf(ErrInvalid, "core", "Empty", "the device is nil")
	}
	return newOn(ctx, "Empty", d, size, Spec{DType: dtype, Shape: shape}, opts)
}
