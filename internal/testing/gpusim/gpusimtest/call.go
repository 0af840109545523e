//go:build linux && cgo

package gpusimtest

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint64_t word;
typedef word (*function)(word, word, word, word, word, word, word, word, word, word, word);

// Every argument is an integer or an address: what a callee does not expect it does not see.
static word call(void *f, const word *a) {
	return ((function)f)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
}

// But for those that get an interprocess handle by value, as the second argument.
typedef struct { unsigned char bytes[64]; } handle;

static word call_handle(void *f, word first, const handle *h, word last) {
	return ((word (*)(word, handle, word))f)(first, *h, last);
}
*/
import "C"

import (
	"errors"
	"reflect"
	"runtime"
	"unsafe"
)

// Handle is an interprocess handle of memory or of an event (CUipcMemHandle, CUipcEventHandle). Functions
// take it by value, as their second argument.
type Handle [64]byte

// maxArgs is as many as cuLaunchKernel has.
const maxArgs = 11

// Library is an opened shared library. It stays open.
type Library struct{ handle unsafe.Pointer }

// Open opens a library by its path or name. The error has dlopen's message.
func Open(path string) (*Library, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	handle := C.dlopen(name, C.RTLD_NOW|C.RTLD_LOCAL)
	if handle == nil {
		return nil, errors.New(C.GoString(C.dlerror()))
	}
	return &Library{handle}, nil
}

// symbol returns a function's address. A test that names one that is not there is wrong.
func (l *Library) symbol(name string) unsafe.Pointer {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	f := C.dlsym(l.handle, s)
	if f == nil {
		panic("the library exports no " + name)
	}
	return f
}

// Call calls a function by its exported name, and returns the content of the result register. An argument is
// an integer, a [Handle], nil, or a pointer to a Go value without pointers, which is pinned during the call.
// For libraries that keep state for each thread, lock the goroutine to its thread.
func (l *Library) Call(name string, args ...any) uint64 {
	var words [maxArgs]C.word
	var pins runtime.Pinner
	defer pins.Unpin()
	if len(args) > 1 {
		if h, ok := args[1].(Handle); ok {
			last := C.word(0)
			if len(args) > 2 {
				last = word(&pins, args[2])
			}
			return uint64(C.call_handle(l.symbol(name), word(&pins, args[0]), (*C.handle)(unsafe.Pointer(&h)), last))
		}
	}
	for i, a := range args {
		words[i] = word(&pins, a)
	}
	return uint64(C.call(l.symbol(name), &words[0]))
}

// string calls a function that leaves the address of a text where its second argument
// points.
func (l *Library) string(name string, first any) string {
	var text *C.char
	l.Call(name, first, &text)
	return C.GoString(text)
}

// Text calls a function that returns the address of a text.
func (l *Library) Text(name string, args ...any) string {
	at := l.Call(name, args...)
	return C.GoString(*(**C.char)(unsafe.Pointer(&at)))
}

// Has reports whether the library exports a function.
func (l *Library) Has(name string) bool {
	s := C.CString(name)
	defer C.free(unsafe.Pointer(s))
	return C.dlsym(l.handle, s) != nil
}

// word is an argument as the callee gets it.
func word(pins *runtime.Pinner, a any) C.word {
	switch v := reflect.ValueOf(a); {
	case a == nil:
		return 0
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			pins.Pin(a)
		}
		return C.word(v.Pointer())
	case v.CanInt():
		return C.word(v.Int())
	case v.CanUint():
		return C.word(v.Uint())
	default:
		panic("an argument is neither an integer nor a pointer: " + v.Type().String())
	}
}
