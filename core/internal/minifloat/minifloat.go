// Package minifloat converts float32 to the bits of floating-point types of 8, 6 and 4 bits, and
// back. Its results are those of the Python package ml_dtypes. Package float has Go types for the
// types of 8 bits. Elements of 6 and 4 bits have no Go type, because they are not whole bytes.
package minifloat

import "math"

// Format describes a floating-point type of 8 bits or fewer, with a sign, exp bits of
// exponent and man bits of mantissa.
type Format struct {
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

// The formats, by the names of ml_dtypes.
var (
	E3M4        = Format{3, 4, 3, ieee}
	E4M3        = Format{4, 3, 7, ieee}
	E4M3B11FNUZ = Format{4, 3, 11, negZero}
	E4M3FN      = Format{4, 3, 7, oneNaN}
	E4M3FNUZ    = Format{4, 3, 8, negZero}
	E5M2        = Format{5, 2, 15, ieee}
	E5M2FNUZ    = Format{5, 2, 16, negZero}
	E2M3FN      = Format{2, 3, 1, finite}
	E3M2FN      = Format{3, 2, 3, finite}
	E2M1FN      = Format{2, 1, 1, finite}
)

// sign is the bit of the sign.
func (s *Format) sign() uint8 { return 1 << (s.exp + s.man) }

// largest is the bits of the largest finite number.
func (s *Format) largest() uint8 {
	switch s.special {
	case ieee:
		return (1<<s.exp-1)<<s.man - 1
	case oneNaN:
		return s.sign() - 2
	default:
		return s.sign() - 1
	}
}

// Decode converts exactly. Bits above the sign do not count.
func (s *Format) Decode(x uint8) float32 {
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
func (s *Format) ulp() float32 {
	return math.Float32frombits(uint32(128-s.bias-s.man) << 23)
}

// Encode rounds to the nearest, ties to even.
func (s *Format) Encode(f float32) uint8 {
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
		x = RoundShift(b-uint32(127-s.bias)<<23, uint32(23-s.man))
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
func (s *Format) nan(sign uint8) uint8 {
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

// RoundShift shifts right by n in 1..31 and rounds to nearest, ties to even.
func RoundShift(v, n uint32) uint32 {
	half := uint32(1) << (n - 1)
	return (v + half - 1 + v>>n&1) >> n
}
