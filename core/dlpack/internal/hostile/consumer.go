//go:build cgo && !windows

package hostile

// #include <stdlib.h>
// #include "hostile.h"
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/core/internal/abi"
)

func address(m *abi.ManagedTensorVersioned) C.uintptr_t {
	return C.uintptr_t(uintptr(unsafe.Pointer(m)))
}

// EmptyCall is a call of a C function that does nothing.
func EmptyCall() { C.empty_call() }

// Consume reads a struct in C and calls its deleter.
func Consume(m *abi.ManagedTensorVersioned) { C.consume(address(m)) }

// Gather copies the elements, each of item bytes, in row-major order. C reads
// them through the struct's own shape, strides and offset.
func Gather(t *abi.Tensor, elements, item int) []byte {
	if elements == 0 {
		return nil
	}
	out := make([]byte, elements*item)
	C.gather((*C.DLTensor)(unsafe.Pointer(t)), C.size_t(item), (*C.char)(unsafe.Pointer(&out[0])))
	return out
}

// DeleteOnThread calls the deleter on a thread that Go does not know, and reports
// whether errno was left alone.
func DeleteOnThread(m *abi.ManagedTensorVersioned) bool { return C.run_deleter(address(m), 0) == 0 }

// DeleteLegacyOnThread is DeleteOnThread for the legacy struct.
func DeleteLegacyOnThread(m *abi.ManagedTensor) bool {
	return C.run_deleter(C.uintptr_t(uintptr(unsafe.Pointer(m))), 1) == 0
}

// Reaper is a pool of C threads that consume what they are given.
type Reaper struct{ c *C.struct_reaper }

// NewReaper starts the threads, at most 16.
func NewReaper(threads int) Reaper { return Reaper{C.new_reaper(C.int(threads))} }

// Give passes a struct on; some thread will call its deleter.
func (r Reaper) Give(m *abi.ManagedTensorVersioned) { C.reaper_give(r.c, address(m)) }

// Close waits until everything is deleted and ends the threads.
func (r Reaper) Close() { C.reaper_close(r.c) }

// TableKind is a way in which an exchange table's allocator misbehaves.
type TableKind int

// The kinds of tables.
const (
	TableFails      TableKind = C.table_fails       // with an error of the kind of SetFailure
	TableNull       TableKind = C.table_null        // success, and NULL
	TableWrongShape TableKind = C.table_wrong_shape // Immortal, whatever was asked for
	TableSilent     TableKind = C.table_silent      // failure without an error
)

// Table is an exchange table in C memory. Its current_work_stream answers
// 0x1000 + index for CUDA and fails with 7 for all else.
func Table(kind TableKind) *abi.ExchangeAPI {
	return (*abi.ExchangeAPI)(unsafe.Pointer(C.hostile_table(C.int(kind))))
}

// CloneTable copies a table to C memory, for a test to change. FreeTable frees it.
func CloneTable(table *abi.ExchangeAPI) *abi.ExchangeAPI {
	c := (*abi.ExchangeAPI)(C.calloc(1, C.size_t(unsafe.Sizeof(*table))))
	*c = *table
	return c
}

// FreeTable frees what CloneTable made.
func FreeTable(table *abi.ExchangeAPI) { C.free(unsafe.Pointer(table)) }

// SetFailure sets the kind of error of TableFails.
func SetFailure(kind string) {
	c := C.CString(kind)
	C.set_failure(c)
	C.free(unsafe.Pointer(c))
}

// CallAllocator calls a table's allocator for floats of the given width and
// returns the struct, or the kind of the error.
func CallAllocator(api *abi.ExchangeAPI, deviceType, ndim int32, bits uint8, shape []int64) (m *abi.ManagedTensorVersioned, kind string, code int) {
	var out C.uintptr_t
	var buf [64]C.char
	c := C.call_allocator(C.uintptr_t(uintptr(unsafe.Pointer(api))), C.int32_t(deviceType), C.int32_t(ndim), C.uint8_t(bits),
		(*C.int64_t)(unsafe.SliceData(shape)), &out, &buf[0], C.size_t(len(buf)))
	return (*abi.ManagedTensorVersioned)(abi.Pointer(uintptr(out))), C.GoString(&buf[0]), int(c)
}

// CallPyFunctions calls the two functions of a table that convert Python objects
// and returns the sum of their answers.
func CallPyFunctions(api *abi.ExchangeAPI) int {
	return int(C.call_py_functions(C.uintptr_t(uintptr(unsafe.Pointer(api)))))
}

// CallWorkStream returns the answer of current_work_stream, or 1 if it named a stream.
func CallWorkStream(api *abi.ExchangeAPI, deviceType int32) int {
	return int(C.call_work_stream(C.uintptr_t(uintptr(unsafe.Pointer(api))), C.int32_t(deviceType)))
}
