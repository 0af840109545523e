package float

import (
	"math"

	"github.com/dlx-go/dlx/core/internal/minifloat"
)

// The types of this file hold the bits of 8-bit floating-point numbers. Their values and
// their rounding are those of the Python package ml_dtypes.

// Float8E3M4 holds the bits of a number with 3 bits of exponent and 4 of mantissa. It has
// infinities.
type Float8E3M4 uint8

// NewFloat8E3M4 returns f rounded to the nearest Float8E3M4, ties to even. A number that is
// too large becomes infinity.
func NewFloat8E3M4(f float32) Float8E3M4 { return Float8E3M4(minifloat.E3M4.Encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E3M4) Float32() float32 { return minifloat.E3M4.Decode(uint8(x)) }

// Float8E4M3 holds the bits of a number with 4 bits of exponent and 3 of mantissa. It has
// infinities.
type Float8E4M3 uint8

// NewFloat8E4M3 returns f rounded to the nearest Float8E4M3, ties to even. A number that is
// too large becomes infinity.
func NewFloat8E4M3(f float32) Float8E4M3 { return Float8E4M3(minifloat.E4M3.Encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E4M3) Float32() float32 { return minifloat.E4M3.Decode(uint8(x)) }

// Float8E4M3B11FNUZ holds the bits of a number with 4 bits of exponent, whose bias is 11, and 3
// of mantissa. It has one NaN, one zero and no infinities.
type Float8E4M3B11FNUZ uint8

// NewFloat8E4M3B11FNUZ returns f rounded to the nearest Float8E4M3B11FNUZ, ties to even.
// A number that is too large becomes NaN.
func NewFloat8E4M3B11FNUZ(f float32) Float8E4M3B11FNUZ {
	return Float8E4M3B11FNUZ(minifloat.E4M3B11FNUZ.Encode(f))
}

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E4M3B11FNUZ) Float32() float32 { return minifloat.E4M3B11FNUZ.Decode(uint8(x)) }

// Float8E4M3FN holds the bits of a number with 4 bits of exponent and 3 of mantissa. It has no
// infinities.
type Float8E4M3FN uint8

// NewFloat8E4M3FN returns f rounded to the nearest Float8E4M3FN, ties to even. A number that is
// too large becomes NaN.
func NewFloat8E4M3FN(f float32) Float8E4M3FN { return Float8E4M3FN(minifloat.E4M3FN.Encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E4M3FN) Float32() float32 { return minifloat.E4M3FN.Decode(uint8(x)) }

// Float8E4M3FNUZ holds the bits of a number with 4 bits of exponent and 3 of mantissa. It has
// one NaN, one zero and no infinities.
type Float8E4M3FNUZ uint8

// NewFloat8E4M3FNUZ returns f rounded to the nearest Float8E4M3FNUZ, ties to even.
// A number that is too large becomes NaN.
func NewFloat8E4M3FNUZ(f float32) Float8E4M3FNUZ { return Float8E4M3FNUZ(minifloat.E4M3FNUZ.Encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E4M3FNUZ) Float32() float32 { return minifloat.E4M3FNUZ.Decode(uint8(x)) }

// Float8E5M2 holds the bits of a number with 5 bits of exponent and 2 of mantissa. It has
// infinities.
type Float8E5M2 uint8

// NewFloat8E5M2 returns f rounded to the nearest Float8E5M2, ties to even. A number that is
// too large becomes infinity.
func NewFloat8E5M2(f float32) Float8E5M2 { return Float8E5M2(minifloat.E5M2.Encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E5M2) Float32() float32 { return minifloat.E5M2.Decode(uint8(x)) }

// Float8E5M2FNUZ holds the bits of a number with 5 bits of exponent and 2 of mantissa. It has
// one NaN, one zero and no infinities.
type Float8E5M2FNUZ uint8

// NewFloat8E5M2FNUZ returns f rounded to the nearest Float8E5M2FNUZ, ties to even.
// A number that is too large becomes NaN.
func NewFloat8E5M2FNUZ(f float32) Float8E5M2FNUZ { return Float8E5M2FNUZ(minifloat.E5M2FNUZ.Encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E5M2FNUZ) Float32() float32 { return minifloat.E5M2FNUZ.Decode(uint8(x)) }

// Float8E8M0FNU holds the bits of a power of two from 2**-127 to 2**127, or of NaN. It has no
// sign and no zero. The OCP Microscaling formats use it as the scale of a block.
type Float8E8M0FNU uint8

// NewFloat8E8M0FNU returns f rounded to the nearest power of two, ties up. As in ml_dtypes,
// a number between 2**-127 and 2**-126 is always rounded up. Zero, negative numbers, NaN
// and numbers that are too large become NaN.
func NewFloat8E8M0FNU(f float32) Float8E8M0FNU {
	b := math.Float32bits(f)
	switch exp := uint8(b >> 23); {
	case b == 0 || b >= 0x7f800000-1<<22: // zero, negative, NaN, or above the largest
		return 0xff
	case exp == 0 && b > 1<<22:
		return 1
	case exp == 0:
		return 0
	default:
		return Float8E8M0FNU(exp + uint8(b>>22&1))
	}
}

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E8M0FNU) Float32() float32 {
	switch x {
	case 0:
		return 0x1p-127
	case 0xff:
		return float32(math.NaN())
	default:
		return math.Float32frombits(uint32(x) << 23)
	}
}
