package main

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// convertElements converts the elements of src into dst, which has another element type,
// the same shape, and any strides; both lie in host memory. It supports bytes, integers
// and floats of 16 to 64 bits as far as Go converts them with the rounding of NumPy, and
// fails with ErrNotSupported otherwise.
func convertElements(ctx context.Context, dst, src *core.Tensor) error {
	if err := src.WaitReady(ctx); err != nil {
		return err
	}
	switch src.DType() {
	case core.TypeInt8:
		return convertFrom(dst, src, same[int8])
	case core.TypeInt16:
		return convertFrom(dst, src, same[int16])
	case core.TypeInt32:
		return convertFrom(dst, src, same[int32])
	case core.TypeInt64:
		return convertFrom(dst, src, same[int64])
	case core.TypeUint8:
		return convertFrom(dst, src, same[uint8])
	case core.TypeUint16:
		return convertFrom(dst, src, same[uint16])
	case core.TypeUint32:
		return convertFrom(dst, src, same[uint32])
	case core.TypeUint64:
		return convertFrom(dst, src, same[uint64])
	case core.TypeFloat32:
		switch dst.DType() { // others are not rounded once from float64 or int64
		case core.TypeFloat16:
			return convertEach(dst, src, core.NewFloat16)
		case core.TypeBFloat16:
			return convertEach(dst, src, core.NewBFloat16)
		}
		return convertFrom(dst, src, same[float32])
	case core.TypeFloat64:
		return convertFrom(dst, src, same[float64])
	case core.TypeFloat16:
		return convertFrom(dst, src, core.Float16.Float32)
	case core.TypeBFloat16:
		return convertFrom(dst, src, core.BFloat16.Float32)
	}
	return noConversion(dst, src)
}

// number is what Go converts by itself.
type number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

func same[T number](x T) T { return x }

// convertFrom converts elements that widen makes a number of.
func convertFrom[S core.Element, N number](dst, src *core.Tensor, widen func(S) N) error {
	switch dst.DType() {
	case core.TypeInt8:
		return convertEach(dst, src, func(x S) int8 { return int8(widen(x)) })
	case core.TypeInt16:
		return convertEach(dst, src, func(x S) int16 { return int16(widen(x)) })
	case core.TypeInt32:
		return convertEach(dst, src, func(x S) int32 { return int32(widen(x)) })
	case core.TypeInt64:
		return convertEach(dst, src, func(x S) int64 { return int64(widen(x)) })
	case core.TypeUint8:
		return convertEach(dst, src, func(x S) uint8 { return uint8(widen(x)) })
	case core.TypeUint16:
		return convertEach(dst, src, func(x S) uint16 { return uint16(widen(x)) })
	case core.TypeUint32:
		return convertEach(dst, src, func(x S) uint32 { return uint32(widen(x)) })
	case core.TypeUint64:
		return convertEach(dst, src, func(x S) uint64 { return uint64(widen(x)) })
	case core.TypeFloat32:
		return convertEach(dst, src, func(x S) float32 { return float32(widen(x)) })
	case core.TypeFloat64:
		return convertEach(dst, src, func(x S) float64 { return float64(widen(x)) })
	}
	return noConversion(dst, src)
}

// convertEach converts element by element.
func convertEach[D, S core.Element](dst, src *core.Tensor, convert func(S) D) error {
	from, err := core.All[S](src)
	if err != nil {
		return err
	}
	to, err := core.AllMutable[D](dst)
	if err != nil {
		return err
	}
	elements, i := slices.Collect(from), 0
	for p := range to {
		*p = convert(elements[i])
		i++
	}
	return nil
}

func noConversion(dst, src *core.Tensor) error {
	return core.Errorf(core.ErrNotSupported, "convert", "Convert", "elements of %v are not converted to %v", src.DType(), dst.DType())
}
