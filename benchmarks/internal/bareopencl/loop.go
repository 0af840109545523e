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
} bare_cl;

static int bare_find(bare_cl *cl, const char *library) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) return -1;
	cl->write = (bare_transfer)dlsym(handle, "clEnqueueWriteBuffer");
	cl->read = (bare_transfer)dlsym(handle, "clEnqueueReadBuffer");
	cl->finish = (int (*)(void *))dlsym(handle, "clFinish");
	return cl->write && cl->read && cl->finish ? 0 : -1;
}

static int bare_copy(bare_cl *cl, int upload, uintptr_t queue, uintptr_t buffer, size_t offset, uintptr_t host, size_t bytes, int n, int64_t *ns) {
	bare_transfer transfer = upload ? cl->write : cl->read;
	struct timespec from, to;
	int r = 0;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < n && !r; i++)
		r = transfer((void *)queue, (void *)buffer, 0, offset, bytes, (void *)host, 0, NULL, NULL);
	int end = cl->finish((void *)queue);
	clock_gettime(CLOCK_MONOTONIC, &to);
	*ns = (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec;
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
