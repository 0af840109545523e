//go:build cgo && unix

package onnxruntime

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "abi.h"
*/
import "C"

import (
	"runtime"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	ort "github.com/yalue/onnxruntime_go"
)

// table is ONNX Runtime's table of functions, with the library that it belongs to.
type table struct {
	api    unsafe.Pointer
	handle unsafe.Pointer
}

// openTable finds the table of the library at path, which onnxruntime_go has loaded.
func openTable(path string) (table, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var t table
	var version *C.char
	if t.api = C.dlx_ort_open(name, &t.handle, &version); t.api != nil {
		return t, nil
	}
	said := C.GoString(version)
	if version == nil {
		said = "the program has not loaded it"
	}
	return table{}, core.Errorf(core.ErrVersion, apiName, "OrtGetApiBase",
		"%s is not the library that onnxruntime_go has loaded, or is older than version 1.%d: %s; "+
			"pass the path that onnxruntime_go got", path, C.dlx_ort_api_version, said)
}

func (t table) close() { C.dlx_ort_close(t.handle) }

// check returns the error that a status stands for, and releases the status.
func (t table) check(call string, status unsafe.Pointer) error {
	if status == nil {
		return nil
	}
	defer C.dlx_ort_release_status(t.api, status)
	code := int64(C.dlx_ort_code(t.api, status))
	err := core.ErrInvalid
	if code == notImplemented {
		err = core.ErrNotSupported
	}
	return &core.Error{Backend: apiName, Call: call, Code: code, Detail: C.GoString(C.dlx_ort_message(t.api, status)), Err: err}
}

const notImplemented = 9 // ORT_NOT_IMPLEMENTED

// memoryInfo makes the description of a place. The caller releases it.
func (t table) memoryInfo(name string, id int32) (unsafe.Pointer, error) {
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	var info unsafe.Pointer
	err := t.check("CreateMemoryInfo", C.dlx_ort_memory_info(t.api, cName, C.int32_t(id), &info))
	return info, err
}

func (t table) releaseMemoryInfo(info unsafe.Pointer) { C.dlx_ort_release_memory_info(t.api, info) }

// tensorOn makes a value of memory at data, which stays the program's. The caller releases the value.
func (t table) tensorOn(info unsafe.Pointer, data uintptr, bytes int64, shape []int64, dtype ort.TensorElementDataType) (unsafe.Pointer, error) {
	var value unsafe.Pointer
	status := C.dlx_ort_tensor_on(t.api, info, C.uintptr_t(data), C.size_t(bytes),
		(*C.int64_t)(unsafe.SliceData(shape)), C.size_t(len(shape)), C.int32_t(dtype), &value)
	return value, t.check("CreateTensorWithDataAsOrtValue", status)
}

func (t table) releaseValue(value unsafe.Pointer) { C.dlx_ort_release_value(t.api, value) }

// described is what ONNX Runtime says of the tensor in a value.
type described struct {
	dtype ort.TensorElementDataType
	shape []int64
	bytes uint64
	data  uintptr
	place string
	id    int32
}

// describe reads value, which must be a tensor.
func (t table) describe(value unsafe.Pointer) (described, error) {
	var tensor C.dlx_ort_tensor
	var call *C.char
	shape := make([]int64, core.MaxRank)
	status := C.dlx_ort_describe(t.api, value, &tensor, (*C.int64_t)(unsafe.SliceData(shape)), core.MaxRank, &call)
	if err := t.check(C.GoString(call), status); err != nil {
		return described{}, err
	}
	if tensor.is_tensor == 0 {
		return described{}, core.Errorf(core.ErrDType, apiName, "IsTensor", "the value is a sequence, a map or empty, not a tensor")
	}
	if tensor.rank > core.MaxRank {
		return described{}, core.Errorf(core.ErrLayout, apiName, "GetDimensionsCount", "%d axes; at most %d are supported", tensor.rank, core.MaxRank)
	}
	return described{
		dtype: ort.TensorElementDataType(tensor._type),
		shape: shape[:tensor.rank],
		bytes: uint64(tensor.bytes),
		data:  uintptr(tensor.data),
		place: C.GoString(tensor.place),
		id:    int32(tensor.id),
	}, nil
}

// bindOutputTo makes ONNX Runtime allocate an output at the place that info describes.
func (t table) bindOutputTo(b *ort.IoBinding, name string, info unsafe.Pointer) error {
	defer runtime.KeepAlive(b)
	cName := C.CString(name)
	defer C.free(unsafe.Pointer(cName))
	return t.check("BindOutputToDevice", C.dlx_ort_bind_output_to(t.api, bindingHandle(b), cName, info))
}

// boundOutputs returns the outputs of a binding, in the order in which they were bound. The caller releases each.
func (t table) boundOutputs(b *ort.IoBinding) ([]unsafe.Pointer, error) {
	defer runtime.KeepAlive(b)
	var allocator unsafe.Pointer
	var array *unsafe.Pointer
	var count C.size_t
	status := C.dlx_ort_bound_outputs(t.api, bindingHandle(b), &allocator, &array, &count)
	if err := t.check("GetBoundOutputValues", status); err != nil {
		return nil, err
	}
	var values []unsafe.Pointer
	if array != nil {
		values = append(values, unsafe.Slice(array, int(count))...)
	}
	C.dlx_ort_free(t.api, allocator, unsafe.Pointer(array))
	return values, nil
}
