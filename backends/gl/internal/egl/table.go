//go:build gl && linux && cgo

package egl

// #include "calls.h"
import "C"

import (
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// table holds the functions of libEGL that this package uses.
type table struct {
	library *dl.Library

	getProcAddress, getError, queryString       uintptr
	initialize, bindAPI, createContext          uintptr
	makeCurrent, destroyContext, releaseThread  uintptr
	getCurrentDisplay                           uintptr
	queryDevices, queryDeviceString, getDisplay uintptr // of extensions, as the next ones
	queryDisplayAttrib, queryDeviceAttrib       uintptr
}

// open opens libEGL once; drivers do not survive being unloaded.
var open = sync.OnceValues(func() (*table, error) {
	library, err := dl.Open("gl", "libEGL.so.1", "libEGL.so")
	if err != nil {
		return nil, err
	}
	t := &table{library: library}
	if err := library.Resolve([]dl.Symbol{
		{Name: "eglGetProcAddress", Address: &t.getProcAddress},
		{Name: "eglGetError", Address: &t.getError},
		{Name: "eglQueryString", Address: &t.queryString},
		{Name: "eglInitialize", Address: &t.initialize},
		{Name: "eglBindAPI", Since: "1.2", Address: &t.bindAPI},
		{Name: "eglCreateContext", Address: &t.createContext},
		{Name: "eglMakeCurrent", Address: &t.makeCurrent},
		{Name: "eglDestroyContext", Address: &t.destroyContext},
		{Name: "eglReleaseThread", Since: "1.2", Address: &t.releaseThread},
		{Name: "eglGetCurrentDisplay", Optional: true, Address: &t.getCurrentDisplay}, // only CUDADevice needs it
	}); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		extension, name string
		address         *uintptr
	}{
		{"EGL_EXT_device_enumeration", "eglQueryDevicesEXT", &t.queryDevices},
		{"EGL_EXT_device_query", "eglQueryDeviceStringEXT", &t.queryDeviceString},
		{"EGL_EXT_device_query", "eglQueryDisplayAttribEXT", &t.queryDisplayAttrib},
		{"EGL_EXT_device_query", "eglQueryDeviceAttribEXT", &t.queryDeviceAttrib},
		{"EGL_EXT_platform_base", "eglGetPlatformDisplayEXT", &t.getDisplay},
	} {
		if t.clientHas(s.extension) || t.clientHas("EGL_EXT_device_base") {
			*s.address = uintptr(t.proc(s.name))
		}
	}
	return t, nil
})

// proc returns the address of a function of EGL or OpenGL. The driver may lack the function although the
// address is not nil.
func (t *table) proc(name string) unsafe.Pointer {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	return C.dlx_get_proc(C.uintptr_t(t.getProcAddress), cname)
}

// clientHas reports whether libEGL has an extension that belongs to no display.
func (t *table) clientHas(extension string) bool {
	all := C.GoString(C.dlx_query_string(C.uintptr_t(t.queryString), 0, C.EGL_EXTENSIONS))
	return hasWord(all, extension)
}

func hasWord(list, word string) bool {
	for w := range strings.FieldsSeq(list) {
		if w == word {
			return true
		}
	}
	return false
}

// ProcAddress returns the address of an OpenGL function, for go-gl. It returns nil if there is no libEGL.
func ProcAddress(name string) unsafe.Pointer {
	t, err := open()
	if err != nil {
		return nil
	}
	return t.proc(name)
}

// failure returns the error of a call that has just failed on this thread.
func (t *table) failure(call, what string) error {
	code := int64(C.dlx_error(C.uintptr_t(t.getError)))
	sentinel := core.ErrNotSupported
	switch code {
	case C.EGL_BAD_ALLOC:
		sentinel = core.ErrOutOfMemory
	case C.EGL_CONTEXT_LOST:
		sentinel = core.ErrDeviceLost
	}
	e := core.Errorf(sentinel, "gl", call, "%s: %s", errorName(code), what)
	e.Code = code
	return e
}

// errorName returns the name of a code of eglGetError.
func errorName(code int64) string {
	names := [...]string{
		"EGL_SUCCESS", "EGL_NOT_INITIALIZED", "EGL_BAD_ACCESS", "EGL_BAD_ALLOC", "EGL_BAD_ATTRIBUTE",
		"EGL_BAD_CONFIG", "EGL_BAD_CONTEXT", "EGL_BAD_CURRENT_SURFACE", "EGL_BAD_DISPLAY", "EGL_BAD_MATCH",
		"EGL_BAD_NATIVE_PIXMAP", "EGL_BAD_NATIVE_WINDOW", "EGL_BAD_PARAMETER", "EGL_BAD_SURFACE", "EGL_CONTEXT_LOST",
	}
	if i := code - C.EGL_SUCCESS; i >= 0 && i < int64(len(names)) {
		return names[i]
	}
	return "EGL error 0x" + strconv.FormatInt(code, 16)
}
