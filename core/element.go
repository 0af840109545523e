package core

import (
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/core/typecode"
)

// Element is satisfied by the Go types whose values have the memory format of elements of
// a tensor. A named type, such as one whose underlying type is int32, satisfies it too.
type Element interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 |
		~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 |
		~float32 | ~float64 | ~complex64 | ~complex128 | ~bool
}

// DTypeOf returns the element type of T. For int and uint it depends on the platform:
// int64 or int32, and uint64 or uint32. The types of package float, such as
// [float.Float16] and [float.Float8E5M2], have the element type of that name. Every other named type
// has the element type of its underlying type.
func DTypeOf[T Element]() DType {
	switch any(*new(T)).(type) {
	case int8:
		return TypeInt8
	case int16:
		return TypeInt16
	case int32:
		return TypeInt32
	case int64:
		return TypeInt64
	case uint8:
		return TypeUint8
	case uint16:
		return TypeUint16
	case uint32:
		return TypeUint32
	case uint64:
		return TypeUint64
	case float.Float16:
		return TypeFloat16
	case float.BFloat16:
		return TypeBFloat16
	case float32:
		return TypeFloat32
	case float64:
		return TypeFloat64
	case complex64:
		return TypeComplex64
	case complex128:
		return TypeComplex128
	case bool:
		return TypeBool
	case float.Float8E4M3FN:
		return TypeFloat8E4M3FN
	case float.Float8E5M2:
		return TypeFloat8E5M2
	case float.Float8E4M3FNUZ:
		return TypeFloat8E4M3FNUZ
	case float.Float8E5M2FNUZ:
		return TypeFloat8E5M2FNUZ
	case float.Float8E4M3B11FNUZ:
		return TypeFloat8E4M3B11FNUZ
	case float.Float8E3M4:
		return TypeFloat8E3M4
	case float.Float8E4M3:
		return TypeFloat8E4M3
	case float.Float8E8M0FNU:
		return TypeFloat8E8M0FNU
	default:
		return kindTypes[reflect.TypeFor[T]().Kind()]
	}
}

// kindTypes are the element types of named types, by the kind of the underlying type.
var kindTypes = [...]DType{
	reflect.Int:        {typecode.Int, strconv.IntSize, 1},
	reflect.Int8:       TypeInt8,
	reflect.Int16:      TypeInt16,
	reflect.Int32:      TypeInt32,
	reflect.Int64:      TypeInt64,
	reflect.Uint:       {typecode.UInt, strconv.IntSize, 1},
	reflect.Uint8:      TypeUint8,
	reflect.Uint16:     TypeUint16,
	reflect.Uint32:     TypeUint32,
	reflect.Uint64:     TypeUint64,
	reflect.Float32:    TypeFloat32,
	reflect.Float64:    TypeFloat64,
	reflect.Complex64:  TypeComplex64,
	reflect.Complex128: TypeComplex128,
	reflect.Bool:       TypeBool,
}

// FromSlice makes a row-major tensor on the CPU from a Go slice. It does not copy: the
// tensor and the slice share their elements. Without a shape, the tensor has one axis. The
// caller closes the tensor. The slice is pinned until the last view is closed, so that its
// address may be passed to C. FromSlice returns ErrLayout if the shape is invalid or does
// not have len(s) elements.
func FromSlice[T Element](s []T, shape ...int64) (*Tensor, error) {
	if shape == nil {
		shape = []int64{int64(len(s))}
	}
	l, err := newLayout("FromSlice", shape, nil)
	if err != nil {
		return nil, err
	}
	if l.NumElements() != int64(len(s)) {
		return nil, Errorf(ErrLayout, "core", "FromSlice", "shape %v has %d elements, the slice %d", shape, l.NumElements(), len(s))
	}
	return fromSlice("FromSlice", s, Spec{Shape: shape})
}

// FromSliceStrided is like [FromSlice] for a part of a slice, or for elements in another
// order. The first element of the tensor is s[first]. Strides count elements of s and may
// be negative or 0; nil strides mean row-major. It returns ErrLayout if the shape or the
// strides are invalid, or if an element would lie outside of s. A tensor that repeats
// elements by a stride of 0 is read-only.
func FromSliceStrided[T Element](s []T, first int, shape, strides []int64) (*Tensor, error) {
	const call = "FromSliceStrided"
	l, low, high, err := makeLayout(call, make([]int64, 0, 2*len(shape)), shape, strides)
	if err != nil {
		return nil, err
	}
	n, at := int64(len(s)), int64(first)
	if at < 0 || at > n || low < -at || high > n-at {
		return nil, Errorf(ErrLayout, "core", call, "shape %v with strides %v from element %d on leaves the slice, which has %d elements", shape, l.strides(), first, n)
	}
	spec := Spec{Shape: l.shape(), Strides: l.strides(), Offset: at * int64(unsafe.Sizeof(*new(T)))}
	if l.HasOverlap() {
		spec.Flags = FlagReadOnly
	}
	return fromSlice(call, s, spec)
}

// fromSlice makes a tensor from a slice. It sets the element type of spec.
func fromSlice[T Element](call string, s []T, spec Spec) (*Tensor, error) {
	m := Memory{ID: CPU, Size: int64(len(s)) * int64(unsafe.Sizeof(*new(T)))}
	if len(s) > 0 {
		m.Handle, m.Owner = uintptr(unsafe.Pointer(&s[0])), pin(&s[0])
	}
	spec.DType = DTypeOf[T]()
	t, err := wrap(call, m, spec)
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}

// pinnedSlice is the Owner of a Go slice. It keeps the slice alive and at its address.
type pinnedSlice struct{ runtime.Pinner }

// pinnedSlices holds every pinnedSlice that is not freed. Without it, a tensor that is
// never closed could end the program: the runtime panics when it collects a Pinner that
// still pins memory.
var pinnedSlices struct {
	mu  sync.Mutex
	all map[*pinnedSlice]struct{}
}

// pin pins a slice. first is a pointer to its first element.
func pin(first any) *pinnedSlice {
	p := new(pinnedSlice)
	p.Pin(first)
	pinnedSlices.mu.Lock()
	defer pinnedSlices.mu.Unlock()
	if pinnedSlices.all == nil {
		pinnedSlices.all = make(map[*pinnedSlice]struct{})
	}
	pinnedSlices.all[p] = struct{}{}
	return p
}

// Free unpins the slice.
func (p *pinnedSlice) Free() {
	p.Unpin()
	pinnedSlices.mu.Lock()
	defer pinnedSlices.mu.Unlock()
	delete(pinnedSlices.all, p)
}
