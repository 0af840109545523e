package float

import (
	"math"

	"github.com/dlx-go/dlx/core/internal/minifloat"
)

// Float16 holds the bits of an IEEE 754 binary16 number.
type Float16 uint16

// NewFloat16 returns f rounded to the nearest Float16, ties to even. A number that is too
// large becomes infinity.
func NewFloat16(f float32) Float16 {
	b := math.Float32bits(f)
	sign := uint16(b >> 16 & 0x8000)
	exp := int32(b>>23&0xff) - 127
	frac := b & 0x7fffff
	switch {
	case exp == 128 && frac != 0: // NaN: keep the upper bits of its payload, and make it quiet
		return Float16(sign | 0x7e00 | uint16(frac>>13))
	case exp > 15:
		return Float16(sign | 0x7c00)
	case exp >= -14:
		// A carry out of the fraction increments the exponent, up to infinity.
		return Float16(sign | uint16(minifloat.RoundShift(uint32(exp+15)<<23|frac, 13)))
	case exp >= -25: // subnormal: the hidden bit becomes explicit
		return Float16(sign | uint16(minifloat.RoundShift(frac|0x800000, uint32(-exp-1))))
	default:
		return Float16(sign)
	}
}

// Float32 returns the number as a float32. The conversion is exact.
func (h Float16) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h >> 10 & 0x1f)
	frac := uint32(h & 0x3ff)
	switch exp {
	case 0:
		f := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(f))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// BFloat16 holds the bits of a bfloat16 number, which are the upper half of a float32.
type BFloat16 uint16

// NewBFloat16 returns f rounded to the nearest BFloat16, ties to even. A number that is too
// large becomes infinity.
func NewBFloat16(f float32) BFloat16 {
	b := math.Float32bits(f)
	if f != f {
		return BFloat16(b>>16 | 0x40) // a quiet NaN, even if all payload bits were in the lower half
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}

// Float32 returns the number as a float32. The conversion is exact.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }
