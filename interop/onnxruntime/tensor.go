//go:build cgo && unix

package onnxruntime

import (
	"reflect"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	ort "github.com/yalue/onnxruntime_go"
)

// Tensor makes a tensor of a value, such as an output of a session. It copies nothing. If it succeeds, the tensor owns
// the value: the value is destroyed when the last view of the tensor is closed, and the caller must not destroy it. If
// it fails, the caller still owns the value. ONNX Runtime must have finished its work on the value, as is the case when
// a session has returned.
//
// Tensor returns core.ErrInvalid if v is nil, core.ErrClosed if v was destroyed or the library is closed, core.ErrDType
// if v is no tensor or has elements that dlx lacks, such as strings, and core.ErrNotSupported for kinds of memory that
// dlx does not know.
func (l *Library) Tensor(v ort.Value) (*core.Tensor, error) {
	if p := reflect.ValueOf(v); v == nil || p.Kind() == reflect.Pointer && p.IsNil() {
		return nil, core.Errorf(core.ErrInvalid, apiName, "Tensor", "the value is nil")
	}
	if ours, ok := v.(*Value); ok { // the tensor also knows its device, and the work on it
		t, err := ours.Tensor()
		if err == nil {
			_ = ours.Destroy() // always nil
		}
		return t, err
	}
	handle := valueHandle(v)
	if handle == nil {
		return nil, core.Errorf(core.ErrClosed, apiName, "Tensor", "the value was destroyed")
	}
	return l.wrap(handle, func() { _ = v.Destroy() }) // an error of a value that is lost in any case
}

// wrap makes a tensor of an OrtValue. If it succeeds, the last view calls free; if it fails, nobody does.
func (l *Library) wrap(handle unsafe.Pointer, free func()) (*core.Tensor, error) {
	if err := l.retain(); err != nil {
		return nil, err
	}
	t, err := l.wrapRetained(handle, free)
	if err != nil {
		l.release()
	}
	return t, err
}

func (l *Library) wrapRetained(handle unsafe.Pointer, free func()) (*core.Tensor, error) {
	d, err := l.table.describe(handle)
	if err != nil {
		return nil, err
	}
	dtype, ok := dtypes[d.dtype]
	if !ok {
		return nil, core.Errorf(core.ErrDType, apiName, "GetTensorElementType", "elements of type %v", d.dtype)
	}
	id, err := placeID(d.place, d.id)
	if err != nil {
		return nil, err
	}
	const most = 1<<63 - 1
	if d.bytes > most {
		return nil, core.Errorf(core.ErrLayout, apiName, "GetTensorSizeInBytes", "%d bytes", d.bytes)
	}
	// Wrap checks that the shape needs no more than these bytes.
	memory := core.Memory{ID: id, Handle: d.data, Size: int64(d.bytes), Owner: &owner{lib: l, free: free}}
	return core.Wrap(memory, core.Spec{DType: dtype, Shape: d.shape})
}

// owner destroys the value of a tensor.
type owner struct {
	lib  *Library
	free func()
}

// Free implements core.Owner.
func (o *owner) Free() {
	o.free()
	o.lib.release()
}
