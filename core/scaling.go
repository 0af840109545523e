package core

import (
	"context"
	"math"
	"runtime"
)

// Scaling changes numbers while they are converted: x becomes x*Scale + Offset. To subtract a
// mean and divide by a standard deviation, as models of images ask for, use a Scale of 1/std
// and an Offset of -mean/std. The zero value changes nothing.
//
// The arithmetic is that of float32, on every device with the same bits: x is converted to
// float32 by the rules of [Convert], the product is rounded to float32, the sum is rounded to
// float32, and the result is converted to the type of the destination by the rules of Convert.
// The product and the sum are never fused. A factor of 1 and an offset of negative zero change
// no number. A NaN becomes the NaN with the bits 0x7fc00000.
type Scaling struct {
	// Scale and Offset have one number for each index of the axis Axis, such as one for each
	// channel, or one number for all elements. A nil Scale does not multiply, and a nil
	// Offset does not add. All numbers are finite.
	Scale, Offset []float32
	// Axis is the axis of the channels. It has no meaning if Scale and Offset have at most one
	// number.
	Axis int
}

// IsZero reports whether the scaling changes nothing, because it has neither a Scale nor an
// Offset. A scaling by 1 is not zero: it converts by way of float32.
func (s Scaling) IsZero() bool { return len(s.Scale) == 0 && len(s.Offset) == 0 }

// Check returns an error if the scaling does not fit a tensor of this shape: ErrInvalid if
// there are not as many numbers as the axis has indices, or one, or if a number is not finite.
func (s Scaling) Check(shape ...int64) error { return s.check("Check", shape) }

func (s Scaling) check(call string, shape []int64) error {
	for _, part := range []struct {
		name    string
		numbers []float32
	}{{"Scale", s.Scale}, {"Offset", s.Offset}} {
		n := len(part.numbers)
		switch {
		case n > 1 && (s.Axis < 0 || s.Axis >= len(shape)):
			return Errorf(ErrInvalid, "core", call, "Scaling.Axis is %d, and the tensor has %d axes", s.Axis, len(shape))
		case n > 1 && int64(n) != shape[s.Axis]:
			return Errorf(ErrInvalid, "core", call, "Scaling.%s has %d numbers, and axis %d has %d indices: pass as many, or one for all", part.name, n, s.Axis, shape[s.Axis])
		}
		for i, x := range part.numbers {
			if x-x != 0 {
				return Errorf(ErrInvalid, "core", call, "Scaling.%s[%d] is %v: pass a finite number", part.name, i, x)
			}
		}
	}
	return nil
}

// uniform reports whether all elements are scaled by the same numbers.
func (s *Scaling) uniform() bool { return len(s.Scale) <= 1 && len(s.Offset) <= 1 }

// noOffset is what can be added to every number without a change, 0 included.
var noOffset = float32(math.Copysign(0, -1))

// At returns the factor and the offset of index i of the axis: 1 and negative zero if there is
// none.
func (s Scaling) At(i int) (scale, offset float32) {
	pick := func(list []float32, none float32) float32 {
		switch len(list) {
		case 0:
			return none
		case 1:
			return list[0]
		}
		if i < 0 || i >= len(list) {
			return none
		}
		return list[i]
	}
	return pick(s.Scale, 1), pick(s.Offset, noOffset)
}

// part returns the scaling of a part of an axis.
func (s Scaling) part(axis int, start, stop int64) Scaling {
	cut := func(list []float32) []float32 {
		if axis != s.Axis || len(list) <= 1 {
			return list
		}
		return list[start:stop]
	}
	return Scaling{Scale: cut(s.Scale), Offset: cut(s.Offset), Axis: s.Axis}
}

// ConvertScaled is [Convert] with a scaling in the same pass over the elements:
//
//	// From bytes of 0 to 255 to what the model expects. pixels and planes have shape (3, height, width).
//	err := core.ConvertScaled(ctx, planes, pixels, core.Scaling{
//		Scale:  []float32{1 / (255 * 0.229), 1 / (255 * 0.224), 1 / (255 * 0.225)},
//		Offset: []float32{-0.485 / 0.229, -0.456 / 0.224, -0.406 / 0.225},
//	})
//
// The strides may be any: a view of src by Permute has another order of axes, and one by Slice
// with step -1 is flipped. If s is zero, ConvertScaled is Convert. It returns the errors of
// Convert and of [Scaling.Check], and ErrDType if s is not zero and an element is complex,
// has several lanes, or is packed with others in a byte.
func ConvertScaled(ctx context.Context, dst, src *Tensor, s Scaling) error {
	_, err := convert(ctx, "ConvertScaled", dst, src, s)
	return err
}

// ConvertBy is ConvertScaled, and returns the device that converted: nil if that was the host, or if the elements stay as they are and
// were copied.
func (privateCore) ConvertBy(ctx context.Context, dst, src *Tensor, s Scaling) (Device, error) {
	return convert(ctx, "ConvertScaled", dst, src, s)
}

// scalable returns ErrDType if the elements of a tensor cannot be scaled.
func scalable(call string, tensors ...*Tensor) error {
	for _, t := range tensors {
		switch c := t.component(); {
		case c.count != 1:
			return Errorf(ErrDType, "core", call, "elements of %v cannot be scaled: they are not one real number", t.dtype)
		case !c.wholeBytes():
			return Errorf(ErrDType, "core", call, "elements of %v cannot be scaled where a byte has several: convert them first", t.dtype)
		}
	}
	return nil
}

// convert is Convert and ConvertScaled. The result is that of ConvertBy.
func convert(ctx context.Context, call string, dst, src *Tensor, s Scaling) (by Device, err error) {
	to, err := convertibleBuffer(dst, call)
	if err != nil {
		return nil, err
	}
	from, err := convertibleBuffer(src, call)
	if err != nil {
		return nil, err
	}
	p, err := checkConversion(call, dst, src, s)
	if err != nil || src.NumElements() == 0 {
		return nil, err
	}
	if err := apart(call, dst, src, to, from); err != nil {
		return nil, err
	}
	if !dst.id.Type.HostAccessible() || !src.id.Type.HostAccessible() {
		return convertStaged(ctx, call, dst, src, to, from, s)
	}
	if err := src.waitFor(ctx, from, forReading); err != nil {
		return nil, err
	}
	if err := dst.waitFor(ctx, to, forWriting); err != nil {
		return nil, err
	}
	err = p.run(ctx, call, dst, src, dst.first(to), src.first(from))
	runtime.KeepAlive(dst)
	runtime.KeepAlive(src)
	return nil, err
}
