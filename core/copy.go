package core

import "context"

// CheckCopy proves that the elements of src can be copied into dst, for every
// implementation of [Device.Copy]. It fails with ErrClosed, ErrDType if the types
// differ or only one is padded, ErrReadOnly, or ErrLayout if the shapes differ,
// dst repeats elements, or both share bytes without being the same elements: a
// third tensor between them helps then.
//
// Tensors may share bytes under different names: as memory of a device and the
// host's view of it, mapped into two devices, exported and imported again. CheckCopy
// compares them under each name that both have: what they were made of
// ([Buffer.OrderWith]), the address or handle on one device, the address on the host
// ([Memory.Host]), and the file that was imported ([Memory.Backing]). It cannot
// detect that two tensors of other libraries overlap if they have none of these in
// common: a file that a program maps twice by itself needs a Backing in its Memory.
// Within one object or address space, two tensors are taken to share bytes where the
// ranges that they reach over meet, so that interleaved views are refused, too.
//
// With same they are the same elements, and no bytes need to be copied. Work on the
// one may be unknown to the other then: what is left to do is
// github.com/dlx-go/dlx/stream.SubmitSame.
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
	}
	return relate(dst, src, db, sb).verdict()
}

// CheckCopyOnHost compares two tensors by their addresses on the host. Devices call it
// after [CheckCopy], for memory of other libraries whose address only the device knows:
// the elements of dst and src lie at dst.Offset and src.Offset behind the addresses.
// If an address is 0, which stands for unknown, it reports false and no error.
func CheckCopyOnHost(dst, src *Tensor, dstAddress, srcAddress uintptr) (same bool, err error) {
	if dst == nil || src == nil || dstAddress == 0 || srcAddress == 0 || dst.NumElements() == 0 {
		return false, nil
	}
	return compare(dst, src, int64(dstAddress)+dst.offset, int64(srcAddress)+src.offset, false).verdict()
}

func (r relation) verdict() (same bool, err error) {
	if r == meeting {
		return false, Errorf(ErrLayout, "core", "Copy", "dst and src share memory but are not the same elements: copy src to a third tensor, and that to dst")
	}
	return r == identical, nil
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
	if d == nil {
		return nil, Errorf(ErrInvalid, "core", "Empty", "the device is nil")
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
