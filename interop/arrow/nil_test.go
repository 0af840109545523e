package arrow

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/tensor"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestNilArguments(t *testing.T) {
	sound := coretest.Keep(t)(core.FromSlice([]float32{1, 2, 3, 4}, 2, 2))
	zero := new(FixedShapeType)
	coretest.CheckNils(t, map[string]any{
		"ExportDevice": ExportDevice, "ImportDevice": ImportDevice, "NewFixedShapeType": NewFixedShapeType, "Register": Register,
		"ToFixedShape": ToFixedShape, "FromFixedShape": FromFixedShape, "ToTensor": ToTensor, "FromTensor": FromTensor,
		"ToArray": ToArray, "FromArray": FromArray,
		"FixedShapeType.ValueType": zero.ValueType, "FixedShapeType.Shape": zero.Shape, "FixedShapeType.DimNames": zero.DimNames,
		"FixedShapeType.Permutation": zero.Permutation, "FixedShapeType.ArrayType": zero.ArrayType, "FixedShapeType.String": zero.String,
		"FixedShapeType.ExtensionEquals": zero.ExtensionEquals, "FixedShapeType.Serialize": zero.Serialize,
		"FixedShapeType.Deserialize": zero.Deserialize, "FixedShapeType.ExtensionName": zero.ExtensionName,
	}, sound,
		(*tensor.Float32)(nil), new(tensor.Float32), (*tensor.Int8)(nil), new(tensor.Int8),
		(*array.Float32)(nil), new(array.Float32), (*array.Int64)(nil), new(array.Int64), (*array.FixedSizeList)(nil), new(array.FixedSizeList),
		(*array.Boolean)(nil), new(array.Boolean), (*array.String)(nil), new(array.String), (*FixedShapeArray)(nil), new(FixedShapeArray),
		(*arrow.Float32Type)(nil), new(arrow.Float32Type), (*arrow.FixedSizeListType)(nil), new(arrow.FixedSizeListType),
		(*FixedShapeType)(nil), new(FixedShapeType))
}
