// Package typecode has the codes by which element types are numbered in DLPack. Programs that use the types of package
// core, such as core.TypeFloat32, need no codes. A code makes other types:
//
//	wide := core.DType{Code: typecode.Float, Bits: 128, Lanes: 1}
package typecode

// Code is the kind of a number, such as integer or floating point. The values are
// those of DLDataTypeCode in dlpack.h 1.3. A value that is not listed here is allowed, and
// is passed on unchanged.
type Code uint8

// The codes of DLPack. Those of 8 bits and fewer are named as in the Python package ml_dtypes.
const (
	Int               Code = 0
	UInt              Code = 1
	Float             Code = 2
	OpaqueHandle      Code = 3
	Bfloat            Code = 4
	Complex           Code = 5
	Bool              Code = 6
	Float8E3M4        Code = 7
	Float8E4M3        Code = 8
	Float8E4M3B11FNUZ Code = 9
	Float8E4M3FN      Code = 10
	Float8E4M3FNUZ    Code = 11
	Float8E5M2        Code = 12
	Float8E5M2FNUZ    Code = 13
	Float8E8M0FNU     Code = 14
	Float6E2M3FN      Code = 15
	Float6E3M2FN      Code = 16
	Float4E2M1FN      Code = 17
	Bcomplex          Code = 18 // a complex number of two bfloats; not in a release of DLPack
)

// Known reports whether the code is one of the constants of this package.
func (c Code) Known() bool { return c <= Bcomplex }
