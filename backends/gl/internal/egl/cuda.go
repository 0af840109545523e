//go:build gl && linux && cgo

package egl

// #include "calls.h"
import "C"

import (
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// CUDADevice returns the number that CUDA gives to the device of the context that is current on the calling thread
// (EGL_CUDA_DEVICE_NV of EGL_NV_device_cuda). It fails with core.ErrNotSupported if the context is not one of EGL, or
// the driver does not say.
func CUDADevice() (int32, error) {
	t, err := open()
	if err != nil {
		return 0, err
	}
	return t.cudaDevice()
}

func (t *table) cudaDevice() (int32, error) {
	if t.getCurrentDisplay == 0 || t.queryDisplayAttrib == 0 || t.queryDeviceAttrib == 0 || t.queryDeviceString == 0 {
		return 0, core.Errorf(core.ErrNotSupported, "gl", "eglQueryString", "libEGL has no EGL_EXT_device_query, or no eglGetCurrentDisplay")
	}
	display := C.dlx_current_display(C.uintptr_t(t.getCurrentDisplay))
	if display == 0 {
		return 0, core.Errorf(core.ErrNotSupported, "gl", "eglGetCurrentDisplay", "no context of EGL is current on the thread")
	}
	var value C.EGLAttrib
	if C.dlx_display_attrib(C.uintptr_t(t.queryDisplayAttrib), display, C.EGL_DEVICE_EXT, &value) == 0 {
		return 0, t.failure("eglQueryDisplayAttribEXT", "the display has no device")
	}
	device := *(*C.EGLDeviceEXT)(unsafe.Pointer(&value)) // a pointer of EGL's
	if !hasWord(C.GoString(C.dlx_query_device(C.uintptr_t(t.queryDeviceString), device, C.EGL_EXTENSIONS)), "EGL_NV_device_cuda") {
		return 0, core.Errorf(core.ErrNotSupported, "gl", "eglQueryDeviceStringEXT", "the device has no EGL_NV_device_cuda")
	}
	if C.dlx_device_attrib(C.uintptr_t(t.queryDeviceAttrib), device, C.EGL_CUDA_DEVICE_NV, &value) == 0 {
		return 0, t.failure("eglQueryDeviceAttribEXT", "CUDA does not have the device, or CUDA_VISIBLE_DEVICES hides it")
	}
	if value < 0 || value > math.MaxInt32 {
		return 0, core.Errorf(core.ErrNotSupported, "gl", "eglQueryDeviceAttribEXT", "EGL_CUDA_DEVICE_NV is %d, which is no device of CUDA", int64(value))
	}
	return int32(value), nil
}
