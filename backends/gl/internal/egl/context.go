//go:build gl && linux && cgo

package egl

// #include "calls.h"
import "C"

import (
	"strconv"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/dl"
	"github.com/dlx-go/dlx/core"
)

// Device is a device that libEGL lists, or libEGL's default if it cannot list devices. Its display is
// initialised once and never terminated: other code in the process may use it, and EGL does not count users.
type Device struct {
	name    string
	display func() (C.EGLDisplay, error)
}

// maxDevices is more than any machine has.
const maxDevices = 64

// Devices lists the devices in libEGL's order. It fails with core.ErrNotSupported
// if there is no libEGL, or none that works without a window.
var Devices = sync.OnceValues(func() ([]Device, error) {
	t, err := open()
	if err != nil {
		return nil, err
	}
	if t.getDisplay == 0 {
		return nil, core.Errorf(core.ErrNotSupported, "gl", "eglQueryString", "libEGL has no EGL_EXT_platform_base, by which displays without a window are made")
	}
	defer dl.KeepHandlers()()
	if t.queryDevices != 0 && t.clientHas("EGL_EXT_platform_device") {
		var handles [maxDevices]C.EGLDeviceEXT
		var n C.EGLint
		if C.dlx_query_devices(C.uintptr_t(t.queryDevices), maxDevices, &handles[0], &n) == 0 {
			return nil, t.failure("eglQueryDevicesEXT", "the devices cannot be listed")
		}
		devices := make([]Device, n)
		for i, h := range handles[:n] {
			devices[i] = t.device(t.deviceName(h, i), C.EGL_PLATFORM_DEVICE_EXT, unsafe.Pointer(h))
		}
		return devices, nil
	}
	if t.clientHas("EGL_MESA_platform_surfaceless") {
		return []Device{t.device("surfaceless", C.EGL_PLATFORM_SURFACELESS_MESA, nil)}, nil
	}
	return nil, core.Errorf(core.ErrNotSupported, "gl", "eglQueryString", "libEGL has neither EGL_EXT_platform_device nor EGL_MESA_platform_surfaceless, by which contexts without a window are made")
})

// deviceName returns the device file of a device, or its place in the list.
func (t *table) deviceName(h C.EGLDeviceEXT, i int) string {
	if t.queryDeviceString != 0 {
		if hasWord(C.GoString(C.dlx_query_device(C.uintptr_t(t.queryDeviceString), h, C.EGL_EXTENSIONS)), "EGL_EXT_device_drm") {
			if file := C.dlx_query_device(C.uintptr_t(t.queryDeviceString), h, C.EGL_DRM_DEVICE_FILE_EXT); file != nil {
				return C.GoString(file)
			}
		}
	}
	return "EGL device " + strconv.Itoa(i)
}

func (t *table) device(name string, platform C.EGLenum, native unsafe.Pointer) Device {
	return Device{name, sync.OnceValues(func() (C.EGLDisplay, error) {
		defer dl.KeepHandlers()()
		d := C.dlx_get_display(C.uintptr_t(t.getDisplay), platform, native)
		if d == 0 {
			return 0, t.failure("eglGetPlatformDisplayEXT", name+" has no display")
		}
		var major, minor C.EGLint
		if C.dlx_initialize(C.uintptr_t(t.initialize), d, &major, &minor) == 0 {
			return 0, t.failure("eglInitialize", name+" cannot be initialised: its driver is missing or may not open it")
		}
		return d, nil
	})}
}

// Name returns the device file, or the device's place in the list.
func (d Device) Name() string { return d.name }

// Context is a context of OpenGL that is current on the thread that made it.
type Context struct {
	table   *table
	display C.EGLDisplay
	handle  C.EGLContext
}

// contextAttributes are the attributes to ask for, the best first. Each makes a context of the latest version
// that the driver gives by default.
var contextAttributes = [][]C.EGLint{
	{C.EGL_CONTEXT_OPENGL_RESET_NOTIFICATION_STRATEGY, C.EGL_LOSE_CONTEXT_ON_RESET, C.EGL_NONE},
	{C.EGL_NONE},
}

// NewContext makes an OpenGL context that reports when it is lost, if the driver supports that, and makes it
// current. The caller must have locked its goroutine to the thread. It calls Close on the same thread, and
// ends the thread after that, or if NewContext fails.
func (d Device) NewContext() (*Context, error) {
	t, err := open()
	if err != nil {
		return nil, err
	}
	display, err := d.display()
	if err != nil {
		return nil, err
	}
	defer dl.KeepHandlers()()
	if C.dlx_bind_api(C.uintptr_t(t.bindAPI), C.EGL_OPENGL_API) == 0 {
		return nil, t.failure("eglBindAPI", d.name+" has no OpenGL")
	}
	for _, attributes := range contextAttributes {
		handle := C.dlx_create_context(C.uintptr_t(t.createContext), display, &attributes[0])
		if handle == nil {
			err = t.failure("eglCreateContext", d.name+" gives no context of OpenGL")
			continue
		}
		c := &Context{t, display, handle}
		if C.dlx_make_current(C.uintptr_t(t.makeCurrent), display, handle) == 0 {
			err = t.failure("eglMakeCurrent", d.name+" has no contexts without a window (EGL_KHR_surfaceless_context)")
			c.Close()
			return nil, err
		}
		return c, nil
	}
	return nil, err
}

// Close destroys the context and what EGL keeps for the thread. No OpenGL functions may be called afterwards.
func (c *Context) Close() {
	defer dl.KeepHandlers()()
	t := c.table
	C.dlx_make_current(C.uintptr_t(t.makeCurrent), c.display, nil)
	C.dlx_destroy_context(C.uintptr_t(t.destroyContext), c.display, c.handle)
	C.dlx_release_thread(C.uintptr_t(t.releaseThread))
}
