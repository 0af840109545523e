//go:build cgo && !windows

package foreign

// #cgo CFLAGS: -std=c11 -O2 -I${SRCDIR}/../../../core/internal/abi
// #include <string.h>
// #include "foreign.h"
import "C"

import (
	"unsafe"

	"github.com/dlx-go/dlx/core/dlpack"
)

// Available returns nil: the C functions are in this build.
func Available() error { return nil }

// EmptyCall calls a C function that does nothing.
func EmptyCall() { C.foreign_empty() }

// Consume passes a struct to C, which reads it and calls its deleter, in one call.
func Consume(m *dlpack.ManagedTensorVersioned) {
	C.foreign_consume(C.uintptr_t(uintptr(unsafe.Pointer(m))))
}

// DeleteAll calls the deleters of all structs, in one call.
func DeleteAll(managed []*dlpack.ManagedTensorVersioned) {
	C.foreign_delete_all((**C.DLManagedTensorVersioned)(unsafe.Pointer(unsafe.SliceData(managed))), C.size_t(len(managed)))
}

// Produce returns a float32 CPU tensor of shape 2x3x4 in C memory that may be
// imported any number of times, one after the other. [Deleted] counts how often
// its deleter was called.
func Produce() *dlpack.ManagedTensorVersioned {
	return (*dlpack.ManagedTensorVersioned)(unsafe.Pointer(C.foreign_produce()))
}

// Deleted returns how often the deleter of [Produce]'s tensor was called.
func Deleted() int64 { return int64(C.foreign_deleted()) }

// MemcpyName says whose memcpy [Memcpy] is.
const MemcpyName = "memcpy"

// Memcpy copies as many bytes as dst has with the C library's memcpy. src must
// not be shorter.
func Memcpy(dst, src []byte) {
	C.memcpy(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(src)), C.size_t(len(dst)))
}
