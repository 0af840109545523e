//go:build gl && linux && cgo

package egltest

/*
#include <stdint.h>
#include <EGL/egl.h>
#include <EGL/eglext.h>

static char display, device; // handles are the addresses
static struct {
	int current, has_device, has_number;
	const char *extensions;
	EGLAttrib number;
	EGLint error;
} fake;

static EGLBoolean failed(EGLint error) {
	fake.error = error;
	return EGL_FALSE;
}

static EGLDisplay current_display(void) { return fake.current ? &display : EGL_NO_DISPLAY; }

static EGLBoolean display_attrib(EGLDisplay d, EGLint name, EGLAttrib *value) {
	if (d != &display) return failed(EGL_BAD_DISPLAY);
	if (name != EGL_DEVICE_EXT || !fake.has_device) return failed(EGL_BAD_ATTRIBUTE);
	*value = (EGLAttrib)(intptr_t)&device;
	return EGL_TRUE;
}

static const char *device_string(EGLDeviceEXT d, EGLint name) {
	return d == &device && name == EGL_EXTENSIONS ? fake.extensions : NULL;
}

static EGLBoolean device_attrib(EGLDeviceEXT d, EGLint name, EGLAttrib *value) {
	if (d != &device) return failed(EGL_BAD_DEVICE_EXT);
	if (name != EGL_CUDA_DEVICE_NV || !fake.has_number) return failed(EGL_BAD_ATTRIBUTE);
	*value = fake.number;
	return EGL_TRUE;
}

static EGLint get_error(void) {
	EGLint error = fake.error ? fake.error : EGL_SUCCESS;
	fake.error = 0;
	return error;
}

static void set(int current, int has_device, int has_number, const char *extensions, int64_t number) {
	fake.current = current;
	fake.has_device = has_device;
	fake.has_number = has_number;
	fake.extensions = extensions;
	fake.number = (EGLAttrib)number;
}
static uintptr_t at(int i) {
	void *const all[] = {current_display, display_attrib, device_string, device_attrib, get_error};
	return (uintptr_t)all[i];
}
*/
import "C"

// State is what the functions answer.
type State struct {
	Current    bool   // a context of EGL is current
	Device     bool   // its display has a device
	Extensions string // of the device
	Number     int64  // EGL_CUDA_DEVICE_NV
	HasNumber  bool   // the driver knows it
}

// Functions are addresses of functions of EGL.
type Functions struct{ GetCurrentDisplay, QueryDisplayAttrib, QueryDeviceString, QueryDeviceAttrib, GetError uintptr }

// Fake makes the functions answer s. There is one set of them.
func Fake(s State) Functions {
	extensions := C.CString(s.Extensions) // kept, as a driver keeps its texts
	C.set(number(s.Current), number(s.Device), number(s.HasNumber), extensions, C.int64_t(s.Number))
	return Functions{uintptr(C.at(0)), uintptr(C.at(1)), uintptr(C.at(2)), uintptr(C.at(3)), uintptr(C.at(4))}
}

func number(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
