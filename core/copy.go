package core

import "context"

// CheckCopy proves that the elements of src can be copied into dst, for every
// implementation of [Device.Copy]. It fails with ErrClosed, ErrDType if the types
// differ or only one is padded, ErrReadOnly, or ErrLayout if the shapes differ,
// dst repeats elements, or both may share bytes without being the same elements:
// that is judged by the ranges they reach over, so that interleaved views of one
// memory are refused too. With same they are, and nothing needs to be copied.
func CheckCopy(dst, src *Tensor) (same bool, err error) {
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
	case (dst.id.Type.OpaqueHandle() || src.id.Type.OpaqueHandle()) && (dst.id != src.id || db.mem.Handle != sb.mem.Handle):
		return false, nil // different objects; their handles are no addresses to compare
	case dst.id != src.id && !(dst.id.Type.HostAccessible() && src.id.Type.HostAccessible()):
		return false, nil // different address spaces
	}
	dl, dh := dst.reach(db)
	sl, sh := src.reach(sb)
	if dh <= sl || sh <= dl {
		return false, nil
	}
	if dst.start(db) == src.start(sb) && dst.layout.sameSteps(src.layout) {
		return true, nil
	}
	return fail(ErrLayout, "dst and src share memory but are not the same elements: copy through a third tensor")
}

// start is where the first element lies: an address, or for opaque handles a
// number that can be compared within one handle only.
func (t *Tensor) start(b *Buffer) uint64 {
	if t.id.Type.OpaqueHandle() {
		return uint64(t.offset)
	}
	return uint64(b.mem.Handle) + uint64(t.offset)
}

// reach is the half-open range of bytes that the elements lie in, counted like start.
func (t *Tensor) reach(b *Buffer) (low, high uint64) {
	l, h := t.layout.Extent()
	first, last, _ := byteRange(t.dtype.storageBits(t.Padded()), l, h)
	return t.start(b) + uint64(first), t.start(b) + uint64(last)
}

// Empty allocates a row-major tensor whose elements are not set. The caller
// closes it. It fails like [Device.Alloc], and with ErrLayout or ErrDType for a
// bad shape or type.
func Empty(ctx context.Context, d Device, dtype DType, shape []int64, opts AllocOptions) (*Tensor, error) {
	l, err := NewLayout(shape...)
	if err != nil {
		return nil, err
	}
	size, err := dtype.Size(l.NumElements(), false)
	if err != nil {
		return nil, err
	}
	m, err := d.Alloc(ctx, size, opts)
	if err != nil {
		return nil, err
	}
	t, err := Wrap(m, Spec{DType: dtype, Shape: shape})
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}
