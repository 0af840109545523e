package core

import "math"

// The types of this file hold the bits of 8-bit floating-point numbers. Their values and
// their rounding are those of the Python package ml_dtypes.

// Float8E3M4 holds the bits of a number with 3 bits of exponent and 4 of mantissa. It has
// infinities.
type Float8E3M4 uint8

// NewFloat8E3M4 returns f rounded to the nearest Float8E3M4, ties to even. A number that is
// too large becomes infinity.
func NewFloat8E3M4(f float32) Float8E3M4 { return Float8E3M4(e3m4.encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E3M4) Float32() float32 { return e3m4.decode(uint8(x)) }

// Float8E4M3 holds the bits of a number with 4 bits of exponent and 3 of mantissa. It has
// infinities.
type Float8E4M3 uint8

// NewFloat8E4M3 returns f rounded to the nearest Float8E4M3, ties to even. A number that is
// too large becomes infinity.
func NewFloat8E4M3(f float32) Float8E4M3 { return Float8E4M3(e4m3.encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E4M3) Float32() float32 { return e4m3.decode(uint8(x)) }

// Float8E4M3B11FNUZ holds the bits of a number with 4 bits of exponent, whose bias is 11, and 3
// of mantissa. It has one NaN, one zero and no infinities.
type Float8E4M3B11FNUZ uint8

// NewFloat8E4M3B11FNUZ returns f rounded to the nearest Float8E4M3B11FNUZ, ties to even.
// A number that is too large becomes NaN.
func NewFloat8E4M3B11FNUZ(f float32) Float8E4M3B11FNUZ {
	return Float8E4M3B11FNUZ(e4m3b11fnuz.encode(f))
}

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E4M3B11FNUZ) Float32() float32 { return e4m3b11fnuz.decode(uint8(x)) }

// Float8E4M3FN holds the bits of a number with 4 bits of exponent and 3 of mantissa. It has no
// infinities.
type Float8E4M3FN uint8

// NewFloat8E4M3FN returns f rounded to the nearest Float8E4M3FN, ties to even. A number that is
// too large becomes NaN.
func NewFloat8E4M3FN(f float32) Float8E4M3FN { return Float8E4M3FN(e4m3fn.encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E4M3FN) Float32() float32 { return e4m3fn.decode(uint8(x)) }

// Float8E4M3FNUZ holds the bits of a number with 4 bits of exponent and 3 of mantissa. It has
// one NaN, one zero and no infinities.
type Float8E4M3FNUZ uint8

// NewFloat8E4M3FNUZ returns f rounded to the nearest Float8E4M3FNUZ, ties to even.
// A number that is too large becomes NaN.
func NewFloat8E4M3FNUZ(f float32) Float8E4M3FNUZ { return Float8E4M3FNUZ(e4m3fnuz.encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E4M3FNUZ) Float32() float32 { return e4m3fnuz.decode(uint8(x)) }

// Float8E5M2 holds the bits of a number with 5 bits of exponent and 2 of mantissa. It has
// infinities.
type Float8E5M2 uint8

// NewFloat8E5M2 returns f rounded to the nearest Float8E5M2, ties to even. A number that is
// too large becomes infinity.
func NewFloat8E5M2(f float32) Float8E5M2 { return Float8E5M2(e5m2.encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E5M2) Float32() float32 { return e5m2.decode(uint8(x)) }

// Float8E5M2FNUZ holds the bits of a number with 5 bits of exponent and 2 of mantissa. It has
// one NaN, one zero and no infinities.
type Float8E5M2FNUZ uint8

// NewFloat8E5M2FNUZ returns f rounded to the nearest Float8E5M2FNUZ, ties to even.
// A number that is too large becomes NaN.
func NewFloat8E5M2FNUZ(f float32) Float8E5M2FNUZ { return Float8E5M2FNUZ(e5m2fnuz.encode(f)) }

// Float32 returns the number as a float32. The conversion is exact.
func (x Float8E5M2FNUZ) Float32() float32 { return e5m2fnuz.decode(uint8(x)) }

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

// smallFloat describes a floating-point type of 8 bits or fewer, with a sign, exp bits of
// exponent and man bits of mantissa.
type smallFloat struct {
	exp, man, bias uint8
	special        specials
}

// specials is how a type represents NaN and infinities.
type specials uint8

const (
	ieee    specials = iota // infinities and NaNs have the largest exponent
	oneNaN                  // fn: a NaN has all bits but the sign set; there are no infinities
	negZero                 // fnuz: NaN has the bits of -0; there are no infinities
	finite                  // fn of fewer than 8 bits: neither; a number that is too large becomes the largest
)

var (
	e3m4        = smallFloat{3, 4, 3, ieee}
	e4m3        = smallFloat{4, 3, 7, ieee}
	e4m3b11fnuz = smallFloat{4, 3, 11, negZero}
	e4m3fn      = smallFloat{4, 3, 7, oneNaN}
	e4m3fnuz    = smallFloat{4, 3, 8, negZero}
	e5m2        = smallFloat{5, 2, 15, ieee}
	e5m2fnuz    = smallFloat{5, 2, 16, negZero}
	e2m3fn      = smallFloat{2, 3, 1, finite}
	e3m2fn      = smallFloat{3, 2, 3, finite}
	e2m1fn      = smallFloat{2, 1, 1, finite}
)

// sign is the bit of the sign.
func (s *smallFloat) sign() uint8 { return 1 << (s.exp + s.man) }

// largest is the bits of the largest finite number.
func (s *smallFloat) largest() uint8 {
	switch s.special {
	case ieee:
		return (1<<s.exp-1)<<s.man - 1
	case oneNaN:
		return s.sign() - 2
	default:
		return s.sign() - 1
	}
}

// decode converts exactly. Bits above the sign do not count.
func (s *smallFloat) decode(x uint8) float32 {
	negative := x&s.sign() != 0
	x &= s.sign() - 1
	if x == 0 && negative && s.special == negZero {
		return math.Float32frombits(0xffc00000)
	}
	var f float32
	switch {
	case x > s.largest() && x<<(8-s.man) == 0 && s.special == ieee:
		f = float32(math.Inf(1))
	case x > s.largest():
		f = float32(math.NaN())
	case x>>s.man == 0:
		f = float32(x) * s.ulp()
	default:
		f = math.Float32frombits(uint32(x)<<(23-s.man) + uint32(127-s.bias)<<23)
	}
	if negative {
		return float32(math.Copysign(float64(f), -1))
	}
	return f
}

// ulp is the distance between two numbers below the smallest normal one.
func (s *smallFloat) ulp() float32 {
	return math.Float32frombits(uint32(128-s.bias-s.man) << 23)
}

// encode rounds to the nearest, ties to even.
func (s *smallFloat) encode(f float32) uint8 {
	b := math.Float32bits(f)
	sign := uint8(b>>31) << (s.exp + s.man)
	b &= 1<<31 - 1
	var x uint32
	if b > 0x7f800000 {
		return s.nan(sign)
	} else if b < uint32(128-s.bias)<<23 { // below the smallest normal number
		// The sum has the ulp of s as the unit of its last bit, and is rounded to that.
		one := math.Float32frombits(uint32(128-s.bias-s.man+23) << 23)
		x = math.Float32bits(math.Float32frombits(b)+one) - math.Float32bits(one)
	} else {
		x = roundShift(b-uint32(127-s.bias)<<23, uint32(23-s.man))
	}
	switch {
	case x <= uint32(s.largest()):
		if x == 0 && s.special == negZero {
			return 0
		}
		return uint8(x) | sign
	case s.special == ieee: // infinity
		return s.largest() + 1 | sign
	case s.special == finite:
		return s.largest() | sign
	default:
		return s.nan(sign)
	}
}

// nan is NaN with the given sign, where the type has both.
func (s *smallFloat) nan(sign uint8) uint8 {
	switch s.special {
	case ieee:
		return s.largest() + 1 + 1<<(s.man-1) | sign
	case oneNaN:
		return s.largest() + 1 | sign
	case negZero:
		return s.sign()
	default: // as ml_dtypes does: a zero of the other sign
		return sign ^ s.sign()
	}
}
