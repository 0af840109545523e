//go:build cgo

package main

// #include <stdint.h>
import "C"

import (
	"context"
	"fmt"
	"os"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/interop/arrow"
)

// taken is the tensor of the last dlx_take.
var taken *core.Tensor

// failed prints an error, and returns 0.
func failed(err error) C.uintptr_t {
	fmt.Fprintln(os.Stderr, err)
	return 0
}

// dlx_give exports the numbers 0 to 23 as shape (2, 3, 4), with the last two axes exchanged if turned is set, or as
// one axis of 24. It returns the address of the first one.
//
//export dlx_give
func dlx_give(rank, turned C.int, array, schema unsafe.Pointer) C.uintptr_t {
	data := make([]float32, 24)
	for i := range data {
		data[i] = float32(i)
	}
	shape := []int64{2, 3, 4}
	if rank == 1 {
		shape = []int64{24}
	}
	t, err := core.FromSlice(data, shape...)
	if err != nil {
		return failed(err)
	}
	defer t.Close()
	if turned != 0 {
		base := t
		defer base.Close()
		if t, err = base.Permute(0, 2, 1); err != nil {
			return failed(err)
		}
		defer t.Close()
	}
	if err := arrow.ExportDevice(context.Background(), t, array, schema, arrow.ExportOptions{}); err != nil {
		return failed(err)
	}
	return C.uintptr_t(uintptr(unsafe.Pointer(&data[0])))
}

// dlx_take imports an array. It returns the address of the first element.
//
//export dlx_take
func dlx_take(array, schema unsafe.Pointer) C.uintptr_t {
	t, err := arrow.ImportDevice(context.Background(), array, schema, arrow.ImportOptions{})
	if err != nil {
		return failed(err)
	}
	taken = t
	fmt.Println(t.DType(), t.Shape(), t.Layout().Strides())
	address, err := t.Address()
	if err != nil {
		return failed(err)
	}
	return C.uintptr_t(address)
}

// dlx_close closes the tensor of dlx_take, and returns the number of open tensors and buffers.
//
//export dlx_close
func dlx_close() C.int64_t {
	taken.Close()
	var n int64
	for _, count := range core.Live() {
		n += count
	}
	return C.int64_t(n)
}
