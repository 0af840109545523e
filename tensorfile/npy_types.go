package tensorfile

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

// npyNamed are the element types that the descr may name in full, as programs write it that know ml_dtypes.
var npyNamed = func() map[string]core.DType {
	named := make(map[string]core.DType)
	for _, t := range npyTypes {
		named[t.String()] = t
	}
	for _, t := range []core.DType{
		core.TypeBFloat16, core.TypeFloat8E3M4, core.TypeFloat8E4M3, core.TypeFloat8E4M3B11FNUZ, core.TypeFloat8E4M3FN,
		core.TypeFloat8E4M3FNUZ, core.TypeFloat8E5M2, core.TypeFloat8E5M2FNUZ, core.TypeFloat8E8M0FNU,
	} {
		named[t.String()] = t
	}
	return named
}()

// voidReason says why elements of raw void cannot be read.
const voidReason = "raw void may be bfloat16, a float8 or anything else of that size: name its type (option VoidAs or void_as, flag --void-as), or store the array as .safetensors"

// voidSize returns the size in bytes of an element of raw void, by the part of the descr after the byte order. Float8 of
// ml_dtypes may also be stored as f1.
func voidSize(name string) (size int64, ok bool) {
	if name == "f1" {
		return 1, true
	}
	digits, ok := strings.CutPrefix(name, "V")
	if !ok {
		return 0, false
	}
	size, err := strconv.ParseInt(digits, 10, 64)
	return size, err == nil
}

// voidType returns the first of the types whose elements have a size.
func voidType(size int64, voids []core.DType) (core.DType, bool) {
	for _, t := range voids {
		if n, _ := t.ItemSize(); n == size {
			return t, true
		}
	}
	return core.DType{}, false
}

// checkVoids returns an error for a type that raw void cannot have.
func checkVoids(voids []core.DType, at fault) error {
	for _, t := range voids {
		if !t.Valid() || t.Bits%8 != 0 {
			return at.errorf(core.ErrInvalid, "elements of raw void cannot be %v: name a type whose numbers are whole bytes", t)
		}
	}
	return nil
}

// swapUnit returns the number of bytes of a number of the type, or of each of the two parts if it is complex.
func swapUnit(t core.DType) int {
	if t.Code == typecode.Complex || t.Code == typecode.Bcomplex {
		return int(t.Bits) / 8 / 2
	}
	return int(t.Bits) / 8
}

// swapBytes reverses the bytes of each number, which has more than one.
func swapBytes(data []byte, t core.DType) {
	switch unit := swapUnit(t); unit {
	case 2:
		for ; len(data) >= 2; data = data[2:] {
			binary.BigEndian.PutUint16(data, binary.LittleEndian.Uint16(data))
		}
	case 4:
		for ; len(data) >= 4; data = data[4:] {
			binary.BigEndian.PutUint32(data, binary.LittleEndian.Uint32(data))
		}
	case 8:
		for ; len(data) >= 8; data = data[8:] {
			binary.BigEndian.PutUint64(data, binary.LittleEndian.Uint64(data))
		}
	default: // a type that only raw void can have
		for part := range slices.Chunk(data, unit) {
			slices.Reverse(part)
		}
	}
}
