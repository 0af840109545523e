// The part of the PJRT C API that this package calls itself, because go-xla has no functions for it. PJRT_Api is a struct
// that only grows, so a function is known by its offset. The structs of arguments begin with their size.
// TestLayout compares all of it with the real header.

#ifndef DLX_PJRT_ABI_H
#define DLX_PJRT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	off_PJRT_Error_Destroy = 40,
	off_PJRT_Error_Message = 48,
	off_PJRT_Error_GetCode = 56,
	off_PJRT_Event_Destroy = 80,
	off_PJRT_Event_IsReady = 88,
	off_PJRT_Event_Await = 104,
	off_PJRT_Buffer_GetMemoryLayout = 544,
	off_PJRT_Buffer_OnDeviceSizeInBytes = 552,
	off_PJRT_Buffer_IsOnCpu = 608,
	off_PJRT_Buffer_ReadyEvent = 616,
	off_PJRT_Buffer_IncreaseExternalReferenceCount = 632,
	off_PJRT_Buffer_DecreaseExternalReferenceCount = 640, // the last of them
};

// Arguments of the functions that have one object, and perhaps one result.
typedef struct {
	size_t struct_size;
	void *extension;
	void *object;
	union {
		bool flag;   // IsReady, IsOnCpu
		int32_t code; // GetCode
		size_t size; // OnDeviceSizeInBytes
		void *event; // ReadyEvent
	} out;
} dlx_pjrt_args;

typedef struct {
	size_t struct_size;
	void *extension;
	const void *error;
	const char *message;
	size_t message_size;
} dlx_pjrt_message_args;

typedef struct {
	size_t struct_size;
	void *extension;
	void *buffer;
	struct {
		size_t struct_size;
		void *extension;
		union {
			struct {
				size_t struct_size;
				void *extension;
				const int64_t *minor_to_major;
				size_t minor_to_major_size;
				const int64_t *tile_dims;
				const size_t *tile_dim_sizes;
				size_t num_tiles;
			} tiled;
			struct {
				size_t struct_size;
				void *extension;
				const int64_t *byte_strides;
				size_t num_byte_strides;
			} strides;
		};
		int32_t type; // 0: tiled, 1: strides
	} layout;
} dlx_pjrt_layout_args;

// dlx_pjrt_ok reports whether the plugin has all of these functions.
bool dlx_pjrt_ok(const void *api);

// A function that returns void * returns a PJRT_Error, which the caller destroys: NULL if the call succeeded.
int32_t dlx_pjrt_code(const void *api, void *error);
const char *dlx_pjrt_message(const void *api, void *error, size_t *size);
void dlx_pjrt_destroy_error(const void *api, void *error);

// dlx_pjrt_call calls the function at an offset with a buffer or an event; size is the size of its result.
void *dlx_pjrt_call(const void *api, int32_t offset, size_t size, void *object, dlx_pjrt_args *args);

// dlx_pjrt_layout writes the layout of a buffer with rank axes: the order of its axes from minor to major to values, or
// the distances in bytes. *type is one of the following.
enum { dlx_pjrt_order, dlx_pjrt_strides, dlx_pjrt_tiles, dlx_pjrt_malformed };
void *dlx_pjrt_layout(const void *api, void *buffer, size_t rank, int64_t *values, int32_t *type);

#endif
