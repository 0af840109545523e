package core

import "context"

// CheckCopy checks that the elements of src can be copied into dst. Every implementation
// of [Device.Copy] calls it first. It returns
//
//   - ErrInvalid if a tensor is nil, or ErrClosed if one is closed;
//   - ErrReadOnly if dst is read-only;
//   - ErrDType if the element types differ, or only one tensor is padded;
//   - ErrLayout if the shapes differ, dst repeats elements, or the tensors overlap, which
//     means that they share bytes but are not the same elements. To copy between
//     overlapping tensors, copy through a third one.
//
// Tensors may share bytes although their addresses or handles differ. Examples are
// device memory and the host's view of it, host memory that is mapped into two devices,
// and memory that was exported and imported again. CheckCopy compares everything that both
// tensors have of these:
//
//   - the buffer that their memory was made from ([Buffer.OrderWith]);
//   - the address or handle on one device;
//   - the address on the host ([Memory.Host]);
//   - the imported file ([Memory.Backing]).
//
// It cannot detect an overlap of tensors that have none of these in common. A program that
// maps one file twice must therefore set Backing in the Memory of both.
//
// Within one object or address space, CheckCopy compares the ranges of bytes from the
// first to the last element. It therefore also refuses interleaved views of one object,
// such as the even and the odd columns of a matrix.
//
// If same is true, the tensors are the same elements and no bytes need to be copied. One
// of them may still have work that is not recorded on the other; call SubmitSame of
// package stream to order that work.
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
	return relate(dst, src, db, sb).result()
}

// CheckCopyOnHost is like [CheckCopy], but compares the tensors only by their addresses on
// the host. A device calls it after CheckCopy for memory of other libraries whose host
// address only the device knows. dstAddress and srcAddress are the addresses of the
// memory; the first elements lie dst.Offset and src.Offset bytes after them. An address of
// 0 means unknown; CheckCopyOnHost then returns false and no error.
func CheckCopyOnHost(dst, src *Tensor, dstAddress, srcAddress uintptr) (same bool, err error) {
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
