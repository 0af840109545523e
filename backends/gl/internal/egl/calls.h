// The functions of libEGL, each of which is called through the address that the
// loader gave.

#ifndef DLX_EGL_CALLS_H
#define DLX_EGL_CALLS_H

#define EGL_NO_X11
#define MESA_EGL_NO_X11_HEADERS
#include <stdint.h>
#include <stdlib.h>
#include <EGL/egl.h>
#include <EGL/eglext.h>

static inline void *dlx_get_proc(uintptr_t f, const char *name) {
	return (void *)((void (*(*)(const char *))(void))f)(name);
}
static inline EGLint dlx_error(uintptr_t f) { return ((EGLint (*)(void))f)(); }
static inline const char *dlx_query_string(uintptr_t f, EGLDisplay d, EGLint name) {
	return ((PFNEGLQUERYSTRINGPROC)f)(d, name);
}
static inline EGLBoolean dlx_query_devices(uintptr_t f, EGLint max, EGLDeviceEXT *devices, EGLint *n) {
	return ((PFNEGLQUERYDEVICESEXTPROC)f)(max, devices, n);
}
static inline const char *dlx_query_device(uintptr_t f, EGLDeviceEXT d, EGLint name) {
	return ((PFNEGLQUERYDEVICESTRINGEXTPROC)f)(d, name);
}
static inline EGLDisplay dlx_current_display(uintptr_t f) { return ((PFNEGLGETCURRENTDISPLAYPROC)f)(); }
static inline EGLBoolean dlx_display_attrib(uintptr_t f, EGLDisplay d, EGLint name, EGLAttrib *value) {
	return ((PFNEGLQUERYDISPLAYATTRIBEXTPROC)f)(d, name, value);
}
static inline EGLBoolean dlx_device_attrib(uintptr_t f, EGLDeviceEXT d, EGLint name, EGLAttrib *value) {
	return ((PFNEGLQUERYDEVICEATTRIBEXTPROC)f)(d, name, value);
}
static inline EGLDisplay dlx_get_display(uintptr_t f, EGLenum platform, void *native) {
	return ((PFNEGLGETPLATFORMDISPLAYEXTPROC)f)(platform, native, NULL);
}
static inline EGLBoolean dlx_initialize(uintptr_t f, EGLDisplay d, EGLint *major, EGLint *minor) {
	return ((PFNEGLINITIALIZEPROC)f)(d, major, minor);
}
static inline EGLBoolean dlx_bind_api(uintptr_t f, EGLenum api) { return ((PFNEGLBINDAPIPROC)f)(api); }
static inline EGLContext dlx_create_context(uintptr_t f, EGLDisplay d, const EGLint *attributes) {
	return ((PFNEGLCREATECONTEXTPROC)f)(d, NULL, EGL_NO_CONTEXT, attributes);
}
static inline EGLBoolean dlx_make_current(uintptr_t f, EGLDisplay d, EGLContext c) {
	return ((PFNEGLMAKECURRENTPROC)f)(d, EGL_NO_SURFACE, EGL_NO_SURFACE, c);
}
static inline EGLBoolean dlx_destroy_context(uintptr_t f, EGLDisplay d, EGLContext c) {
	return ((PFNEGLDESTROYCONTEXTPROC)f)(d, c);
}
static inline EGLBoolean dlx_release_thread(uintptr_t f) { return ((PFNEGLRELEASETHREADPROC)f)(); }

#endif
