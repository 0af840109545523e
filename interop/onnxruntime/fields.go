//go:build cgo && unix

package onnxruntime

import (
	"reflect"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	ort "github.com/yalue/onnxruntime_go"
)

// onnxruntime_go wraps each handle of ONNX Runtime in a struct with one unexported field. These functions get at the
// handles. checkFields finds out at run time whether that is still so.

// checkFields returns an error if onnxruntime_go's structs have another form than this package expects.
func checkFields() error {
	for _, want := range []struct {
		in    reflect.Type
		field string
	}{
		{reflect.TypeFor[ort.ValueInternalData](), "ortValue"},
		{reflect.TypeFor[ort.IoBinding](), "o"},
	} {
		if want.in.NumField() != 1 || want.in.Field(0).Name != want.field || want.in.Field(0).Type.Kind() != reflect.Pointer {
			return core.Errorf(core.ErrVersion, apiName, "Open", "this version of onnxruntime_go has another %v; version 1.33.0 is known", want.in)
		}
	}
	return nil
}

// valueHandle returns the OrtValue of v, which is borrowed; nil if v was destroyed.
func valueHandle(v ort.Value) unsafe.Pointer {
	data := v.GetInternals()
	if data == nil {
		return nil
	}
	return *(*unsafe.Pointer)(unsafe.Pointer(data))
}

// internals wraps an OrtValue for onnxruntime_go.
func internals(value unsafe.Pointer) *ort.ValueInternalData {
	data := new(ort.ValueInternalData)
	*(*unsafe.Pointer)(unsafe.Pointer(data)) = value
	return data
}

// bindingHandle returns the OrtIoBinding of b, which is borrowed.
func bindingHandle(b *ort.IoBinding) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(b)) }
