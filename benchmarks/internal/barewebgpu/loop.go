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
	void (*call)(uint32_t, bare_text, void *, void *);
	void *first, *second;
} bare_callback;

typedef struct {
	const void *next;
	bare_text label;
	uint64_t usage, size;
	uint32_t mapped;
} bare_buffer;

enum { MAP_READ = 1, COPY_DST = 8, SPONTANEOUS = 3, SUCCESS = 1 };

typedef struct {
	void *device, *queue, *readback;
	uint64_t readback_size;
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
}

// bare_submit submits a copy between two buffers.
static int bare_submit(bare_loop *l, void *dst, uint64_t to, void *src, uint64_t from, uint64_t bytes) {
	void *encoder = l->encoder(l->device, NULL), *commands = NULL;
	if (!encoder) return -1;
	l->copy(encoder, src, from, dst, to, bytes);
	commands = l->finish(encoder, NULL);
	l->release_encoder(encoder);
	if (!commands) return -1;
	l->submit(l->queue, 1, &commands);
	l->release_commands(commands);
	return 0;
}

static int64_t bare_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int bare_within(bare_loop *l, uintptr_t dst, uint64_t to, uintptr_t src, uint64_t from, uint64_t bytes, int n, int64_t *ns) {
	int r = 0;
	*ns = -bare_now();
	for (int i = 0; i < n && !r; i++)
		r = bare_submit(l, (void *)dst, to, (void *)src, from, bytes);
	l->poll(l->device, 1, NULL);
	*ns += bare_now();
	return r;
}

// Each copy is waited for: the library keeps the bytes of all copies that are not done.
static int bare_upload(bare_loop *l, uintptr_t dst, uint64_t to, uintptr_t host, uint64_t bytes, int n, int64_t *ns) {
	*ns = -bare_now();
	for (int i = 0; i < n; i++) {
		l->write(l->queue, (void *)dst, to, (const void *)host, bytes);
		l->submit(l->queue, 0, NULL);
		l->poll(l->device, 1, NULL);
	}
	*ns += bare_now();
	return 0;
}

static void bare_on_mapped(uint32_t status, bare_text text, void *first, void *second) {
	*(uint32_t *)first = status;
}

// bare_readback makes the buffer that the host reads.
static int bare_readback(bare_loop *l, uint64_t bytes) {
	if (l->readback && l->readback_size == bytes) return 0;
	if (l->readback) l->release_buffer(l->readback);
	bare_buffer d = {.usage = MAP_READ | COPY_DST, .size = bytes};
	l->readback = l->new_buffer(l->device, &d);
	l->readback_size = bytes;
	return l->readback ? 0 : -1;
}

static int bare_download(bare_loop *l, uintptr_t host, uintptr_t src, uint64_t from, uint64_t bytes, int n, int64_t *ns) {
	if (bare_readback(l, bytes)) return -1;
	*ns = -bare_now();
	for (int i = 0; i < n; i++) {
		if (bare_submit(l, l->readback, 0, (void *)src, from, bytes)) return -1;
		uint32_t status = 0;
		l->map(l->readback, MAP_READ, 0, bytes, (bare_callback){NULL, SPONTANEOUS, bare_on_mapped, &status, NULL});
		l->poll(l->device, 1, NULL); // which calls back
		const void *at = status == SUCCESS ? l->mapped(l->readback, 0, bytes) : NULL;
		if (!at) return -1;
		memcpy((void *)host, at, bytes);
		l->unmap(l->readback);
	}
	*ns += bare_now();
	return 0;
}
*/
import "C"

import (
	"os"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// Loop copies on the queue of a WGPUDevice of the program. It is for one goroutine. Sizes and offsets are multiples of 4.
type Loop struct{ c C.bare_loop }

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
		l := new(Loop)
		if C.bare_find(&l.c, library) != 0 {
			continue
		}
		if C.bare_open(&l.c, C.uintptr_t(device)) != 0 {
			return nil, core.Errorf(core.ErrOutOfMemory, "barewebgpu", "wgpuDeviceGetQueue", "the library returned no object")
		}
		return l, nil
	}
	return nil, core.Errorf(core.ErrNotSupported, "barewebgpu", "dlopen", "%v cannot be loaded, or lacks functions", names)
}

// Close releases what the loop made.
func (l *Loop) Close() { C.bare_close(&l.c) }

// Within submits n copies between two WGPUBuffers, from an offset on in each, and waits for them. It returns the time from
// before the first call until after the last.
func (l *Loop) Within(dst uintptr, to int64, src uintptr, from, bytes int64, n int) (time.Duration, error) {
	var ns C.int64_t
	r := C.bare_within(&l.c, C.uintptr_t(dst), C.uint64_t(to), C.uintptr_t(src), C.uint64_t(from), C.uint64_t(bytes), C.int(n), &ns)
	return took(r, ns, "wgpuQueueSubmit")
}

// Upload makes n copies from an address of the host to a WGPUBuffer, from an offset on. It waits for each, and returns the
// time as Within does.
func (l *Loop) Upload(dst uintptr, to int64, host uintptr, bytes int64, n int) (time.Duration, error) {
	var ns C.int64_t
	r := C.bare_upload(&l.c, C.uintptr_t(dst), C.uint64_t(to), C.uintptr_t(host), C.uint64_t(bytes), C.int(n), &ns)
	return took(r, ns, "wgpuQueueWriteBuffer")
}

// Download makes n copies from a WGPUBuffer, from an offset on, to an address of the host, through one buffer that it maps
// for each. It returns the time as Within does.
func (l *Loop) Download(host, src uintptr, from, bytes int64, n int) (time.Duration, error) {
	var ns C.int64_t
	r := C.bare_download(&l.c, C.uintptr_t(host), C.uintptr_t(src), C.uint64_t(from), C.uint64_t(bytes), C.int(n), &ns)
	return took(r, ns, "wgpuBufferMapAsync")
}

func took(r C.int, ns C.int64_t, call string) (time.Duration, error) {
	if r != 0 {
		return 0, core.Errorf(core.ErrInvalid, "barewebgpu", call, "the library returned no object, or mapped no buffer")
	}
	return time.Duration(ns), nil
}
