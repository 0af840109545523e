package core

import (
	"context"
	"errors"
	"reflect"
)

// Converter converts elements on the device, with the bits of [ConvertScaled].
type Converter interface {
	// CanConvert returns nil if the device converts elements of type src to type dst with a
	// scaling, and otherwise ErrNotSupported with the reason. It does not call the driver.
	CanConvert(dst, src DType, scaling Scaling) error
	// ConvertOn enqueues on s what ConvertScaled does. Both tensors lie in memory of the
	// device. ConvertOn keeps the order of work as [Device.Copy] does: it waits for the last
	// write to src and for all work on dst, and is recorded on both. If s is nil, it returns
	// when the elements are converted. The caller still owns the tensors and the slices of the
	// scaling, and may close and change them at once. ConvertOn returns the errors of ConvertScaled, of CanConvert and of Copy.
	ConvertOn(ctx context.Context, s Stream, dst, src *Tensor, scaling Scaling) error
	// PrefersHost reports whether the host should convert nevertheless where it can: the
	// device is the processor of the host, which converts faster without the API.
	PrefersHost() bool
}

// CheckConversion does what every [Converter] does first: it returns the errors of
// [ConvertScaled] that the tensors and the scaling have, whatever the device is. It does not
// look at what device they lie on. Implementations of Converter call it.
func CheckConversion(dst, src *Tensor, s Scaling) error {
	const call = "ConvertOn"
	to, err := dst.buffer(call)
	if err != nil {
		return err
	}
	from, err := src.buffer(call)
	if err != nil {
		return err
	}
	if _, err := checkConversion(call, dst, src, s); err != nil || src.NumElements() == 0 {
		return err
	}
	return apart(call, dst, src, to, from)
}

// checkConversion plans a conversion, and returns its errors that need no memory.
func checkConversion(call string, dst, src *Tensor, s Scaling) (*conversion, error) {
	switch {
	case dst.ReadOnly():
		return nil, readOnly(call)
	case !dst.layout.SameShape(src.layout):
		return nil, Errorf(ErrLayout, "core", call, "dst has shape %v, src has %v", dst.layout.shape(), src.layout.shape())
	case dst.layout.HasOverlap():
		return nil, Errorf(ErrLayout, "core", call, "dst repeats elements: strides %v", dst.layout.strides())
	}
	return planConversion(call, dst, src, s)
}

// apart returns ErrLayout if the tensors share memory.
func apart(call string, dst, src *Tensor, to, from *Buffer) error {
	if relate(dst, src, to, from) != disjoint {
		return Errorf(ErrLayout, "core", call, "dst and src share memory: convert into another tensor")
	}
	return nil
}

// converter returns d as a Converter that is to convert from one type to another; nil if there is none.
func converter(d Device, dst, src DType, s Scaling) Converter {
	if d == nil {
		return nil
	}
	if c, ok := As[Converter](d); ok && !c.PrefersHost() && c.CanConvert(dst, src, s) == nil {
		return c
	}
	return nil
}

// byDevice has a device convert, and returns it, if one can: where both tensors lie, or where one lies and
// fewer bytes go there before the conversion, or come from there after it, than without. If the device has no memory
// for that, or finds only now that it does not support it, the host is to convert, also what is converted already.
func (s *staged) byDevice(dst, src *Tensor, scaling Scaling) (by Device, err error) {
	d, how := s.to, s.near
	switch {
	case s.to == nil:
		d = s.from
		if dst.NumBytes() >= src.NumBytes() {
			return nil, nil
		}
	case s.from == nil:
		if src.NumBytes() >= dst.NumBytes() {
			return nil, nil
		}
	case !reflect.TypeOf(s.to).Comparable() || s.to != s.from:
		return nil, nil
	default:
		how = func(_ Device, c Converter, dst, src *Tensor, scaling Scaling) error {
			return c.ConvertOn(s.ctx, nil, dst, src, scaling)
		}
	}
	c := converter(d, dst.dtype, src.dtype, scaling)
	if c == nil {
		return nil, nil
	}
	err = how(d, c, dst, src, scaling)
	if errors.Is(err, ErrNotSupported) || errors.Is(err, ErrOutOfMemory) {
		return nil, nil
	}
	return d, err
}

// viewed returns t as the host sees it, if its device prefers that the host converts and the host can use the
// memory in place; nil if that is not so. The caller closes it.
func (s *staged) viewed(d Device, t *Tensor, b *Buffer) *Tensor {
	if d == nil {
		return nil
	}
	c, ok := As[Converter](d)
	if !ok || !c.PrefersHost() {
		return nil
	}
	viewer, ok := As[HostViewer](d)
	if !ok {
		return nil
	}
	m, err := viewer.HostView(s.ctx, b)
	if err != nil {
		return nil // the elements are copied to the host instead
	}
	v, err := wrap(s.call, m, Spec{DType: t.dtype, Shape: t.layout.shape(), Strides: t.layout.strides(), Offset: t.offset - b.mem.Offset, Flags: t.flags &^ FlagCopied})
	if err != nil {
		m.Free()
		return nil
	}
	return v
}

// inViews converts where the host sees all memory, and reports true, if it does.
func (s *staged) inViews(dst, src *Tensor, to, from *Buffer, scaling Scaling) (done bool, err error) {
	d, x := dst, src
	if s.to != nil {
		if d = s.viewed(s.to, dst, to); d == nil {
			return false, nil
		}
		defer d.Close()
	}
	if s.from != nil {
		if x = s.viewed(s.from, src, from); x == nil {
			return false, nil
		}
		defer x.Close()
	}
	if err := src.waitFor(s.ctx, from, forReading); err != nil {
		return true, err
	}
	if err := dst.waitFor(s.ctx, to, forWriting); err != nil {
		return true, err
	}
	return true, s.convert(d, x, scaling)
}
