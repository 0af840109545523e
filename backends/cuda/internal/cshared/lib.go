//go:build cuda && linux && cgo

package main

// #include <stdint.h>
// #include <stdlib.h>
import "C"

import (
	"context"
	"encoding/json"
	"unsafe"

	"github.com/dlx-go/dlx/backends/cuda"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
)

var device core.Device // opened by dlx_open

// answer is the result of every function, as JSON.
type answer struct {
	Error   string           `json:"error,omitempty"`
	Managed uintptr          `json:"managed,omitempty"` // address of a DLManagedTensorVersioned
	Address uintptr          `json:"address,omitempty"` // of the first element
	Place   string           `json:"place,omitempty"`
	Values  []float32        `json:"values,omitempty"`
	Live    map[string]int64 `json:"live,omitempty"`
}

// reply returns an answer as a C string, which Python frees with dlx_free.
func reply(a answer, err error) *C.char {
	if err != nil {
		a.Error = err.Error()
	}
	text, _ := json.Marshal(a) // it cannot fail for these types
	return C.CString(string(text))
}

// dlx_open opens the first device.
//
//export dlx_open
func dlx_open() *C.char {
	var err error
	device, err = cuda.New().Open(context.Background(), core.DeviceID{Type: core.DeviceCUDA})
	if err != nil {
		return reply(answer{}, err)
	}
	return reply(answer{Place: device.Properties().Name}, nil)
}

// dlx_make exports a tensor with the elements 0, 1, 2 and so on, in memory of the device.
//
//export dlx_make
func dlx_make(elements C.int64_t) *C.char {
	values := make([]float32, elements)
	for i := range values {
		values[i] = float32(i)
	}
	host, err := core.FromSlice(values)
	if err != nil {
		return reply(answer{}, err)
	}
	defer host.Close()
	t, err := core.Empty(context.Background(), device, core.TypeFloat32, []int64{int64(elements)}, core.AllocOptions{})
	if err != nil {
		return reply(answer{}, err)
	}
	defer t.Close() // the exported struct has a reference of its own
	if err := device.Copy(context.Background(), nil, t, host); err != nil {
		return reply(answer{}, err)
	}
	address, err := t.Address()
	if err != nil {
		return reply(answer{}, err)
	}
	m, err := dlpack.Export(t)
	return reply(answer{Managed: uintptr(unsafe.Pointer(m)), Address: address}, err)
}

// dlx_read takes ownership of a struct. It imports the memory into the device, and reads the elements there.
//
//export dlx_read
func dlx_read(managed unsafe.Pointer) *C.char {
	t, err := dlpack.Import((*dlpack.ManagedTensorVersioned)(managed), dlpack.ImportOptions{})
	if err != nil {
		return reply(answer{}, err)
	}
	return reply(read(t))
}

// read closes t.
func read(t *core.Tensor) (a answer, err error) {
	defer t.Close()
	if a.Address, err = t.Address(); err != nil {
		return a, err
	}
	foreign, err := t.Buffer()
	if err != nil {
		return a, err
	}
	if err := foreign.Retain(); err != nil {
		return a, err
	}
	m, err := device.(core.PointerImporter).ImportPointer(a.Address, t.NumBytes(), core.FreeFunc(foreign.Release))
	if err != nil {
		foreign.Release()
		return a, err
	}
	a.Place = m.ID.String()
	imported, err := core.Wrap(m, core.Spec{DType: t.DType(), Shape: t.Shape()})
	if err != nil {
		m.Free()
		return a, err
	}
	defer imported.Close()
	a.Values = make([]float32, t.NumElements())
	host, err := core.FromSlice(a.Values, t.Shape()...)
	if err != nil {
		return a, err
	}
	defer host.Close()
	return a, device.Copy(context.Background(), nil, host, imported)
}

// dlx_live releases the structs that were deleted, closes the device and returns the live counters.
//
//export dlx_live
func dlx_live() *C.char {
	dlpack.Flush()
	err := device.Close()
	return reply(answer{Live: core.Live()}, err)
}

// dlx_free frees an answer.
//
//export dlx_free
func dlx_free(text *C.char) { C.free(unsafe.Pointer(text)) }
