// What dlx uses of the C API of WebGPU (webgpu.h of github.com/webgpu-native/webgpu-headers, and wgpu.h of wgpu-native), under
// names of its own, so that no header is needed to build. A test compares each type and number with the headers.
#ifndef DLX_WEBGPU_ABI_H
#define DLX_WEBGPU_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef struct dlx_wgpu_chain {
	struct dlx_wgpu_chain *next;
	uint32_t type;
} dlx_wgpu_chain;

// dlx_wgpu_text is a string without a zero at its end.
typedef struct {
	const char *data;
	size_t length;
} dlx_wgpu_text;

typedef struct {
	dlx_wgpu_chain *next;
	uint32_t texture_1d, texture_2d, texture_3d, texture_layers;
	uint32_t bind_groups, bind_groups_plus_vertex_buffers, bindings, dynamic_uniforms, dynamic_storages;
	uint32_t sampled_textures, samplers, storage_buffers, storage_textures, uniform_buffers;
	uint64_t uniform_range, storage_range;
	uint32_t uniform_alignment, storage_alignment, vertex_buffers;
	uint64_t buffer_size;
	uint32_t vertex_attributes, vertex_stride, stage_variables, attachments, attachment_bytes;
	uint32_t group_memory, group_invocations, group_x, group_y, group_z, groups, immediates;
} dlx_wgpu_limits;

typedef struct {
	dlx_wgpu_chain *next;
	dlx_wgpu_text vendor, architecture, device, description;
	uint32_t backend, type, vendor_id, device_id, subgroup_min, subgroup_max;
} dlx_wgpu_adapter_info;

typedef struct {
	dlx_wgpu_chain *next;
	dlx_wgpu_text label;
} dlx_wgpu_labeled; // the descriptors of a queue, a shader module, a command encoder and a command buffer

// dlx_wgpu_callback is the type of all structs that say what to call when something has happened.
typedef struct {
	dlx_wgpu_chain *next;
	uint32_t mode;
	void (*call)(void);
	void *first, *second;
} dlx_wgpu_callback;

typedef struct {
	dlx_wgpu_chain *next;
	void (*call)(void);
	void *first, *second;
} dlx_wgpu_uncaptured;

typedef struct {
	dlx_wgpu_chain *next;
	dlx_wgpu_text label;
	size_t feature_count;
	const uint32_t *features;
	const dlx_wgpu_limits *limits;
	dlx_wgpu_labeled queue;
	dlx_wgpu_callback lost;
	dlx_wgpu_uncaptured uncaptured;
} dlx_wgpu_device_descriptor;

typedef struct {
	dlx_wgpu_chain *next;
	dlx_wgpu_text label;
	uint64_t usage, size;
	uint32_t mapped;
} dlx_wgpu_buffer_descriptor;

typedef struct {
	dlx_wgpu_chain chain;
	dlx_wgpu_text code;
} dlx_wgpu_wgsl;

typedef struct {
	dlx_wgpu_chain *next;
	dlx_wgpu_text label;
	void *layout;
	struct {
		dlx_wgpu_chain *next;
		void *module;
		dlx_wgpu_text entry;
		size_t constant_count;
		const void *constants;
	} compute;
} dlx_wgpu_pipeline_descriptor;

typedef struct {
	dlx_wgpu_chain *next;
	uint32_t binding;
	void *buffer;
	uint64_t offset, size;
	void *sampler, *texture;
} dlx_wgpu_bind_entry;

typedef struct {
	dlx_wgpu_chain *next;
	dlx_wgpu_text label;
	void *layout;
	size_t entry_count;
	const dlx_wgpu_bind_entry *entries;
} dlx_wgpu_bind_descriptor;

enum {
	DLX_WGPU_TYPE_WGSL = 2,            // WGPUSType_ShaderSourceWGSL
	DLX_WGPU_SPONTANEOUS = 3,          // WGPUCallbackMode_AllowSpontaneous
	DLX_WGPU_FILTER_VALIDATION = 1,    // WGPUErrorFilter_Validation
	DLX_WGPU_FILTER_OUT_OF_MEMORY = 2, // WGPUErrorFilter_OutOfMemory
	DLX_WGPU_NO_ERROR = 1,             // WGPUErrorType_NoError
	DLX_WGPU_VALIDATION = 2,           // WGPUErrorType_Validation
	DLX_WGPU_OUT_OF_MEMORY = 3,        // WGPUErrorType_OutOfMemory
	DLX_WGPU_UNKNOWN = 5,              // WGPUErrorType_Unknown
	DLX_WGPU_SUCCESS = 1,              // of all statuses that dlx reads
	DLX_WGPU_MAP_READ = 1,             // WGPUBufferUsage_MapRead, and WGPUMapMode_Read
	DLX_WGPU_MAP_WRITE = 2,            // WGPUBufferUsage_MapWrite, and WGPUMapMode_Write
	DLX_WGPU_COPY_SRC = 4,             // WGPUBufferUsage_CopySrc
	DLX_WGPU_COPY_DST = 8,             // WGPUBufferUsage_CopyDst
	DLX_WGPU_STORAGE = 128,            // WGPUBufferUsage_Storage
	DLX_WGPU_BOUNDS_CHECKS = 1,        // WGPUShaderRuntimeChecks_BoundsChecks
	DLX_WGPU_BACKEND_VULKAN = 6,       // WGPUBackendType_Vulkan
	DLX_WGPU_ADAPTER_CPU = 3,          // WGPUAdapterType_CPU
};

#endif
