package arrow

import (
	"reflect"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/dlx-go/dlx/core"
)

const backend = "arrow"

// types are the element types that both sides have.
var types = []struct {
	dlx   core.DType
	arrow arrow.DataType
}{
	{core.TypeInt8, arrow.PrimitiveTypes.Int8},
	{core.TypeInt16, arrow.PrimitiveTypes.Int16},
	{core.TypeInt32, arrow.PrimitiveTypes.Int32},
	{core.TypeInt64, arrow.PrimitiveTypes.Int64},
	{core.TypeUint8, arrow.PrimitiveTypes.Uint8},
	{core.TypeUint16, arrow.PrimitiveTypes.Uint16},
	{core.TypeUint32, arrow.PrimitiveTypes.Uint32},
	{core.TypeUint64, arrow.PrimitiveTypes.Uint64},
	{core.TypeFloat16, arrow.FixedWidthTypes.Float16},
	{core.TypeFloat32, arrow.PrimitiveTypes.Float32},
	{core.TypeFloat64, arrow.PrimitiveTypes.Float64},
}

func toArrow(call string, t core.DType) (arrow.DataType, error) {
	for _, pair := range types {
		if pair.dlx == t {
			return pair.arrow, nil
		}
	}
	return nil, core.Errorf(core.ErrDType, backend, call, "Arrow has no type for elements of %v: use AsType", t)
}

func fromArrow(call string, t arrow.DataType) (core.DType, error) {
	if t != nil {
		for _, pair := range types {
			if pair.arrow.ID() == t.ID() {
				return pair.dlx, nil
			}
		}
	}
	return core.DType{}, core.Errorf(core.ErrDType, backend, call, "a tensor has no elements of %v", t)
}

// itemSize returns the size of an element of one of the types.
func itemSize(t core.DType) int64 {
	size, _ := t.ItemSize()
	return size
}

// named returns the error of a function of core as an error of call.
func named(call string, err error) error { return core.Errorf(err, backend, call, "") }

// nothing reports whether x is nil or a nil pointer. Arrays that were made without data have a nil pointer to them.
func nothing(x any) bool {
	v := reflect.ValueOf(x)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}

func isNil(call string) error {
	return core.Errorf(core.ErrInvalid, backend, call, "the argument is nil")
}
