//go:build linux && cgo

package barewebgpu

/*
#cgo LDFLAGS: -ldl
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// What is called of wgpu-native 29 (webgpu.h and wgpu.h), by the names that it exports. Handles are pointers.
typedef struct {
	const char *data;
	size_t length;
} bare_text;

typedef struct {
	const void *next;
	uint32_t mode;
	void (*call)(void); // with parameters that depend on the function which takes the callback
	void *first, *second;
} bare_callback;

typedef struct {
	const void *next;
	bare_text label;
	uint64_t usage, size;
	uint32_t mapped;
} bare_buffer;

enum { MAP_READ = 1, COPY_DST = 8, SPONTANEOUS = 3, SUCCESS = 1, VALIDATION = 1, OUT_OF_MEMORY = 2, NO_ERROR = 1, ERROR_OUT_OF_MEMORY = 3 };

// bare_error is what failed: the first error of a scope, else a call that returned no object or mapped nothing.
typedef struct {
	const char *call; // NULL if nothing failed
	uint32_t type;    // WGPUErrorType, or 0
	char text[200];
} bare_error;

// bare_loop lies in memory of C, since a callback writes status.
typedef struct {
	void *device, *queue, *readback;
	uint64_t readback_size;
	uint32_t status; // of the map, 0 until its callback has come
	bare_error failed;
	void *(*get_queue)(void *);
	void (*release_queue)(void *);
	void *(*encoder)(void *, const void *);
	void (*copy)(void *, void *, uint64_t, void *, uint64_t, uint64_t);
	void *(*finish)(void *, const void *);
	void (*release_encoder)(void *);
	void (*release_commands)(void *);
	void (*submit)(void *, size_t, void *const *);
	void (*write)(void *, void *, uint64_t, const void *, size_t);
	uint32_t (*poll)(void *, uint32_t, const uint64_t *);
	void *(*new_buffer)(void *, const bare_buffer *);
	void (*release_buffer)(void *);
	uint64_t (*map)(void *, uint64_t, size_t, size_t, bare_callback);
	const void *(*mapped)(void *, size_t, size_t);
	void (*unmap)(void *);
	void (*push)(void *, uint32_t);
	uint64_t (*pop)(void *, bare_callback);
} bare_loop;

static int bare_find(bare_loop *l, const char *library) {
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) return -1;
	struct { const char *name; void *at; } table[] = {
		{"wgpuDeviceGetQueue", &l->get_queue}, {"wgpuQueueRelease", &l->release_queue},
		{"wgpuDeviceCreateCommandEncoder", &l->encoder}, {"wgpuCommandEncoderCopyBufferToBuffer", &l->copy},
		{"wgpuCommandEncoderFinish", &l->finish}, {"wgpuCommandEncoderRelease", &l->release_encoder},
		{"wgpuCommandBufferRelease", &l->release_commands}, {"wgpuQueueSubmit", &l->submit},
		{"wgpuQueueWriteBuffer", &l->write}, {"wgpuDevicePoll", &l->poll},
		{"wgpuDeviceCreateBuffer", &l->new_buffer}, {"wgpuBufferRelease", &l->release_buffer},
		{"wgpuBufferMapAsync", &l->map}, {"wgpuBufferGetConstMappedRange", &l->mapped}, {"wgpuBufferUnmap", &l->unmap},
		{"wgpuDevicePushErrorScope", &l->push}, {"wgpuDevicePopErrorScope", &l->pop},
	};
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (!(*(void **)table[i].at = dlsym(handle, table[i].name))) return -1;
	return 0;
}

static int bare_open(bare_loop *l, uintptr_t device) {
	l->device = (void *)device;
	return (l->queue = l->get_queue(l->device)) ? 0 : -1;
}

static void bare_close(bare_loop *l) {
	if (l->readback) l->release_buffer(l->readback);
	l->release_queue(l->queue);
	free(l);
}

static void bare_begin(bare_loop *l) {
	memset(&l->failed, 0, sizeof l->failed);
	l->push(l->device, VALIDATION);
	l->push(l->device, OUT_OF_MEMORY);
}

static void bare_on_popped(uint32_t status, uint32_t type, bare_text text, void *first, void *second) {
	bare_error *e = first;
	if (e->type || (status == SUCCESS && type == NO_ERROR)) return;
	e->type = type;
	if (!e->call) e->call = "wgpuDevicePopErrorScope";
	size_t n = text.data ? (text.length == SIZE_MAX ? strlen(text.data) : text.length) : 0;
	if (n >= sizeof e->text) n = sizeof e->text - 1;
	if (n) memcpy(e->text, text.data, n);
	e->text[n] = 0;
}

// bare_end ends what bare_begin began, on the same thread. It returns 0 if there was no error.
static int bare_end(bare_loop *l) {
	for (int i = 0; i < 2; i++) // which calls back
		l->pop(l->device, (bare_callback){NULL, SPONTANEOUS, (void (*)(void))bare_on_popped, &l->failed, NULL});
	return l->failed.call ? -1 : 0;
}

static int bare_fail(bare_loop *l, const char *call) {
	l->failed.call = call;
	return -1;
}

// bare_record records a copy between two buffers. The caller owns the commands, which are NULL after an error.
static void *bare_record(bare_loop *l, void *dst, uint64_t to, void *src, uint64_t from, uint64_t bytes) {
	void *encoder = l->encoder(l->device, NULL), *commands = NULL;
	if (!encoder) {
		bare_fail(l, "wgpuDeviceCreateCommandEncoder");
		return NULL;
	}
	l->copy(encoder, src, from, dst, to, bytes);
	if (!(commands = l->finish(encoder, NULL))) bare_fail(l, "wgpuCommandEncoderFinish");
	l->release_encoder(encoder);
	return commands;
}

// bare_submit submits a copy between two buffers.
static int bare_submit(bare_loop *l, void *dst, uint64_t to, void *src, uint64_t from, uint64_t bytes) {
	void *commands = bare_record(l, dst, to, src, from, bytes);
	if (!commands) return -1;
	l->submit(l->queue, 1, &commands);
	l->release_commands(commands);
	return 0;
}

// bare_try records a copy and does not submit it: wgpu-native ends the process if invalid commands are submitted.
static int bare_try(bare_loop *l, void *dst, uint64_t to, void *src, uint64_t from, uint64_t bytes) {
	bare_begin(l);
	void *commands = bare_record(l, dst, to, src, from, bytes);
	if (commands) l->release_commands(commands);
	return bare_end(l);
}

static int64_t bare_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int bare_within(bare_loop *l, uintptr_t dst, uint64_t to, uintptr_t src, uint64_t from, uint64_t bytes, int n, int64_t *ns) {
	if (bare_try(l, (void *)dst, to, (void *)src, from, bytes)) return -1;
	bare_begin(l);
	*ns = -bare_now();
	for (int i = 0; i < n && !bare_submit(l, (void *)dst, to, (void *)src, from, bytes); i++) {
	}
	l->poll(l->device, 1, NULL);
	*ns += bare_now();
	return bare_end(l);
}

// Each copy is waited for: the library keeps the bytes of all copies that are not done.
static int bare_upload(bare_loop *l, uintptr_t dst, uint64_t to, uintptr_t host, uint64_t bytes, int n, int64_t *ns) {
	bare_begin(l);
	*ns = -bare_now();
	for (int i = 0; i < n; i++) {
		l->write(l->queue, (void *)dst, to, (const void *)host, bytes);
		l->submit(l->queue, 0, NULL);
		l->poll(l->device, 1, NULL);
	}
	*ns += bare_now();
	return bare_end(l);
}

static void bare_on_mapped(uint32_t status, bare_text text, void *first, void *second) {
	*(uint32_t *)first = status;
}

// bare_drop releases the buffer that the host reads. A map that is still awaited then calls back.
static void bare_drop(bare_loop *l) {
	if (!l->readback) return;
	l->release_buffer(l->readback);
	l->poll(l->device, 1, NULL);
	l->readback = NULL;
}

// bare_readback makes that buffer.
static int bare_readback(bare_loop *l, uint64_t bytes) {
	if (l->readback && l->readback_size == bytes) return 0;
	bare_drop(l);
	bare_buffer d = {.usage = MAP_READ | COPY_DST, .size = bytes};
	bare_begin(l);
	l->readback_size = bytes;
	if (!(l->readback = l->new_buffer(l->device, &d))) bare_fail(l, "wgpuDeviceCreateBuffer");
	int r = bare_end(l);
	if (r) bare_drop(l); // which only has an error
	return r;
}

static int bare_fetch(bare_loop *l, uintptr_t host, uintptr_t src, uint64_t from, uint64_t bytes) {
	if (bare_submit(l, l->readback, 0, (void *)src, from, bytes)) return -1;
	l->status = 0;
	l->map(l->readback, MAP_READ, 0, bytes, (bare_callback){NULL, SPONTANEOUS, (void (*)(void))bare_on_mapped, &l->status, NULL});
	l->poll(l->device, 1, NULL); // which calls back
	const void *at = l->status == SUCCESS ? l->mapped(l->readback, 0, bytes) : NULL;
	int failed = at ? 0 : bare_fail(l, l->status == SUCCESS ? "wgpuBufferGetConstMappedRange" : "wgpuBufferMapAsync");
	if (at) memcpy((void *)host, at, bytes);
	if (!l->status || l->status == SUCCESS) l->unmap(l->readback);
	return failed;
}

static int bare_download(bare_loop *l, uintptr_t host, uintptr_t src, uint64_t from, uint64_t bytes, int n, int64_t *ns) {
	if (bare_readback(l, bytes) || bare_try(l, l->readback, 0, (void *)src, from, bytes)) return -1;
	bare_begin(l);
	int r = 0;
	*ns = -bare_now();
	for (int i = 0; i < n && !r; i++)
		r = bare_fetch(l, host, src, from, bytes);
	*ns += bare_now();
	if (r) bare_drop(l);
	return bare_end(l);
}

static bare_loop *bare_new(void) { return calloc(1, sizeof(bare_loop)); }
*/
import "C"

import (
	"os"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// Loop copies on the queue of a WGPUDevice of the program. It is for one goroutine. Sizes and offsets are multiples of 4.
type Loop struct{ c *C.bare_loop }

// Open makes a loop on a WGPUDevice, which the caller still owns and keeps open until Close. The library is the one that dlx
// uses: DLX_WEBGPU_LIBRARY, else libwgpu_native.so. It stays loaded.
func Open(device uintptr) (*Loop, error) {
	names := []string{"libwgpu_native.so", "libwgpu_native-release.so"}
	if name := os.Getenv("DLX_WEBGPU_LIBRARY"); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		library := C.CString(name)
		defer C.free(unsafe.Pointer(library))
		l := &Loop{C.bare_new()}
		if l.c == nil {
			return nil, core.Errorf(core.ErrOutOfMemory, "barewebgpu", "calloc", "there is no memory for the loop")
		}
		if C.bare_find(l.c, library) != 0 {
			C.free(unsafe.Pointer(l.c))
			continue
		}
		if C.bare_open(l.c, C.uintptr_t(device)) != 0 {
			C.free(unsafe.Pointer(l.c))
			return nil, core.Errorf(core.ErrOutOfMemory, "barewebgpu", "wgpuDeviceGetQueue", "the library returned no object")
		}
		return l, nil
	}
	return nil, core.Errorf(core.ErrNotSupported, "barewebgpu", "dlopen", "%v cannot be loaded, or lacks functions", names)
}

// Close releases what the loop made.
func (l *Loop) Close() { C.bare_close(l.c) }

// Within submits n copies between two WGPUBuffers, from an offset on in each, and waits for them. It returns the time from
// before the first call until after the last. It fails with core.ErrInvalid, or core.ErrOutOfMemory, if a call failed: after the
// first such call, the rest of the copies may be missing.
func (l *Loop) Within(dst uintptr, to int64, src uintptr, from, bytes int64, n int) (time.Duration, error) {
	var ns C.int64_t
	r := C.bare_within(l.c, C.uintptr_t(dst), C.uint64_t(to), C.uintptr_t(src), C.uint64_t(from), C.uint64_t(bytes), C.int(n), &ns)
	return l.took(r, ns)
}

// Upload makes n copies from an address of the host to a WGPUBuffer, from an offset on. It waits for each, and returns the
// time and fails as Within does.
func (l *Loop) Upload(dst uintptr, to int64, host uintptr, bytes int64, n int) (time.Duration, error) {
	var ns C.int64_t
	r := C.bare_upload(l.c, C.uintptr_t(dst), C.uint64_t(to), C.uintptr_t(host), C.uint64_t(bytes), C.int(n), &ns)
	return l.took(r, ns)
}

// Download makes n copies from a WGPUBuffer, from an offset on, to an address of the host, through one buffer that it maps
// for each and copies out in one thread. It returns the time and fails as Within does.
func (l *Loop) Download(host, src uintptr, from, bytes int64, n int) (time.Duration, error) {
	var ns C.int64_t
	r := C.bare_download(l.c, C.uintptr_t(host), C.uintptr_t(src), C.uint64_t(from), C.uint64_t(bytes), C.int(n), &ns)
	return l.took(r, ns)
}

func (l *Loop) took(r C.int, ns C.int64_t) (time.Duration, error) {
	if r == 0 {
		return time.Duration(ns), nil
	}
	failed, sentinel := &l.c.failed, core.ErrInvalid
	if failed._type == C.ERROR_OUT_OF_MEMORY {
		sentinel = core.ErrOutOfMemory
	}
	text := C.GoString(&failed.text[0])
	if text == "" {
		text = "the library returned no object, or mapped no buffer"
	}
	err := core.Errorf(sentinel, "barewebgpu", C.GoString(failed.call), "%s", text)
	err.Code = int64(failed._type)
	return 0, err
}
