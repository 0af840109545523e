//go:build cgo && !windows

package main

// #include <stdint.h>
// #include <stdlib.h>
import "C"

import (
	"encoding/json"
	"runtime"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

// tensors are those that Python has a number of.
var tensors struct {
	mu   sync.Mutex
	open map[int64]*core.Tensor
	last int64
}

// answer is what every function returns, as JSON.
type answer struct {
	Error   string           `json:"error,omitempty"`
	Tensor  int64            `json:"tensor,omitempty"`
	Managed uintptr          `json:"managed,omitempty"` // address of the struct
	Address uintptr          `json:"address,omitempty"` // of the first element
	DType   string           `json:"dtype,omitempty"`
	Shape   []int64          `json:"shape,omitempty"`
	Strides []int64          `json:"strides,omitempty"`
	Flags   uint64           `json:"flags,omitempty"`
	Live    map[string]int64 `json:"live,omitempty"`
}

// reply turns an answer into a C string, which Python frees with dlx_free.
func reply(a answer, err error) *C.char {
	if err != nil {
		a.Error = err.Error()
	}
	text, _ := json.Marshal(a) // none of the types can fail
	return C.CString(string(text))
}

// keep numbers a tensor and describes it.
func keep(t *core.Tensor, err error) *C.char {
	if err != nil {
		return reply(answer{}, err)
	}
	tensors.mu.Lock()
	defer tensors.mu.Unlock()
	if tensors.open == nil {
		tensors.open = make(map[int64]*core.Tensor)
	}
	tensors.last++
	tensors.open[tensors.last] = t
	address, err := t.Address()
	return reply(answer{
		Tensor:  tensors.last,
		Address: address,
		DType:   t.DType().String(),
		Shape:   t.Shape(),
		Strides: t.Layout().Strides(),
		Flags:   uint64(t.Flags()),
	}, err)
}

// find returns the tensor with a number; nil, which every function refuses, for a wrong one.
func find(number C.int64_t) *core.Tensor {
	tensors.mu.Lock()
	defer tensors.mu.Unlock()
	return tensors.open[int64(number)]
}

// dlx_make makes a row-major tensor with a copy of the bytes at data, in Go's memory.
//
//export dlx_make
func dlx_make(dtype *C.char, shape *C.int64_t, rank C.int, data unsafe.Pointer, size C.int64_t) *C.char {
	d, err := core.ParseDType(C.GoString(dtype))
	if err != nil {
		return reply(answer{}, err)
	}
	m := core.Memory{ID: core.CPU, Size: int64(size)}
	if size > 0 {
		words := make([]complex128, (size+15)/16) // aligned for every type
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size), unsafe.Slice((*byte)(data), size))
		pinned := new(runtime.Pinner)
		pinned.Pin(&words[0])
		m.Handle, m.Owner = uintptr(unsafe.Pointer(&words[0])), core.FreeFunc(pinned.Unpin)
	}
	return keep(core.Wrap(m, core.Spec{DType: d, Shape: append([]int64{}, unsafe.Slice((*int64)(shape), rank)...)}))
}

// dlx_view makes a view: "transpose", "reverse" and "step" of the first axis, "readonly".
//
//export dlx_view
func dlx_view(number C.int64_t, how *C.char) *C.char {
	t := find(number)
	switch n := t.Layout(); C.GoString(how) {
	case "transpose":
		return keep(t.Transpose())
	case "reverse":
		return keep(t.Slice(0, n.Dim(0)-1, -1, -1))
	case "step":
		return keep(t.Slice(0, 0, n.Dim(0), 2))
	case "readonly":
		return keep(t.AsReadOnly())
	default:
		return keep(t.Share())
	}
}

// dlx_export exports a tensor, which stays open.
//
//export dlx_export
func dlx_export(number C.int64_t, legacy C.int) *C.char {
	if legacy != 0 {
		m, err := dlpack.ExportLegacy(find(number))
		return reply(answer{Managed: uintptr(unsafe.Pointer(m))}, err)
	}
	m, err := dlpack.Export(find(number))
	return reply(answer{Managed: uintptr(unsafe.Pointer(m))}, err)
}

// dlx_import takes a struct over.
//
//export dlx_import
func dlx_import(managed unsafe.Pointer, legacy C.int) *C.char {
	if legacy != 0 {
		return keep(dlpack.ImportLegacy((*dlpack.ManagedTensor)(managed), dlpack.ImportOptions{}))
	}
	return keep(dlpack.Import((*dlpack.ManagedTensorVersioned)(managed), dlpack.ImportOptions{}))
}

// dlx_delete calls the deleter of a struct that nobody took.
//
//export dlx_delete
func dlx_delete(managed unsafe.Pointer, legacy C.int) {
	if legacy != 0 {
		dlpack.DeleteLegacy((*dlpack.ManagedTensor)(managed))
		return
	}
	dlpack.Delete((*dlpack.ManagedTensorVersioned)(managed))
}

// dlx_close closes a tensor.
//
//export dlx_close
func dlx_close(number C.int64_t) {
	_ = find(number).Close() // never fails
	tensors.mu.Lock()
	defer tensors.mu.Unlock()
	delete(tensors.open, int64(number))
}

// dlx_live tells the live counters, when all that was deleted is given back.
//
//export dlx_live
func dlx_live() *C.char {
	dlpack.Flush()
	return reply(answer{Live: core.Live()}, nil)
}

// dlx_table is the address of our exchange table.
//
//export dlx_table
func dlx_table() uintptr { return uintptr(unsafe.Pointer(dlpack.Table())) }

// dlx_free frees an answer.
//
//export dlx_free
func dlx_free(text *C.char) { C.free(unsafe.Pointer(text)) }
