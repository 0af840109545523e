#ifndef DLX_WEBGPU_CALLS_H
#define DLX_WEBGPU_CALLS_H

#include "abi.h"

// The functions of the library. A name F here is wgpuF there.
#define DLX_WGPU_FUNCTIONS(F) \
	F(void *, CreateInstance, (const void *descriptor)) \
	F(size_t, InstanceEnumerateAdapters, (void *instance, const void *options, void **adapters)) \
	F(uint32_t, GetVersion, (void)) \
	F(void, AdapterRelease, (void *)) \
	F(uint32_t, AdapterGetInfo, (void *, dlx_wgpu_adapter_info *)) \
	F(void, AdapterInfoFreeMembers, (dlx_wgpu_adapter_info)) \
	F(uint32_t, AdapterGetLimits, (void *, dlx_wgpu_limits *)) \
	F(uint64_t, AdapterRequestDevice, (void *, const dlx_wgpu_device_descriptor *, dlx_wgpu_callback)) \
	F(void, DeviceAddRef, (void *)) \
	F(void, DeviceRelease, (void *)) \
	F(void, DeviceDestroy, (void *)) \
	F(uint32_t, DeviceGetLimits, (void *, dlx_wgpu_limits *)) \
	F(void *, DeviceGetQueue, (void *)) \
	F(uint32_t, DevicePoll, (void *, uint32_t wait, const uint64_t *submission)) \
	F(void, DevicePushErrorScope, (void *, uint32_t filter)) \
	F(uint64_t, DevicePopErrorScope, (void *, dlx_wgpu_callback)) \
	F(void *, DeviceCreateBuffer, (void *, const dlx_wgpu_buffer_descriptor *)) \
	F(void *, DeviceCreateCommandEncoder, (void *, const dlx_wgpu_labeled *)) \
	F(void *, DeviceCreateShaderModuleTrusted, (void *, const dlx_wgpu_labeled *, uint64_t checks)) \
	F(void *, DeviceCreateComputePipeline, (void *, const dlx_wgpu_pipeline_descriptor *)) \
	F(void *, DeviceCreateBindGroup, (void *, const dlx_wgpu_bind_descriptor *)) \
	F(void, ShaderModuleRelease, (void *)) \
	F(void *, ComputePipelineGetBindGroupLayout, (void *, uint32_t)) \
	F(void, ComputePipelineRelease, (void *)) \
	F(void, BindGroupLayoutRelease, (void *)) \
	F(void, BindGroupRelease, (void *)) \
	F(void, BufferAddRef, (void *)) \
	F(void, BufferRelease, (void *)) \
	F(void, BufferDestroy, (void *)) \
	F(uint64_t, BufferGetSize, (void *)) \
	F(uint64_t, BufferGetUsage, (void *)) \
	F(uint64_t, BufferMapAsync, (void *, uint64_t mode, size_t offset, size_t size, dlx_wgpu_callback)) \
	F(const void *, BufferGetConstMappedRange, (void *, size_t offset, size_t size)) \
	F(void *, BufferGetMappedRange, (void *, size_t offset, size_t size)) \
	F(void, BufferUnmap, (void *)) \
	F(void, CommandEncoderCopyBufferToBuffer, (void *, void *src, uint64_t src_offset, void *dst, uint64_t dst_offset, uint64_t size)) \
	F(void *, CommandEncoderBeginComputePass, (void *, const void *)) \
	F(void *, CommandEncoderFinish, (void *, const dlx_wgpu_labeled *)) \
	F(void, CommandEncoderRelease, (void *)) \
	F(void, CommandBufferRelease, (void *)) \
	F(void, ComputePassEncoderSetPipeline, (void *, void *)) \
	F(void, ComputePassEncoderSetBindGroup, (void *, uint32_t, void *, size_t, const uint32_t *)) \
	F(void, ComputePassEncoderDispatchWorkgroups, (void *, uint32_t, uint32_t, uint32_t)) \
	F(void, ComputePassEncoderEnd, (void *)) \
	F(void, ComputePassEncoderRelease, (void *)) \
	F(void, QueueRelease, (void *)) \
	F(uint64_t, QueueSubmitForIndex, (void *, size_t, void *const *)) \
	F(uint64_t, QueueOnSubmittedWorkDone, (void *, dlx_wgpu_callback)) \
	F(void, QueueWriteBuffer, (void *, void *buffer, uint64_t offset, const void *, size_t))

typedef struct {
#define F(result, name, parameters) result (*name) parameters;
	DLX_WGPU_FUNCTIONS(F)
#undef F
} dlx_wgpu_functions;

// dlx_wgpu_fn is filled once, before any other call.
extern dlx_wgpu_functions dlx_wgpu_fn;
const char *dlx_wgpu_name(size_t i); // of field i

// dlx_wgpu_error is the first error of a group of calls: type is 0 if there was none.
typedef struct {
	uint32_t type;
	char text[500];
} dlx_wgpu_error;

// dlx_wgpu_state is what the callback of a lost device writes. The device owns it. A callback that comes after it was freed does nothing.
typedef struct dlx_wgpu_state {
	struct dlx_wgpu_state *next;
	uintptr_t id;
	uint32_t lost;      // atomic
	dlx_wgpu_error why; // written before lost
} dlx_wgpu_state;

// dlx_wgpu_wait is what a callback of one operation writes: 0 until it has come, and then its status. It
// is freed with the last of its two users: the callback and who waits.
typedef struct dlx_wgpu_wait dlx_wgpu_wait;

uint32_t dlx_wgpu_version(void);
void *dlx_wgpu_instance(void);
size_t dlx_wgpu_adapters(void *instance, void **adapters, size_t room);
int dlx_wgpu_describe(void *adapter, dlx_wgpu_adapter_info *info, dlx_wgpu_limits *limits);
void dlx_wgpu_free_info(dlx_wgpu_adapter_info *info);
void dlx_wgpu_release_adapter(void *adapter);

// dlx_wgpu_open returns NULL with the reason if it fails, and then sets no state.
void *dlx_wgpu_open(void *adapter, const dlx_wgpu_limits *limits, dlx_wgpu_state **state, dlx_wgpu_error *error);
int dlx_wgpu_device_limits(void *device, dlx_wgpu_limits *limits);
void dlx_wgpu_retain_device(void *device);
void *dlx_wgpu_queue(void *device);
void dlx_wgpu_close(void *device, void *queue);
void dlx_wgpu_drop_state(dlx_wgpu_state *state);

// Between begin and end, the errors of the device's calls on this thread are kept for end, which gives the first one.
void dlx_wgpu_begin(void *device);
void dlx_wgpu_end(void *device, dlx_wgpu_error *error);

void *dlx_wgpu_new_buffer(void *device, uint64_t usage, uint64_t size, int mapped);
void dlx_wgpu_retain_buffer(void *buffer);
void dlx_wgpu_release_buffer(void *buffer);
uint64_t dlx_wgpu_buffer_size(void *buffer);
uint64_t dlx_wgpu_buffer_usage(void *buffer);
void dlx_wgpu_write(void *queue, void *buffer, uint64_t offset, uintptr_t host, size_t size);
void dlx_wgpu_write_zeros(void *queue, void *buffer, uint64_t offset, size_t size); // at most 4 bytes
uintptr_t dlx_wgpu_mapped(void *buffer, uint64_t mode, size_t size);
void dlx_wgpu_unmap(void *buffer);
void *dlx_wgpu_new_pipeline(void *device, const char *code, size_t length, const char **missing);

// dlx_wgpu_dispatch runs a pipeline over three ranges of buffers: where it writes, what it reads, and its constants.
typedef struct {
	void *buffer;
	uint64_t offset, size;
} dlx_wgpu_range;
// It returns the call that returned no object, or NULL.
const char *dlx_wgpu_dispatch(void *device, void *encoder, void *pipeline, const dlx_wgpu_range ranges[3], uint32_t x, uint32_t y, uint32_t z);

void dlx_wgpu_release_pipeline(void *pipeline);
void dlx_wgpu_free(void *memory);
void *dlx_wgpu_encoder(void *device);
void dlx_wgpu_copy(void *encoder, void *src, uint64_t from, void *dst, uint64_t to, uint64_t size);
void *dlx_wgpu_finish(void *encoder); // releases the encoder
uint64_t dlx_wgpu_submit(void *queue, void *commands); // returns the index of the submission
void dlx_wgpu_release_commands(void *commands);

dlx_wgpu_wait *dlx_wgpu_on_done(void *queue);
uint32_t dlx_wgpu_idle(void *device, void *queue); // the status of a callback for all that was submitted: 0 if it is not done
dlx_wgpu_wait *dlx_wgpu_map(void *buffer, uint64_t mode, uint64_t size);
long dlx_wgpu_callbacks(void); // how many states and waits are not freed
uint32_t dlx_wgpu_poll(void *device, dlx_wgpu_wait *wait, uint64_t submission); // waits for the submission, if it is not 0
void dlx_wgpu_wait_for_all(void *device);
void dlx_wgpu_drop_wait(dlx_wgpu_wait *wait);

#endif
