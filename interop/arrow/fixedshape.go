package arrow

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

const fixedShapeName = "arrow.fixed_shape_tensor"

// FixedShapeType is the canonical extension type arrow.fixed_shape_tensor. An element of an array of this type is a
// tensor. All tensors have one shape, and are stored one after the other, each in row-major order of the stored axes.
//
// As in Arrow, Shape and DimNames describe the stored axes, and Permutation the axes that the program sees: axis i of
// the tensor is the stored axis Permutation[i].
type FixedShapeType struct {
	arrow.ExtensionBase
	shape       []int64
	dimNames    []string // nil, or one for each axis
	permutation []int    // nil if the tensor has the stored axes in their order
}

var _ arrow.ExtensionType = (*FixedShapeType)(nil)

// NewFixedShapeType returns the type of arrays of tensors with the given elements and stored shape. dimNames and
// permutation may be nil. It returns core.ErrInvalid if an argument contradicts another one or value is nil,
// and core.ErrLayout if an extent is negative, or a tensor has no element, which arrow-go cannot express, or more than
// 2**31-1 elements.
func NewFixedShapeType(value arrow.DataType, shape []int64, dimNames []string, permutation []int) (*FixedShapeType, error) {
	const call = "NewFixedShapeType"
	if nothing(value) {
		return nil, isNil(call)
	}
	l, err := core.NewLayout(shape...)
	if err != nil {
		return nil, named(call, err)
	}
	if n := l.NumElements(); n == 0 || n > math.MaxInt32 { // arrow-go has no lists of 0 elements
		return nil, core.Errorf(core.ErrLayout, backend, call, "shape %v has %d elements, not 1 to 2**31-1", shape, n)
	}
	if len(dimNames) != 0 && len(dimNames) != len(shape) {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "%d names for %d axes", len(dimNames), len(shape))
	}
	t := &FixedShapeType{shape: l.Shape(), dimNames: slices.Clone(dimNames)}
	if len(permutation) != 0 {
		if len(permutation) != len(shape) { // any number may come from a peer: do not print them
			return nil, core.Errorf(core.ErrInvalid, backend, call, "a permutation of %d numbers for %d axes", len(permutation), len(shape))
		}
		if _, err := l.Permute(permutation...); err != nil {
			return nil, core.Errorf(core.ErrInvalid, backend, call, "%v is not a permutation of %d axes", permutation, len(shape))
		}
		if !slices.IsSorted(permutation) {
			t.permutation = slices.Clone(permutation)
		}
	}
	t.Storage = arrow.FixedSizeListOf(int32(l.NumElements()), value)
	return t, nil
}

// Register makes arrow-go read and write arrays of FixedShapeType, for example in IPC files. Without it they are
// arrays of lists. Calling it again does nothing. It returns core.ErrExists if the program has registered another
// implementation of the type.
func Register() error {
	const call = "Register"
	if err := arrow.RegisterExtensionType(&FixedShapeType{}); err != nil {
		if _, ours := arrow.GetExtensionType(fixedShapeName).(*FixedShapeType); !ours {
			return core.Errorf(core.ErrExists, backend, call, "%v", err)
		}
	}
	return nil
}

// ValueType returns the type of the elements of the tensors, or nil for a zero FixedShapeType.
func (t *FixedShapeType) ValueType() arrow.DataType {
	list, ok := t.Storage.(*arrow.FixedSizeListType)
	if !ok {
		return nil
	}
	return list.Elem()
}

// Shape returns the extents of the stored axes.
func (t *FixedShapeType) Shape() []int64 { return slices.Clone(t.shape) }

// DimNames returns the names of the stored axes, or nil.
func (t *FixedShapeType) DimNames() []string { return slices.Clone(t.dimNames) }

// Permutation returns the stored axis for each axis of the tensors, or nil if their order is the same.
func (t *FixedShapeType) Permutation() []int { return slices.Clone(t.permutation) }

// ArrayType returns the type of the arrays, FixedShapeArray.
func (t *FixedShapeType) ArrayType() reflect.Type { return reflect.TypeFor[FixedShapeArray]() }

// ExtensionName returns "arrow.fixed_shape_tensor".
func (t *FixedShapeType) ExtensionName() string { return fixedShapeName }

// String returns the name and the parameters of the type.
func (t *FixedShapeType) String() string {
	if t.Storage == nil { // as it is registered
		return "extension<" + fixedShapeName + ">"
	}
	return fmt.Sprintf("extension<%s[value_type=%v, %s]>", fixedShapeName, t.ValueType(), t.Serialize())
}

// ExtensionEquals reports whether other is the same type with the same parameters.
func (t *FixedShapeType) ExtensionEquals(other arrow.ExtensionType) bool {
	o, ok := other.(*FixedShapeType)
	if !ok || o == nil || t.Storage == nil || o.Storage == nil {
		return ok && o != nil && t.Storage == o.Storage
	}
	return arrow.TypeEqual(t.ValueType(), o.ValueType()) && slices.Equal(t.shape, o.shape) &&
		slices.Equal(t.dimNames, o.dimNames) && slices.Equal(t.permutation, o.permutation)
}

// parameters are the parameters of the type as the format defines them.
type parameters struct {
	Shape       []int64  `json:"shape"`
	DimNames    []string `json:"dim_names,omitempty"`
	Permutation []int    `json:"permutation,omitempty"`
}

// Serialize returns the parameters as JSON.
func (t *FixedShapeType) Serialize() string {
	text, _ := json.Marshal(parameters{append([]int64{}, t.shape...), t.dimNames, t.permutation}) // cannot fail
	return string(text)
}

// Deserialize returns the type with the parameters in data. It returns core.ErrInvalid or core.ErrLayout if they are
// malformed or do not match the storage.
func (t *FixedShapeType) Deserialize(storage arrow.DataType, data string) (arrow.ExtensionType, error) {
	const call = "Deserialize"
	list, ok := storage.(*arrow.FixedSizeListType)
	if !ok {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the storage of %s is %v, not a list of fixed size", fixedShapeName, storage)
	}
	var p parameters
	if err := strictjson.Unmarshal([]byte(data), &p); err != nil {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the parameters of %s are no JSON object with a shape: %v", fixedShapeName, err)
	}
	if p.Shape == nil {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "the parameters of %s have no shape", fixedShapeName)
	}
	made, err := NewFixedShapeType(list.Elem(), p.Shape, p.DimNames, p.Permutation)
	if err != nil {
		return nil, err
	}
	if want := made.Storage.(*arrow.FixedSizeListType).Len(); want != list.Len() {
		return nil, core.Errorf(core.ErrInvalid, backend, call, "shape %v has %d elements, the lists have %d", p.Shape, want, list.Len())
	}
	made.Storage = list // with the name of its field
	return made, nil
}

// FixedShapeArray is an array of FixedShapeType.
type FixedShapeArray struct{ array.ExtensionArrayBase }

var _ array.ExtensionArray = (*FixedShapeArray)(nil)
