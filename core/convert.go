package core

import (
	"context"
	"runtime"
	"unsafe"
)

// Convert writes the elements of src, converted to dst's element type, into dst. Both
// lie in memory that the host can reach, have the same shape and any strides, and share
// no memory. It blocks until the last write to src and all work on dst are done, and
// returns when the elements are converted, or with ctx's error if ctx ends before.
//
// Bools, integers of 1 to 8, 16, 32 and 64 bits, and all floating-point types of DLPack
// convert into each other; complex types convert into each other, and the others
// into them. Types with several lanes convert lane by lane. The rules are those of
// NumPy and ml_dtypes:
//
//   - Floating-point numbers round to the nearest, ties to even. A float64 that becomes a
//     type of ml_dtypes (bfloat16 and those of 8 bits or fewer) is rounded to float32 first.
//   - What is too large becomes infinity, or NaN in a type without infinities, or the
//     largest number in a type with neither (float6 and float4). NaN stays NaN,
//     but becomes zero in float6 and float4.
//   - Integers that do not fit wrap around, as in a conversion in Go.
//   - A floating-point number that becomes an integer is cut towards zero. Where the
//     result does not fit, which NumPy leaves open, it is the nearest integer that
//     does; NaN becomes 0.
//   - A number that becomes a bool is true unless it is 0. A true is 1.
//
// Convert fails with ErrInvalid if a tensor is nil, ErrClosed, ErrDevice if the host
// cannot reach the memory, ErrReadOnly, ErrDType if there is no conversion (from complex
// to others, and of unknown types), ErrLayout if the shapes differ, dst repeats elements,
// memory is misaligned for its type or both share memory, or with the error of the last
// write to either. If it fails after it began, some elements of dst are converted.
func Convert(ctx context.Context, dst, src *Tensor) error {
	const call = "Convert"
	to, err := hostSide(dst, call)
	if err != nil {
		return err
	}
	from, err := hostSide(src, call)
	if err != nil {
		return err
	}
	switch {
	case dst.ReadOnly():
		return readOnly(call)
	case !dst.layout.SameShape(src.layout):
		return Errorf(ErrLayout, "core", call, "dst has shape %v, src has %v", dst.layout.shape(), src.layout.shape())
	case dst.layout.HasOverlap():
		return Errorf(ErrLayout, "core", call, "dst repeats elements: strides %v", dst.layout.strides())
	}
	p, err := planConversion(call, dst, src)
	if err != nil || src.NumElements() == 0 {
		return err
	}
	if relate(dst, src, to, from) != apart {
		return Errorf(ErrLayout, "core", call, "dst and src share memory: convert into another tensor")
	}
	if err := src.settle(ctx, from, forReading); err != nil {
		return err
	}
	if err := dst.settle(ctx, to, forWriting); err != nil {
		return err
	}
	err = p.run(ctx, dst.first(to), src.first(from))
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return err
}

// AsType returns a new row-major tensor in host memory with the elements of t converted
// to another type. The caller closes it. It blocks, converts and fails as [Convert]
// does, and with ErrOutOfMemory if the size cannot be allocated.
func (t *Tensor) AsType(ctx context.Context, dtype DType) (*Tensor, error) {
	if _, err := hostSide(t, "AsType"); err != nil {
		return nil, err
	}
	v, err := newHost("AsType", dtype, t.layout.shape(), 0)
	if err != nil {
		return nil, err
	}
	if err := Convert(ctx, v, t); err != nil {
		_ = v.Close()
		return nil, err
	}
	return v, nil
}

// hostSide returns the buffer of a tensor whose memory the host can reach.
func hostSide(t *Tensor, call string) (*Buffer, error) {
	b, err := t.buffer(call)
	if err == nil && !t.id.Type.HostAccessible() {
		return nil, Errorf(ErrDevice, "core", call, "the host cannot reach memory on %v: copy it to the host first", t.id)
	}
	return b, err
}

// first is where the first element lies in b, memory that the host can reach.
func (t *Tensor) first(b *Buffer) unsafe.Pointer { return pointer(b.mem.Handle + uintptr(t.offset)) }

// settle waits for work on b, the tensor's buffer, or until ctx ends.
func (t *Tensor) settle(ctx context.Context, b *Buffer, w waiting) error {
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

// component is the type of the numbers that an element consists of: its lanes, or the
// two halves of complex ones.
type component struct {
	code    TypeCode
	bits    int64
	count   int64 // in an element
	stride  int64 // bits from one to the next
	complex bool
	padded  bool // a number of fewer than 8 bits has a byte of its own
}

// component tells what the elements of a tensor consist of.
func (t *Tensor) component() component {
	c := component{code: t.dtype.Code, bits: int64(t.dtype.Bits), count: int64(t.dtype.Lanes)}
	switch c.code {
	case CodeComplex:
		c = component{code: CodeFloat, bits: c.bits / 2, count: c.count * 2, complex: true}
	case CodeBcomplex:
		c = component{code: CodeBfloat, bits: c.bits / 2, count: c.count * 2, complex: true}
	}
	c.stride = c.bits
	if t.Padded() && t.dtype.SubByte() {
		c.stride, c.padded = 8, true
	}
	return c
}

// conversion is a plan of how elements are converted: over which axes, and by what.
type conversion struct {
	axes     []stepping
	row      rowConverter
	zeroImag rowConverter // not nil if src is not complex and dst is
	imag     int64        // bits from the real part of an element of dst to the imaginary
}

// stepping is an axis: how many components lie along it, and how many bits apart.
type stepping struct{ n, dst, src int64 }

// rowConverter converts n components. The first lie so many bits behind dst and src, and
// the others so many bits apart.
type rowConverter func(dst, src unsafe.Pointer, toBit, fromBit int64, s stepping)

// planConversion plans the conversion of src's elements to dst's. The shapes are equal.
func planConversion(call string, dst, src *Tensor) (*conversion, error) {
	to, from := dst.component(), src.component()
	none := Errorf(ErrDType, "core", call, "there is no conversion from %v to %v", src.dtype, dst.dtype)
	if dst.dtype.Lanes != src.dtype.Lanes || from.complex && !to.complex {
		return nil, none
	}
	p := &conversion{}
	if p.row = converterOf(to, from); p.row == nil {
		return nil, none
	}
	lanes := stepping{from.count, to.stride, from.stride}
	if to.complex && !from.complex {
		lanes.dst *= 2
		p.imag = to.stride
		p.zeroImag = converterOf(to, component{code: CodeUInt, bits: 8})
	}
	p.axes = steppings(dst, src, lanes)
	for _, side := range []struct {
		t *Tensor
		c component
	}{{dst, to}, {src, from}} {
		if b := side.t.share.buf.Load(); b != nil && b.mem.Handle != 0 && side.c.bits >= 16 && (int64(b.mem.Handle)+side.t.offset)%(side.c.bits/8) != 0 {
			return nil, Errorf(ErrLayout, "core", call, "the memory is not aligned for %v: use a Clone", side.t.dtype)
		}
	}
	return p, nil
}

// steppings are the axes along which the components of two tensors of one shape lie, the
// innermost last. Axes that lie like one are joined.
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

// between is how many components are converted before the context is asked again.
const between = 1 << 18

func (p *conversion) run(ctx context.Context, dst, src unsafe.Pointer) error {
	return eachRow(ctx, p.axes, func(to, from int64, s stepping) bool {
		p.row(dst, src, to, from, s)
		if p.zeroImag != nil {
			var zero uint8
			p.zeroImag(dst, unsafe.Pointer(&zero), to+p.imag, 0, stepping{s.n, s.dst, 0})
		}
		return true
	})
}

// eachRow calls f for each row, or part of one, until f returns false. It returns ctx's
// error if that ends before.
func eachRow(ctx context.Context, axes []stepping, f func(to, from int64, s stepping) bool) error {
	budget := int64(between)
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
			part := stepping{min(a.n, between), a.dst, a.src}
			if !f(to, from, part) {
				return false, nil
			}
			a.n -= part.n
			to, from = to+part.n*part.dst, from+part.n*part.src
			if budget -= part.n; budget <= 0 {
				if err := ctx.Err(); err != nil {
					return false, err
				}
				budget = between
			}
		}
		return true, nil
	}
	_, err := walk(axes, 0, 0)
	return err
}
