//go:build cgo && unix

package onnxruntime

import (
	"github.com/dlx-go/dlx/core"
	ort "github.com/yalue/onnxruntime_go"
)

// dtypes has the element types of ONNX Runtime that dlx has, too. Both pack elements of 4 bits in pairs, the first one
// into the low bits. ONNX Runtime names complex numbers, but refuses
// tensors of them. Strings have no such memory, and dlx has no elements of 2 bits.
var dtypes = map[ort.TensorElementDataType]core.DType{
	ort.TensorElementDataTypeFloat:          core.TypeFloat32,
	ort.TensorElementDataTypeUint8:          core.TypeUint8,
	ort.TensorElementDataTypeInt8:           core.TypeInt8,
	ort.TensorElementDataTypeUint16:         core.TypeUint16,
	ort.TensorElementDataTypeInt16:          core.TypeInt16,
	ort.TensorElementDataTypeInt32:          core.TypeInt32,
	ort.TensorElementDataTypeInt64:          core.TypeInt64,
	ort.TensorElementDataTypeBool:           core.TypeBool,
	ort.TensorElementDataTypeFloat16:        core.TypeFloat16,
	ort.TensorElementDataTypeDouble:         core.TypeFloat64,
	ort.TensorElementDataTypeUint32:         core.TypeUint32,
	ort.TensorElementDataTypeUint64:         core.TypeUint64,
	ort.TensorElementDataTypeBFloat16:       core.TypeBFloat16,
	ort.TensorElementDataTypeFloat8E4M3FN:   core.TypeFloat8E4M3FN,
	ort.TensorElementDataTypeFloat8E4M3FNUZ: core.TypeFloat8E4M3FNUZ,
	ort.TensorElementDataTypeFloat8E5M2:     core.TypeFloat8E5M2,
	ort.TensorElementDataTypeFloat8E5M2FNUZ: core.TypeFloat8E5M2FNUZ,
	ort.TensorElementDataTypeUint4:          core.TypeUint4,
	ort.TensorElementDataTypeInt4:           core.TypeInt4,
	ort.TensorElementDataTypeFloat4E2M1:     core.TypeFloat4E2M1FN,
	ort.TensorElementDataTypeFloat8E8M0:     core.TypeFloat8E8M0FNU,
}

// elementTypes is the inverse of dtypes.
var elementTypes = func() map[core.DType]ort.TensorElementDataType {
	types := make(map[core.DType]ort.TensorElementDataType, len(dtypes))
	for theirs, ours := range dtypes {
		types[ours] = theirs
	}
	return types
}()
