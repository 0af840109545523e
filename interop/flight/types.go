package flight

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dlx-go/dlx/core"
)

const module = "flight"

// fail returns an error of a call.
func fail(sentinel error, call, format string, args ...any) error {
	return core.Errorf(sentinel, module, call, format, args...)
}

// because makes cause an error of the kind of sentinel.
func because(sentinel, cause error) error { return fmt.Errorf("%w: %w", sentinel, cause) }

// types are the element types that both sides have, with the description of an Arrow schema.
var types = []struct {
	dtype  core.DType
	arrow  arrow.DataType
	number number
}{
	{core.TypeInt8, arrow.PrimitiveTypes.Int8, number{typeInt, 8, true}},
	{core.TypeInt16, arrow.PrimitiveTypes.Int16, number{typeInt, 16, true}},
	{core.TypeInt32, arrow.PrimitiveTypes.Int32, number{typeInt, 32, true}},
	{core.TypeInt64, arrow.PrimitiveTypes.Int64, number{typeInt, 64, true}},
	{core.TypeUint8, arrow.PrimitiveTypes.Uint8, number{typeInt, 8, false}},
	{core.TypeUint16, arrow.PrimitiveTypes.Uint16, number{typeInt, 16, false}},
	{core.TypeUint32, arrow.PrimitiveTypes.Uint32, number{typeInt, 32, false}},
	{core.TypeUint64, arrow.PrimitiveTypes.Uint64, number{typeInt, 64, false}},
	{core.TypeFloat16, arrow.FixedWidthTypes.Float16, number{kind: typeFloat, width: 0}},
	{core.TypeFloat32, arrow.PrimitiveTypes.Float32, number{kind: typeFloat, width: 1}},
	{core.TypeFloat64, arrow.PrimitiveTypes.Float64, number{kind: typeFloat, width: 2}},
}

// number is a type of numbers in a schema.
type number struct {
	kind   uint8 // typeInt or typeFloat
	width  int32 // the bits of an integer; 0, 1 and 2 for the precisions of floating-point numbers
	signed bool  // of an integer
}

// toArrow returns the type of Arrow for elements of a tensor. Bools travel as uint8: a bool of Arrow is one bit.
func toArrow(call string, t core.DType) (arrow.DataType, error) {
	t = carrier(t)
	for i := range types {
		if types[i].dtype == t {
			return types[i].arrow, nil
		}
	}
	return nil, fail(core.ErrDType, call, "Flight has no tensors with elements of %v: convert them with AsType, for example to uint8 or float32", t)
}

// carrier returns the type of the numbers that carry elements of a type.
func carrier(t core.DType) core.DType {
	if t == core.TypeBool {
		return core.TypeUint8
	}
	return t
}

// named returns the type that the metadata of a schema names, for elements that arrive as numbers of a type.
func named(call, name string, number core.DType) (core.DType, error) {
	if name != core.TypeBool.String() || number != core.TypeUint8 {
		return core.DType{}, fail(core.ErrDType, call, "%s is %.100q, and the elements are %v: only a bool as uint8 is known", dtypeKey, name, number)
	}
	return core.TypeBool, nil
}

// fromNumber returns the element type for a type in a schema.
func fromNumber(call string, n number) (core.DType, arrow.DataType, error) {
	for i := range types {
		if types[i].number == n {
			return types[i].dtype, types[i].arrow, nil
		}
	}
	return core.DType{}, nil, fail(core.ErrDType, call, "the elements are neither integers of 8 to 64 bits nor floating-point numbers of 16 to 64 bits: cast the column before it is sent")
}

// sizeOf returns the bytes of an element of one of the types, or of a bool.
func sizeOf(t core.DType) int64 {
	n, _ := t.ItemSize()
	return n
}
