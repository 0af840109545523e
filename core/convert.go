package core

import (
	"context"
	"unsafe"

	"github.com/dlx-go/dlx/core/typecode"
)

// Convert converts the elements of src to the element type of dst and writes them to dst.
// Both tensors have the same shape and share no memory; their strides may be any. Each is
// host-accessible or lies on an opened device. Convert blocks until the last write to src
// and all work on dst are done and the elements are converted, or returns ctx's error if ctx
// ends first.
//
// A device that is a [Converter] converts its own elements, and those that come from the host
// or go there, if that copies fewer bytes. It then holds a part of the smaller tensor, of at
// most 32 MiB, in memory of its own. If it has no memory for that or does not support the
// conversion after all, or if no device converts, the host does. Elements on a device are then
// copied to the host and back by that device, in pieces of a few MiB, which take turns with the
// conversion. If both types have the same bits, as int32 and uint32 do, the device copies the
// elements to dst instead.
//
// Bools, integers of 1 to 8, 16, 32 and 64 bits, and all floating-point types of DLPack
// convert to each other and to complex types. Complex types convert only to complex types.
// A type with several lanes is converted lane by lane. The rules are those of NumPy and of
// the Python package ml_dtypes:
//
//   - A floating-point number is rounded to the nearest, ties to even. A float64 that is
//     converted to a type of ml_dtypes (bfloat16, or a type of 8 bits or fewer) is rounded
//     to float32 first.
//   - A number that is too large becomes infinity, or NaN in a type without infinities, or
//     the largest number in a type with neither (float6 and float4). NaN stays NaN, but
//     becomes zero in float6 and float4.
//   - An integer that does not fit wraps around, as in a conversion in Go.
//   - A floating-point number that is converted to an integer is truncated towards zero. If
//     the result does not fit, which NumPy leaves undefined, it becomes the nearest integer
//     that fits. NaN becomes 0.
//   - A number that is converted to a bool becomes true unless it is 0. True converts to 1. Bools have 8 bits.
//
// Convert returns
//
//   - ErrInvalid if a tensor is nil, ErrClosed if one is closed, ErrReadOnly if dst is
//     read-only, or ErrDevice if neither the host nor an opened device can access a tensor;
//   - ErrDType if there is no such conversion;
//   - ErrLayout if the shapes differ, dst repeats elements, memory is not aligned for its
//     type, or the tensors share memory;
//   - the error of the last write to one of them, or an error of [Device.Copy];
//   - ErrOutOfMemory if there is no host memory for a piece.
//
// If Convert fails while it converts, some elements of dst are already converted.
func Convert(ctx context.Context, dst, src *Tensor) error {
	_, err := convert(ctx, "Convert", dst, src, Scaling{})
	return err
}

// AsType returns a new row-major tensor with the elements of t converted to another type. If
// t lies on an opened device whose memory the host does not access, the result lies on that
// device. Otherwise it lies in host memory. The caller closes it. AsType blocks, converts and
// fails as [Convert] does. It also returns ErrOutOfMemory, or an error of [Device.Alloc], if the
// memory of the result cannot be allocated.
func (t *Tensor) AsType(ctx context.Context, dtype DType) (*Tensor, error) {
	const call = "AsType"
	b, err := convertibleBuffer(t, call)
	if err != nil {
		return nil, err
	}
	var v *Tensor
	if d := t.owner(b); d != nil {
		var size int64
		if size, err = dtype.Size(t.NumElements(), false); err == nil {
			v, err = newOn(ctx, call, d, size, Spec{DType: dtype, Shape: t.layout.shape()}, AllocOptions{})
		}
	} else {
		v, err = newHost(call, dtype, t.layout.shape(), 0)
	}
	if err != nil {
		return nil, err
	}
	if err := Convert(ctx, v, t); err != nil {
		_ = v.Close()
		return nil, err
	}
	return v, nil
}

// hostBuffer returns the buffer of a host-accessible tensor.
func hostBuffer(t *Tensor, call string) (*Buffer, error) {
	b, err := t.buffer(call)
	if err == nil && !t.id.Type.HostAccessible() {
		return nil, t.id.unreachable(call)
	}
	return b, err
}

// first returns a pointer to the first element of t. b is the buffer of t and is
// host-accessible.
func (t *Tensor) first(b *Buffer) unsafe.Pointer { return pointer(b.mem.Handle + uintptr(t.offset)) }

// waitFor waits for work on b, which is the buffer of t, or until ctx ends.
func (t *Tensor) waitFor(ctx context.Context, b *Buffer, w waiting) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	switch {
	case !b.busy():
		return nil
	case w == forWriting:
		return t.WaitIdle(ctx)
	default:
		return t.WaitReady(ctx)
	}
}

// component describes the numbers that an element consists of. An element has one for each
// lane, and a complex lane has two.
type component struct {
	code    typecode.Code
	bits    int64
	count   int64 // number of components in an element
	stride  int64 // bits from one component to the next
	complex bool  // the components are real and imaginary parts
	padded  bool  // a component of fewer than 8 bits takes a byte
}

// wholeBytes reports whether components begin and end at bytes.
func (c component) wholeBytes() bool { return c.stride%8 == 0 }

// component describes the components of t's elements.
func (t *Tensor) component() component {
	c := component{code: t.dtype.Code, bits: int64(t.dtype.Bits), count: int64(t.dtype.Lanes)}
	switch c.code {
	case typecode.Complex:
		c = component{code: typecode.Float, bits: c.bits / 2, count: c.count * 2, complex: true}
	case typecode.Bcomplex:
		c = component{code: typecode.Bfloat, bits: c.bits / 2, count: c.count * 2, complex: true}
	}
	c.stride = c.bits
	if t.Padded() && t.dtype.SubByte() {
		c.stride, c.padded = 8, true
	}
	return c
}

// conversion holds what is needed to convert all elements of a tensor.
type conversion struct {
	axes     []stepping   // the axes to walk along, outermost first
	row      rowConverter // converts the components along the innermost axis
	zeroImag rowConverter // sets imaginary parts to 0; nil unless dst is complex and src is not
	imag     int64        // bits from the real part of an element of dst to its imaginary part
	skip     int64        // bits before the first component of dst
	blocks   *blocks      // converts the elements instead, if they are whole bytes
}

// stepping is an axis of two tensors: n components, dst bits apart in one tensor and src
// bits apart in the other.
type stepping struct{ n, dst, src int64 }

// rowConverter converts s.n components. The first component lies toBit bits after dst and
// fromBit bits after src. The following ones lie s.dst and s.src bits apart.
type rowConverter func(dst, src unsafe.Pointer, toBit, fromBit int64, s stepping)

// planConversion returns the conversion from src to dst. Their shapes are equal.
func planConversion(call string, dst, src *Tensor, s Scaling) (*conversion, error) {
	to, from := dst.component(), src.component()
	p := &conversion{}
	if !s.IsZero() {
		if err := s.check(call, dst.layout.shape()); err != nil {
			return nil, err
		}
		if err := scalable(call, dst, src); err != nil {
			return nil, err
		}
	}
	if dst.dtype.Lanes == src.dtype.Lanes && (to.complex || !from.complex) {
		p.row = converterOf(to, from)
	}
	if p.row == nil {
		return nil, Errorf(ErrDType, "core", call, "there is no conversion from %v to %v", src.dtype, dst.dtype)
	}
	if src.NumElements() > 0 && to.count == 1 && from.count == 1 && to.wholeBytes() && from.wholeBytes() {
		row := planRow(p.row)
		p.blocks = planBlocks(dst, src, &s, row)
		if !s.IsZero() {
			p.blocks.convert = scaledRow(to, from, &s, p.blocks.row.channel)
		}
	}
	lanes := stepping{from.count, to.stride, from.stride}
	if to.complex && !from.complex {
		lanes.dst *= 2
		p.imag = to.stride
		p.zeroImag = converterOf(to, component{code: typecode.UInt, bits: 8})
	}
	p.axes = steppings(dst, src, lanes)
	for _, side := range []struct {
		t *Tensor
		c component
	}{{dst, to}, {src, from}} {
		if !side.t.id.Type.HostAccessible() {
			continue
		}
		if b := side.t.share.buf.Load(); b != nil && !side.t.empty && b.mem.Handle != 0 && side.c.bits >= 16 && (int64(b.mem.Handle)+side.t.offset)%(side.c.bits/8) != 0 {
			return nil, Errorf(ErrLayout, "core", call, "the memory is not aligned for %v: use a Clone", side.t.dtype)
		}
	}
	return p, nil
}

// steppings returns the axes along which the components of two tensors of one shape lie,
// outermost first. It merges adjacent axes that can be walked as one.
func steppings(dst, src *Tensor, lanes stepping) []stepping {
	var axes []stepping
	add := func(s stepping) {
		if s.n == 1 {
			return
		}
		if i := len(axes) - 1; i >= 0 && axes[i].dst == s.dst*s.n && axes[i].src == s.src*s.n {
			axes[i] = stepping{axes[i].n * s.n, s.dst, s.src}
			return
		}
		axes = append(axes, s)
	}
	to, from := dst.dtype.storageBits(dst.Padded()), src.dtype.storageBits(src.Padded())
	for i, n := range dst.layout.shape() {
		add(stepping{n, dst.layout.Stride(i) * to, src.layout.Stride(i) * from})
	}
	add(lanes)
	if len(axes) == 0 {
		axes = append(axes, stepping{1, lanes.dst, lanes.src})
	}
	return axes
}

// checkInterval is how many components are converted between two checks of the context.
const checkInterval = 1 << 18

// run converts the elements of t to those of u.
func (p *conversion) run(ctx context.Context, call string, u, t *Tensor, dst, src unsafe.Pointer) error {
	if p.blocks != nil {
		return p.blocks.run(ctx, dst, src, func(f func() error) error { return guard(call, f, u, t) })
	}
	return guard(call, func() error { return p.rows(ctx, dst, src) }, u, t)
}

func (p *conversion) rows(ctx context.Context, dst, src unsafe.Pointer) error {
	return eachRow(ctx, p.axes, func(to, from int64, s stepping) bool {
		to += p.skip
		p.row(dst, src, to, from, s)
		if p.zeroImag != nil {
			var zero uint8
			p.zeroImag(dst, unsafe.Pointer(&zero), to+p.imag, 0, stepping{s.n, s.dst, 0})
		}
		return true
	})
}

// eachRow is the function eachRow for the components of t and u, which have the same shape. It
// returns ErrInvalid if their memory is not there any more.
func (t *Tensor) eachRow(ctx context.Context, call string, u *Tensor, lanes stepping, f func(to, from int64, s stepping) bool) error {
	return guard(call, func() error { return eachRow(ctx, steppings(t, u, lanes), f) }, t, u)
}

// eachRow calls f for each row of components along the innermost axis, or for parts of a
// long row, until f returns false. It returns ctx's error if ctx ends first.
func eachRow(ctx context.Context, axes []stepping, f func(to, from int64, s stepping) bool) error {
	budget := int64(checkInterval)
	var walk func(axes []stepping, to, from int64) (bool, error)
	walk = func(axes []stepping, to, from int64) (bool, error) {
		a := axes[0]
		if len(axes) > 1 {
			for range a.n {
				if more, err := walk(axes[1:], to, from); !more || err != nil {
					return false, err
				}
				to, from = to+a.dst, from+a.src
			}
			return true, nil
		}
		for a.n > 0 {
			part := stepping{min(a.n, checkInterval), a.dst, a.src}
			if !f(to, from, part) {
				return false, nil
			}
			a.n -= part.n
			to, from = to+part.n*part.dst, from+part.n*part.src
			if budget -= part.n; budget <= 0 {
				if err := ctx.Err(); err != nil {
					return false, err
				}
				budget = checkInterval
			}
		}
		return true, nil
	}
	_, err := walk(axes, 0, 0)
	return err
}
