package core

import (
	"context"
	"reflect"
	"runtime"

	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/internal/staging"
)

// Where no device converts, elements on a device are converted by the
// host: in place if the device is its processor, and else a piece at a time.

// convertibleBuffer returns the buffer of a tensor that the host reaches, or the opened device
// that it lies on.
func convertibleBuffer(t *Tensor, call string) (*Buffer, error) {
	b, err := t.buffer(call)
	if err == nil && !t.id.Type.HostAccessible() && t.owner(b) == nil {
		return nil, t.id.unreachable(call)
	}
	return b, err
}

// owner returns the opened device that t lies on, which copies it; nil if the host reaches t,
// or there is none. b is the buffer of t.
func (t *Tensor) owner(b *Buffer) Device {
	if d := b.mem.Device; d != nil && !t.id.Type.HostAccessible() && d.ID() == t.id {
		return d
	}
	return nil
}

// staged is a conversion of tensors that the host does not both reach.
type staged struct {
	ctx  context.Context
	call string
	to   Device // that dst lies on; nil if the host reaches it
	from Device // that src lies on

	in, out *Tensor // host memory for a piece before and after its conversion; nil before the first
}

// convertStaged converts src to dst, which lie in the memory of the buffers to and from, at
// least one of them on a device. A conversion exists. The result is that of convert.
func convertStaged(ctx context.Context, call string, dst, src *Tensor, to, from *Buffer, scaling Scaling) (by Device, err error) {
	s := &staged{ctx: ctx, call: call, to: dst.owner(to), from: src.owner(from)}
	defer s.close()
	if scaling.IsZero() && (s.to == nil || s.from == nil || reflect.TypeOf(s.to).Comparable() && s.to == s.from) {
		if done, err := s.copy(dst, src, from); done || err != nil {
			return nil, err
		}
	}
	if by, err := s.byDevice(dst, src, scaling); by != nil || err != nil {
		return by, err
	}
	if done, err := s.inViews(dst, src, to, from, scaling); done || err != nil {
		return nil, err
	}
	if s.from == nil {
		if err := src.waitFor(ctx, from, forReading); err != nil {
			return nil, err
		}
	}
	if s.to == nil {
		if err := dst.waitFor(ctx, to, forWriting); err != nil {
			return nil, err
		}
	}
	return nil, inParts(dst, src, scaling, staging.PieceBytes, s.piece)
}

func (s *staged) close() {
	_, _ = s.in.Close(), s.out.Close()
}

// copy has the device copy the elements, and reports true, if they are whole bytes that the
// conversion keeps. from is the buffer of src.
func (s *staged) copy(dst, src *Tensor, from *Buffer) (done bool, err error) {
	a, b := dst.dtype, src.dtype
	integer := func(c typecode.Code) bool { return c == typecode.Int || c == typecode.UInt }
	if a.SubByte() || a.Bits != b.Bits || a.Lanes != b.Lanes || a.Code != b.Code && !(integer(a.Code) && integer(b.Code)) {
		return false, nil
	}
	same, err := newTensor(s.call, from, Spec{DType: a, Shape: src.layout.shape(), Strides: src.layout.strides(), Offset: src.offset - from.mem.Offset, Flags: src.flags &^ FlagCopied})
	if err != nil {
		return false, err
	}
	defer same.Close()
	d := s.to
	if d == nil {
		d = s.from
	}
	return true, copyAll(s.ctx, d, nil, []*Tensor{dst}, []*Tensor{same})
}

// part converts a part of src to the same part of dst.
type part func(dst, src *Tensor, scaling Scaling) error

// inParts calls f for parts of a conversion. The larger side of each has at most limit bytes, unless it cannot be divided so.
func inParts(dst, src *Tensor, scaling Scaling, limit int64, f part) error {
	axis, step := -1, int64(0)
	if bytes := max(dst.NumBytes(), src.NumBytes()); bytes > limit {
		axis, step = divide(dst, src, bytes, limit)
	}
	if axis < 0 {
		return f(dst, src, scaling)
	}
	for i, n := int64(0), dst.layout.Dim(axis); i < n; i += step {
		if err := inPartsOfSlice(dst, src, axis, i, min(i+step, n), scaling, limit, f); err != nil {
			return err
		}
	}
	return nil
}

// divide returns the first axis along which tensors of one shape, of which the larger one has
// so many bytes, can be divided, and the extent of a part; -1 if there is none. The parts of
// packed tensors begin at bytes.
func divide(dst, src *Tensor, bytes, limit int64) (axis int, step int64) {
	for axis, n := range dst.layout.shape() {
		unit := int64(1)
		for _, t := range []*Tensor{dst, src} {
			for unit*(t.layout.Stride(axis)*t.dtype.storageBits(t.Padded())&7)&7 != 0 {
				unit *= 2
			}
		}
		step := max(unit, limit/max(1, bytes/max(1, n))/unit*unit)
		if step < n {
			return axis, step
		}
	}
	return -1, 0
}

// inPartsOfSlice calls inParts for a part of an axis.
func inPartsOfSlice(dst, src *Tensor, axis int, start, stop int64, scaling Scaling, limit int64, f part) error {
	d, err := dst.Slice(axis, start, stop, 1)
	if err != nil {
		return err
	}
	defer d.Close()
	x, err := src.Slice(axis, start, stop, 1)
	if err != nil {
		return err
	}
	defer x.Close()
	return inParts(d, x, scaling.part(axis, start, stop), limit, f)
}

// piece converts src to dst at once.
func (s *staged) piece(dst, src *Tensor, scaling Scaling) error {
	from, err := s.onHost(&s.in, s.from, src)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := s.onHost(&s.out, s.to, dst)
	if err != nil {
		return err
	}
	defer to.Close()
	if s.from != nil {
		if err := copyPacked(s.ctx, s.call, s.from, from, src); err != nil {
			return err
		}
	}
	if s.to != nil && dst.NumElements()%8*dst.dtype.storageBits(dst.Padded())%8 != 0 {
		if err := copyPacked(s.ctx, s.call, s.to, to, dst); err != nil { // the bits behind dst in its last byte
			return err
		}
	}
	if err := s.convert(to, from, scaling); err != nil || s.to == nil {
		return err
	}
	return copyPacked(s.ctx, s.call, s.to, dst, to)
}

// onHost returns t if it lies on no device, or else a row-major tensor like t in the memory of
// *buffer. The caller closes the result.
func (s *staged) onHost(buffer **Tensor, d Device, t *Tensor) (*Tensor, error) {
	if d == nil {
		return t.Share()
	}
	return s.like(buffer, t, func(n int64) (*Tensor, error) { return newHost(s.call, TypeUint8, []int64{n}, 0) })
}

// like returns a row-major tensor like t in the memory of *buffer. If that is too small, alloc makes another one. The
// caller closes the result.
func (s *staged) like(buffer **Tensor, t *Tensor, alloc func(bytes int64) (*Tensor, error)) (*Tensor, error) {
	n := t.NumBytes()
	if *buffer == nil || (*buffer).NumBytes() < n {
		_ = (*buffer).Close()
		var err error
		if *buffer, err = alloc(n); err != nil {
			return nil, err
		}
	}
	b, err := (*buffer).buffer(s.call)
	if err != nil {
		return nil, err
	}
	return newTensor(s.call, b, Spec{DType: t.dtype, Shape: t.layout.shape(), Flags: t.flags & FlagSubBytePadded})
}

// convert converts src to dst, which the host reaches.
func (s *staged) convert(dst, src *Tensor, scaling Scaling) error {
	to, err := dst.buffer(s.call)
	if err != nil {
		return err
	}
	from, err := src.buffer(s.call)
	if err != nil {
		return err
	}
	p, err := planConversion(s.call, dst, src, scaling)
	if err != nil {
		return err
	}
	err = p.run(s.ctx, s.call, dst, src, dst.first(to), src.first(from))
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return err
}
