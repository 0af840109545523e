//go:build gl && linux && cgo

// The functions by which go-gl's Init finds all others, on libraries that are
// opened when they are first needed. They are hidden: nothing outside of the
// program's own objects sees them, libraries that look for the real ones find those.

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

typedef void (*dlx_proc)(void);
typedef dlx_proc (*dlx_get_proc)(const char *);

static dlx_get_proc dlx_find(const char *library, const char *name) {
	void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
	return handle ? (dlx_get_proc)dlsym(handle, name) : NULL;
}

static dlx_get_proc dlx_glx, dlx_egl;
static pthread_once_t dlx_glx_once = PTHREAD_ONCE_INIT, dlx_egl_once = PTHREAD_ONCE_INIT;

static void dlx_find_glx(void) { dlx_glx = dlx_find("libGL.so.1", "glXGetProcAddressARB"); }
static void dlx_find_egl(void) { dlx_egl = dlx_find("libEGL.so.1", "eglGetProcAddress"); }

__attribute__((visibility("hidden"))) dlx_proc glXGetProcAddress(const unsigned char *name) {
	pthread_once(&dlx_glx_once, dlx_find_glx);
	return dlx_glx ? dlx_glx((const char *)name) : NULL;
}

// What go-gl calls instead when it is built with its tag egl.
__attribute__((visibility("hidden"))) dlx_proc eglGetProcAddress(const char *name) {
	pthread_once(&dlx_egl_once, dlx_find_egl);
	return dlx_egl ? dlx_egl(name) : NULL;
}
