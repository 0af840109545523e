package core

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core/typecode"
)

// typeCodes is indexed by the code. If bits is not 0, the name includes that width;
// otherwise the text of a type is the name followed by its width.
var typeCodes = [...]struct {
	name string
	bits uint8
}{
	typecode.Int:               {name: "int"},
	typecode.UInt:              {name: "uint"},
	typecode.Float:             {name: "float"},
	typecode.OpaqueHandle:      {name: "handle"},
	typecode.Bfloat:            {name: "bfloat"},
	typecode.Complex:           {name: "complex"},
	typecode.Bool:              {"bool", 8},
	typecode.Float8E3M4:        {"float8_e3m4", 8},
	typecode.Float8E4M3:        {"float8_e4m3", 8},
	typecode.Float8E4M3B11FNUZ: {"float8_e4m3b11fnuz", 8},
	typecode.Float8E4M3FN:      {"float8_e4m3fn", 8},
	typecode.Float8E4M3FNUZ:    {"float8_e4m3fnuz", 8},
	typecode.Float8E5M2:        {"float8_e5m2", 8},
	typecode.Float8E5M2FNUZ:    {"float8_e5m2fnuz", 8},
	typecode.Float8E8M0FNU:     {"float8_e8m0fnu", 8},
	typecode.Float6E2M3FN:      {"float6_e2m3fn", 6},
	typecode.Float6E3M2FN:      {"float6_e3m2fn", 6},
	typecode.Float4E2M1FN:      {"float4_e2m1fn", 4},
	typecode.Bcomplex:          {name: "bcomplex"},
}

// DType is an element type. An element consists of Lanes numbers of Bits bits each; most
// types have one lane. Bits of a complex type counts both parts, so a complex64 has Bits
// 64. DType has the layout of DLDataType in dlpack.h.
type DType struct {
	Code  typecode.Code // such as typecode.Int
	Bits  uint8
	Lanes uint16
}

// The element types in common use. A bool takes one byte, not one bit. The types of 8 bits
// and fewer are named as in the Python package ml_dtypes.
var (
	TypeInt8              = DType{typecode.Int, 8, 1}
	TypeInt16             = DType{typecode.Int, 16, 1}
	TypeInt32             = DType{typecode.Int, 32, 1}
	TypeInt64             = DType{typecode.Int, 64, 1}
	TypeUint8             = DType{typecode.UInt, 8, 1}
	TypeUint16            = DType{typecode.UInt, 16, 1}
	TypeUint32            = DType{typecode.UInt, 32, 1}
	TypeUint64            = DType{typecode.UInt, 64, 1}
	TypeFloat16           = DType{typecode.Float, 16, 1}
	TypeFloat32           = DType{typecode.Float, 32, 1}
	TypeFloat64           = DType{typecode.Float, 64, 1}
	TypeBFloat16          = DType{typecode.Bfloat, 16, 1}
	TypeComplex64         = DType{typecode.Complex, 64, 1}
	TypeComplex128        = DType{typecode.Complex, 128, 1}
	TypeBool              = DType{typecode.Bool, 8, 1}
	TypeFloat8E3M4        = DType{typecode.Float8E3M4, 8, 1}
	TypeFloat8E4M3        = DType{typecode.Float8E4M3, 8, 1}
	TypeFloat8E4M3B11FNUZ = DType{typecode.Float8E4M3B11FNUZ, 8, 1}
	TypeFloat8E4M3FN      = DType{typecode.Float8E4M3FN, 8, 1}
	TypeFloat8E4M3FNUZ    = DType{typecode.Float8E4M3FNUZ, 8, 1}
	TypeFloat8E5M2        = DType{typecode.Float8E5M2, 8, 1}
	TypeFloat8E5M2FNUZ    = DType{typecode.Float8E5M2FNUZ, 8, 1}
	TypeFloat8E8M0FNU     = DType{typecode.Float8E8M0FNU, 8, 1}
	TypeFloat6E2M3FN      = DType{typecode.Float6E2M3FN, 6, 1}
	TypeFloat6E3M2FN      = DType{typecode.Float6E3M2FN, 6, 1}
	TypeFloat4E2M1FN      = DType{typecode.Float4E2M1FN, 4, 1}
	TypeInt4              = DType{typecode.Int, 4, 1}
	TypeUint4             = DType{typecode.UInt, 4, 1}
)

// unknownPrefix begins the text of a type whose code has no name.
const unknownPrefix = "code"

// Valid reports whether elements of the type have a size, which means that neither Bits
// nor Lanes is 0. A type with an unknown code can be valid: its elements can be copied.
func (t DType) Valid() bool { return t.Bits != 0 && t.Lanes != 0 }

// ElementBits returns the number of bits of one packed element with all its lanes.
func (t DType) ElementBits() int64 { return int64(t.Bits) * int64(t.Lanes) }

// SubByte reports whether a number of this type has fewer than 8 bits. Several such
// numbers share a byte, unless the tensor is padded (see [FlagSubBytePadded]).
func (t DType) SubByte() bool { return t.Bits < 8 }

// storageBits returns the distance in bits between two adjacent elements. With padding, a
// sub-byte number takes a byte.
func (t DType) storageBits(padded bool) int64 {
	if padded && t.SubByte() {
		return 8 * int64(t.Lanes)
	}
	return t.ElementBits()
}

// ItemSize returns the number of bytes of one packed element. ok is false if an element
// is not a whole number of bytes.
func (t DType) ItemSize() (size int64, ok bool) {
	n := t.ElementBits()
	return n / 8, n%8 == 0 && n > 0
}

// Size returns the number of bytes of n adjacent elements. Packed elements take
// ceil(n*Bits*Lanes/8) bytes. If padded is true, each number of fewer than 8 bits takes one
// byte. Size returns ErrLayout if n is negative or the result overflows int64, and ErrDType
// if the type is not valid.
func (t DType) Size(n int64, padded bool) (int64, error) {
	if !t.Valid() {
		return 0, Errorf(ErrDType, "core", "Size", "%v has no size: bits and lanes must not be 0", t)
	}
	if n < 0 {
		return 0, Errorf(ErrLayout, "core", "Size", "%d elements: the count is negative", n)
	}
	hi, lo := bits.Mul64(uint64(n), uint64(t.storageBits(padded)))
	if hi >= 4 { // 2^66 bits are 2^63 bytes
		return 0, Errorf(ErrLayout, "core", "Size", "%d elements of %v overflow int64 bytes", n, t)
	}
	size := hi<<61 | lo>>3
	if lo&7 != 0 {
		size++
	}
	if size > math.MaxInt64 {
		return 0, Errorf(ErrLayout, "core", "Size", "%d elements of %v overflow int64 bytes", n, t)
	}
	return int64(size), nil
}

// String returns the name of the type, such as "float32", "bfloat16", "float8_e4m3fn" or
// "bool". Several lanes follow an x, as in "int4x2". A type without a name is printed with
// its code and bits, as in "code42b7".
func (t DType) String() string {
	s := unknownPrefix + strconv.Itoa(int(t.Code)) + "b" + strconv.Itoa(int(t.Bits))
	if int(t.Code) < len(typeCodes) {
		switch row := typeCodes[t.Code]; row.bits {
		case 0:
			s = row.name + strconv.Itoa(int(t.Bits))
		case t.Bits:
			s = row.name
		}
	}
	if t.Lanes != 1 {
		s += "x" + strconv.Itoa(int(t.Lanes))
	}
	return s
}

// ParseDType parses the output of [DType.String]. It returns ErrDType for anything else.
func ParseDType(s string) (DType, error) {
	t := DType{Lanes: 1}
	var found bool
	if t.Code, t.Bits, found = findTypeCode(s); !found { // "complex64" has an x, but no lanes
		name, lanes := s, ""
		if i := strings.LastIndexByte(s, 'x'); i >= 0 {
			name, lanes = s[:i], s[i+1:]
		}
		n, err := strconv.ParseUint(lanes, 10, 16)
		t.Code, t.Bits, found = findTypeCode(name)
		t.Lanes, found = uint16(n), found && err == nil
	}
	if !found || t.String() != s { // one type, one name: neither "float032" nor "int8x1"
		return DType{}, Errorf(ErrDType, "core", "ParseDType", "%q is not an element type; examples: float32, bfloat16, uint8, bool, int4x2", s)
	}
	return t, nil
}

// findTypeCode parses a type name without lanes.
func findTypeCode(name string) (typecode.Code, uint8, bool) {
	for c, row := range typeCodes {
		if row.bits != 0 && row.name == name {
			return typecode.Code(c), row.bits, true
		}
	}
	word := strings.TrimRight(name, "0123456789")
	width, err := strconv.ParseUint(name[len(word):], 10, 8)
	if err != nil {
		return 0, 0, false
	}
	for c, row := range typeCodes {
		if row.bits == 0 && row.name == word {
			return typecode.Code(c), uint8(width), true
		}
	}
	if digits, ok := strings.CutPrefix(word, unknownPrefix); ok {
		if c, err := strconv.ParseUint(strings.TrimSuffix(digits, "b"), 10, 8); err == nil {
			return typecode.Code(c), uint8(width), true
		}
	}
	return 0, 0, false
}

// MarshalText returns the same text as [DType.String].
func (t DType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses text as [ParseDType] does.
func (t *DType) UnmarshalText(text []byte) error {
	v, err := ParseDType(string(text))
	if err == nil {
		*t = v
	}
	return err
}
