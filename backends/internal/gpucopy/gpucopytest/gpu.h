#ifndef DLX_GPUCOPYTEST_H
#define DLX_GPUCOPYTEST_H

#include <stddef.h>
#include <stdint.h>

typedef struct gpu gpu;

typedef struct {
	uint64_t storage_range, offset_alignment;
	uint32_t groups[3];
	uint32_t storage8, storage16, is_cpu;
} gpu_limits;

typedef struct {
	uint64_t buffer, memory;
	void *host;
} gpu_buffer;

typedef struct {
	uint64_t pipeline;
	uint64_t dst_offset, dst_size, src_offset, src_size;
	uint32_t constants[30];
	uint32_t groups[3];
} gpu_dispatch;

typedef struct {
	uint64_t src_offset, dst_offset, size;
} gpu_region; // VkBufferCopy

// All that return int give a VkResult. gpu_open tells what failed by step.
int gpu_open(gpu **out, int validate, const char **step);
void gpu_close(gpu *g);
void gpu_get_limits(gpu *g, gpu_limits *out);
int gpu_make_buffer(gpu *g, uint64_t size, gpu_buffer *out);
void gpu_free_buffer(gpu *g, gpu_buffer *b);
int gpu_make_pipeline(gpu *g, const uint32_t *code, size_t bytes, uint64_t *out);
int gpu_run(gpu *g, const gpu_buffer *dst, const gpu_buffer *src, const gpu_dispatch *d, uint32_t dispatches,
	const gpu_region *r, uint32_t regions);

// What the validation layer has to say, the first of it in text.
uint32_t gpu_messages(gpu *g, const char **text);

#endif
