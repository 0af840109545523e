//go:build gl && linux && cgo

package egl

/*
#include "calls.h"

typedef void (*dlx_sub_data)(unsigned buffer, intptr_t at, intptr_t n, uintptr_t host);

static inline void dlx_call_sub_data(uintptr_t f, unsigned buffer, int64_t at, int64_t n, uintptr_t host) {
	((dlx_sub_data)f)(buffer, at, n, host);
}
*/
import "C"

import "sync"

var (
	namedBufferSubData    = sync.OnceValue(func() C.uintptr_t { return C.uintptr_t(uintptr(ProcAddress("glNamedBufferSubData"))) })
	getNamedBufferSubData = sync.OnceValue(func() C.uintptr_t { return C.uintptr_t(uintptr(ProcAddress("glGetNamedBufferSubData"))) })
)

// NamedBufferSubData calls glNamedBufferSubData with a host address that is a number. go-gl takes a pointer,
// and cgo ends a program that passes a pointer into an object with Go pointers, such as a struct with an
// array. OpenGL does not keep the address.
func NamedBufferSubData(buffer uint32, at, n int64, host uintptr) {
	C.dlx_call_sub_data(namedBufferSubData(), C.uint(buffer), C.int64_t(at), C.int64_t(n), C.uintptr_t(host))
}

// GetNamedBufferSubData calls glGetNamedBufferSubData in the same way.
func GetNamedBufferSubData(buffer uint32, at, n int64, host uintptr) {
	C.dlx_call_sub_data(getNamedBufferSubData(), C.uint(buffer), C.int64_t(at), C.int64_t(n), C.uintptr_t(host))
}
