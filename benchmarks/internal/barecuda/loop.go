//go:build linux && cgo

package barecuda

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

// What is called of the driver API, by the names that its library exports. Handles
// are pointers, the address of memory is 64 bits wide, and 0 is success (cuda.h).
typedef struct {
	int (*init)(unsigned);
	int (*device)(int *, int);
	int (*retain)(void **, int);
	int (*release)(int);
	int (*push)(void *);
	int (*pop)(void **);
	int (*stream)(void **, unsigned);
	int (*destroy)(void *);
	int (*copy)(uint64_t, uint64_t, size_t, void *);
	int (*synchronize)(void *);
	int ordinal;
	void *context, *queue;
} bare_loop;

static int bare_find(bare_loop *l, const char *library) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) return -1;
	struct { const char *name; void *at; } table[] = {
		{"cuInit", &l->init}, {"cuDeviceGet", &l->device},
		{"cuDevicePrimaryCtxRetain", &l->retain}, {"cuDevicePrimaryCtxRelease_v2", &l->release},
		{"cuCtxPushCurrent_v2", &l->push}, {"cuCtxPopCurrent_v2", &l->pop},
		{"cuStreamCreate", &l->stream}, {"cuStreamDestroy_v2", &l->destroy},
		{"cuMemcpyAsync", &l->copy}, {"cuStreamSynchronize", &l->synchronize},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (!(*(void **)table[i].at = dlsym(handle, table[i].name))) return -1;
	return 0;
}

static int bare_open(bare_loop *l, int ordinal) {
	int r = l->init(0);
	if (!r) r = l->device(&l->ordinal, ordinal);
	if (!r) r = l->retain(&l->context, l->ordinal);
	if (r) return r;
	void *popped;
	if (!(r = l->push(l->context))) {
		r = l->stream(&l->queue, 1); // CU_STREAM_NON_BLOCKING
		l->pop(&popped);
	}
	if (r) l->release(l->ordinal);
	return r;
}

static int bare_copy(bare_loop *l, uint64_t dst, uint64_t src, size_t bytes, int n, int64_t *ns) {
	void *popped;
	struct timespec from, to;
	int r = l->push(l->context);
	if (r) return r;
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (int i = 0; i < n && !r; i++) r = l->copy(dst, src, bytes, l->queue);
	int end = l->synchronize(l->queue);
	clock_gettime(CLOCK_MONOTONIC, &to);
	l->pop(&popped);
	*ns = (to.tv_sec - from.tv_sec) * INT64_C(1000000000) + to.tv_nsec - from.tv_nsec;
	return r ? r : end;
}

static void bare_close(bare_loop *l) {
	void *popped;
	if (!l->push(l->context)) {
		l->destroy(l->queue);
		l->pop(&popped);
	}
	l->release(l->ordinal);
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

// Loop is a stream of a device's primary context.
type Loop struct{ c C.bare_loop }

// Open makes a loop, which the caller closes. The library is the one that dlx uses:
// DLX_CUDA_LIBRARY, else libcuda.so.1. It stays loaded.
func Open(device int) (*Loop, error) {
	name := cmp.Or(os.Getenv("DLX_CUDA_LIBRARY"), "libcuda.so.1")
	library := C.CString(name)
	defer C.free(unsafe.Pointer(library))
	l := new(Loop)
	if C.bare_find(&l.c, library) != 0 {
		return nil, core.Errorf(core.ErrNotSupported, "barecuda", "dlopen", "%s cannot be loaded, or lacks functions", name)
	}
	if err := check("cuInit, cuDevicePrimaryCtxRetain or cuStreamCreate", C.bare_open(&l.c, C.int(device))); err != nil {
		return nil, err
	}
	return l, nil
}

// Copy enqueues n copies and waits for them. It returns the time from before the
// first call until after the last.
func (l *Loop) Copy(dst, src uintptr, bytes int64, n int) (time.Duration, error) {
	var ns C.int64_t
	err := check("cuMemcpyAsync", C.bare_copy(&l.c, C.uint64_t(dst), C.uint64_t(src), C.size_t(bytes), C.int(n), &ns))
	return time.Duration(ns), err
}

// Close releases the stream and the context.
func (l *Loop) Close() { C.bare_close(&l.c) }

func check(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	return &core.Error{Backend: "barecuda", Call: call, Code: int64(code), Err: core.ErrInvalid}
}
