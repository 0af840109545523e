// A library of WebGPU whose maps fail. The address of the WGPUDevice says how. The release of the queue ends the process if
// a buffer, a map whose callback has not come, or a scope is left.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LATE = 1, LATER, REFUSED, UNREADABLE }; // called back by unmap; by poll after the release; with an error; mapped at NULL
enum { SUCCESS = 1, ERROR = 3, ABORTED = 4 };

typedef struct {
	const char *data;
	size_t length;
} text;

typedef struct {
	const void *next;
	uint32_t mode;
	void (*call)(void);
	void *first, *second;
} callback;

typedef void (*on_mapped)(uint32_t, text, void *, void *);
typedef void (*on_popped)(uint32_t, uint32_t, text, void *, void *);

static uintptr_t mode;
static char object; // stands for all objects
static int buffers, mapped, pending, scopes;
static callback awaited;

static void end_map(uint32_t status) {
	if (!pending) return;
	pending = 0;
	((on_mapped)awaited.call)(status, (text){"late", 4}, awaited.first, awaited.second);
}

void *wgpuDeviceGetQueue(void *device) {
	mode = (uintptr_t)device;
	return &object;
}

void wgpuQueueRelease(void *queue) {
	if (!buffers && !mapped && !pending && !scopes) return;
	fprintf(stderr, "left: %d buffers, %d mapped, %d maps pending, %d scopes\n", buffers, mapped, pending, scopes);
	abort();
}

void *wgpuDeviceCreateBuffer(void *device, const void *descriptor) {
	buffers++;
	return &object;
}

void wgpuBufferRelease(void *buffer) { buffers--; }

uint64_t wgpuBufferMapAsync(void *buffer, uint64_t m, size_t offset, size_t size, callback c) {
	awaited = c;
	pending = 1;
	if (mode == REFUSED) end_map(ERROR);
	if (mode == UNREADABLE) {
		mapped = 1;
		end_map(SUCCESS);
	}
	return 0;
}

const void *wgpuBufferGetConstMappedRange(void *buffer, size_t offset, size_t size) { return NULL; }

void wgpuBufferUnmap(void *buffer) {
	mapped = 0;
	if (mode == LATE) end_map(ABORTED);
}

uint32_t wgpuDevicePoll(void *device, uint32_t wait, const uint64_t *submission) {
	if (mode == LATER && !buffers) end_map(ABORTED);
	return 1;
}

void wgpuDevicePushErrorScope(void *device, uint32_t filter) { scopes++; }

uint64_t wgpuDevicePopErrorScope(void *device, callback c) {
	scopes--;
	((on_popped)c.call)(SUCCESS, 1, (text){NULL, 0}, c.first, c.second);
	return 0;
}

void *wgpuDeviceCreateCommandEncoder(void *device, const void *descriptor) { return &object; }
void wgpuCommandEncoderCopyBufferToBuffer(void *e, void *src, uint64_t from, void *dst, uint64_t to, uint64_t size) {}
void *wgpuCommandEncoderFinish(void *encoder, const void *descriptor) { return &object; }
void wgpuCommandEncoderRelease(void *encoder) {}
void wgpuCommandBufferRelease(void *commands) {}
void wgpuQueueSubmit(void *queue, size_t n, void *const *commands) {}
void wgpuQueueWriteBuffer(void *queue, void *buffer, uint64_t offset, const void *host, size_t size) {}
