//go:build linux && cgo

package bareopencl

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

// What is called, by the names that the loader exports. Handles are pointers, a boolean is an unsigned int, and 0 is
// CL_SUCCESS and CL_FALSE (cl.h).
typedef int (*bare_transfer)(void *, void *, unsigned, size_t, size_t, void *, unsigned, const void *, void *);
typedef struct {
	bare_transfer write, read;
	int (*finish)(void *);
	int (*queue_info)(void *, unsigned, size_t, void *, size_t *);
	int (*device_info)(void *, unsigned, size_t, void *, size_t *);
	void *(*extension)(void *, const char *);
} bare_cl;

static int bare_find(bare_cl *cl, const char *library) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) return -1;
	cl->write = (bare_transfer)dlsym(handle, "clEnqueueWriteBuffer");
	cl->read = (bare_transfer)dlsym(handle, "clEnqueueReadBuffer");
	cl->finish = (int (*)(void *))dlsym(handle, "clFinish");
	cl->queue_info = (int (*)(void *, unsigned, size_t, void *, size_t *))dlsym(handle, "clGetCommandQueueInfo");
	cl->device_info = (int (*)(void *, unsigned, size_t, void *, size_t *))dlsym(handle, "clGetDeviceInfo");
	cl->extension = (void *(*)(void *, const char *))dlsym(handle, "clGetExtensionFunctionAddressForPlatform");
	return cl->write && cl->read && cl->finish && cl->queue_info && cl->device_info && cl->extension ? 0 : -1;
}

static int64_t bare_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int bare_copy(bare_cl *cl, int upload, uintptr_t queue, uintptr_t buffer, size_t offset, uintptr_t host, size_t bytes, int n, int64_t *ns) {
	bare_transfer transfer = upload ? cl->write : cl->read;
	int r = 0;
	*ns = -bare_now();
	for (int i = 0; i < n && !r; i++)
		r = transfer((void *)queue, (void *)buffer, 0, offset, bytes, (void *)host, 0, NULL, NULL);
	int end = cl->finish((void *)queue);
	*ns += bare_now();
	return r ? r : end;
}

// bare_memcpy copies by the extension cl_intel_unified_shared_memory. It returns CL_INVALID_OPERATION where that is not there.
static int bare_memcpy(bare_cl *cl, uintptr_t queue, uintptr_t dst, uintptr_t src, size_t bytes, int n, int64_t *ns) {
	enum { QUEUE_DEVICE = 0x1091, DEVICE_PLATFORM = 0x1031, INVALID_OPERATION = -59 };
	void *device, *platform;
	int r = cl->queue_info((void *)queue, QUEUE_DEVICE, sizeof device, &device, NULL);
	if (!r) r = cl->device_info(device, DEVICE_PLATFORM, sizeof platform, &platform, NULL);
	if (r) return r;
	int (*copy)(void *, unsigned, void *, const void *, size_t, unsigned, const void *, void *) =
		(int (*)(void *, unsigned, void *, const void *, size_t, unsigned, const void *, void *))cl->extension(platform, "clEnqueueMemcpyINTEL");
	if (!copy) return INVALID_OPERATION;
	*ns = -bare_now();
	for (int i = 0; i < n && !r; i++)
		r = copy((void *)queue, 0, (void *)dst, (const void *)src, bytes, 0, NULL, NULL);
	int end = cl->finish((void *)queue);
	*ns += bare_now();
	return r ? r : end;
}
*/
import "C"

import (
	"cmp"
	"os"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// Loop copies on a command queue of the program.
type Loop struct {
	cl    C.bare_cl
	queue uintptr
}

// Open makes a loop on a cl_command_queue, which the caller still owns and keeps open. The library is the one that dlx
// uses: DLX_OPENCL_LIBRARY, else libOpenCL.so.1. It stays loaded.
func Open(queue uintptr) (*Loop, error) {
	name := cmp.Or(os.Getenv("DLX_OPENCL_LIBRARY"), "libOpenCL.so.1")
	library := C.CString(name)
	defer C.free(unsafe.Pointer(library))
	l := &Loop{queue: queue}
	if C.bare_find(&l.cl, library) != 0 {
		return nil, core.Errorf(core.ErrNotSupported, "bareopencl", "dlopen", "%s cannot be loaded, or lacks functions", name)
	}
	return l, nil
}

// Copy enqueues n copies between a cl_mem, from offset on, and an address of the host, and waits for them. It returns the time
// from before the first call until after the last.
func (l *Loop) Copy(upload bool, buffer uintptr, offset int64, host uintptr, bytes int64, n int) (time.Duration, error) {
	var up C.int
	if upload {
		up = 1
	}
	var ns C.int64_t
	code := C.bare_copy(&l.cl, up, C.uintptr_t(l.queue), C.uintptr_t(buffer), C.size_t(offset), C.uintptr_t(host), C.size_t(bytes), C.int(n), &ns)
	if code != 0 {
		return 0, &core.Error{Backend: "bareopencl", Call: "clEnqueueWriteBuffer, clEnqueueReadBuffer or clFinish", Code: int64(code), Err: core.ErrInvalid}
	}
	return time.Duration(ns), nil
}

// Memcpy enqueues n copies between two addresses, each of an allocation of unified shared memory or of the host, and waits for them.
// It returns the time as Copy does.
func (l *Loop) Memcpy(dst, src uintptr, bytes int64, n int) (time.Duration, error) {
	var ns C.int64_t
	code := C.bare_memcpy(&l.cl, C.uintptr_t(l.queue), C.uintptr_t(dst), C.uintptr_t(src), C.size_t(bytes), C.int(n), &ns)
	if code != 0 {
		return 0, &core.Error{Backend: "bareopencl", Call: "clEnqueueMemcpyINTEL or clFinish", Code: int64(code), Err: core.ErrInvalid}
	}
	return time.Duration(ns), nil
}
