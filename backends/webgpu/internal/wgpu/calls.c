//go:build webgpu && linux && cgo

#include "calls.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

dlx_wgpu_functions dlx_wgpu_fn;

const char *dlx_wgpu_name(size_t i) {
	static const char *const names[] = {
#define F(result, name, parameters) "wgpu" #name,
		DLX_WGPU_FUNCTIONS(F)
#undef F
	};
	return names[i];
}

#define fn dlx_wgpu_fn

// The states of open devices. wgpu-native 29 calls the callback of a lost device late or never, also when the device is released. The
// callback therefore gets a number, which it may still have when the state is gone.
static pthread_mutex_t states_lock = PTHREAD_MUTEX_INITIALIZER;
static dlx_wgpu_state *states;
static uintptr_t last_id;

static atomic_long callbacks; // states and waits that are not freed

struct dlx_wgpu_wait {
	atomic_int users;
	atomic_uint status;
};

static void keep_text(dlx_wgpu_error *error, uint32_t type, dlx_wgpu_text text) {
	size_t n = text.data ? text.length : 0;
	if (text.data && n == SIZE_MAX)
		n = strlen(text.data);
	if (n >= sizeof error->text)
		n = sizeof error->text - 1;
	if (n)
		memcpy(error->text, text.data, n);
	error->text[n] = 0;
	error->type = type;
}

uint32_t dlx_wgpu_version(void) { return fn.GetVersion(); }

void *dlx_wgpu_instance(void) {
	static void *volatile instance; // where LeakSanitizer finds it: it lives as long as the process
	return instance = fn.CreateInstance(NULL);
}

size_t dlx_wgpu_adapters(void *instance, void **adapters, size_t room) {
	size_t n = fn.InstanceEnumerateAdapters(instance, NULL, NULL);
	if (n == 0 || n > room)
		return 0;
	return fn.InstanceEnumerateAdapters(instance, NULL, adapters);
}

int dlx_wgpu_describe(void *adapter, dlx_wgpu_adapter_info *info, dlx_wgpu_limits *limits) {
	*info = (dlx_wgpu_adapter_info){0};
	*limits = (dlx_wgpu_limits){0};
	if (fn.AdapterGetLimits(adapter, limits) != DLX_WGPU_SUCCESS)
		return 0;
	return fn.AdapterGetInfo(adapter, info) == DLX_WGPU_SUCCESS;
}

void dlx_wgpu_free_info(dlx_wgpu_adapter_info *info) { fn.AdapterInfoFreeMembers(*info); }
void dlx_wgpu_release_adapter(void *adapter) { fn.AdapterRelease(adapter); }

int dlx_wgpu_device_limits(void *device, dlx_wgpu_limits *limits) {
	*limits = (dlx_wgpu_limits){0};
	return fn.DeviceGetLimits(device, limits) == DLX_WGPU_SUCCESS;
}

void dlx_wgpu_retain_device(void *device) { fn.DeviceAddRef(device); }
void *dlx_wgpu_queue(void *device) { return fn.DeviceGetQueue(device); }

void dlx_wgpu_close(void *device, void *queue) {
	if (queue)
		fn.QueueRelease(queue);
	fn.DeviceRelease(device);
}

void dlx_wgpu_retain_buffer(void *buffer) { fn.BufferAddRef(buffer); }
void dlx_wgpu_release_buffer(void *buffer) { fn.BufferRelease(buffer); }
uint64_t dlx_wgpu_buffer_size(void *buffer) { return fn.BufferGetSize(buffer); }
uint64_t dlx_wgpu_buffer_usage(void *buffer) { return fn.BufferGetUsage(buffer); }

void dlx_wgpu_write(void *queue, void *buffer, uint64_t offset, uintptr_t host, size_t size) {
	fn.QueueWriteBuffer(queue, buffer, offset, (const void *)host, size);
}

void dlx_wgpu_write_zeros(void *queue, void *buffer, uint64_t offset, size_t size) {
	static const uint32_t zeros;
	fn.QueueWriteBuffer(queue, buffer, offset, &zeros, size);
}

uintptr_t dlx_wgpu_mapped(void *buffer, uint64_t mode, size_t size) {
	if (mode == DLX_WGPU_MAP_WRITE)
		return (uintptr_t)fn.BufferGetMappedRange(buffer, 0, size);
	return (uintptr_t)fn.BufferGetConstMappedRange(buffer, 0, size);
}

void dlx_wgpu_unmap(void *buffer) { fn.BufferUnmap(buffer); }
void dlx_wgpu_release_pipeline(void *pipeline) { fn.ComputePipelineRelease(pipeline); }
void dlx_wgpu_free(void *memory) { free(memory); }
void *dlx_wgpu_encoder(void *device) { return fn.DeviceCreateCommandEncoder(device, NULL); }

void dlx_wgpu_copy(void *encoder, void *src, uint64_t from, void *dst, uint64_t to, uint64_t size) {
	fn.CommandEncoderCopyBufferToBuffer(encoder, src, from, dst, to, size);
}

void dlx_wgpu_drop_state(dlx_wgpu_state *state) {
	pthread_mutex_lock(&states_lock);
	dlx_wgpu_state **at = &states;
	while (*at != state)
		at = &(*at)->next;
	*at = state->next;
	pthread_mutex_unlock(&states_lock);
	free(state);
	atomic_fetch_sub(&callbacks, 1);
}

static dlx_wgpu_state *new_state(void) {
	dlx_wgpu_state *state = calloc(1, sizeof *state);
	if (!state)
		return NULL;
	pthread_mutex_lock(&states_lock);
	state->id = ++last_id;
	state->next = states;
	states = state;
	pthread_mutex_unlock(&states_lock);
	atomic_fetch_add(&callbacks, 1);
	return state;
}

static void on_lost(void *const *device, uint32_t reason, dlx_wgpu_text text, void *first, void *second) {
	pthread_mutex_lock(&states_lock);
	for (dlx_wgpu_state *state = states; state; state = state->next) {
		if (state->id == (uintptr_t)first && !state->lost) {
			keep_text(&state->why, reason, text);
			__atomic_store_n(&state->lost, 1, __ATOMIC_RELEASE); // also if it was destroyed: the device is open, so it was not dlx
		}
	}
	pthread_mutex_unlock(&states_lock);
}

// Errors of calls outside of begin and end are those of other code that uses the device.
static void on_uncaptured(void *const *device, uint32_t type, dlx_wgpu_text text, void *first, void *second) {}

struct opening {
	void *device;
	dlx_wgpu_error *error;
};

static void on_device(uint32_t status, void *device, dlx_wgpu_text text, void *first, void *second) {
	struct opening *o = first;
	if (status == DLX_WGPU_SUCCESS)
		o->device = device;
	else
		keep_text(o->error, status, text);
}

void *dlx_wgpu_open(void *adapter, const dlx_wgpu_limits *limits, dlx_wgpu_state **out, dlx_wgpu_error *error) {
	dlx_wgpu_state *state = new_state();
	if (!state) {
		keep_text(error, 0, (dlx_wgpu_text){"there is no memory for a callback", SIZE_MAX});
		return NULL;
	}
	dlx_wgpu_device_descriptor d = {.limits = limits};
	d.lost = (dlx_wgpu_callback){NULL, DLX_WGPU_SPONTANEOUS, (void (*)(void))on_lost, (void *)state->id, NULL};
	d.uncaptured = (dlx_wgpu_uncaptured){NULL, (void (*)(void))on_uncaptured, NULL, NULL};
	struct opening o = {NULL, error};
	// wgpu-native calls back before the call returns.
	fn.AdapterRequestDevice(adapter, &d, (dlx_wgpu_callback){NULL, DLX_WGPU_SPONTANEOUS, (void (*)(void))on_device, &o, NULL});
	if (!o.device) {
		dlx_wgpu_drop_state(state);
		return NULL;
	}
	*out = state;
	return o.device;
}

// wgpu-native ends the process for the third filter of the standard, WGPUErrorFilter_Internal.
static const uint32_t filters[] = {DLX_WGPU_FILTER_VALIDATION, DLX_WGPU_FILTER_OUT_OF_MEMORY};
enum { FILTERS = sizeof filters / sizeof *filters };

void dlx_wgpu_begin(void *device) {
	for (int i = 0; i < FILTERS; i++)
		fn.DevicePushErrorScope(device, filters[i]);
}

static void on_popped(uint32_t status, uint32_t type, dlx_wgpu_text text, void *first, void *second) {
	dlx_wgpu_error *error = first;
	if (error->type == 0 && (status != DLX_WGPU_SUCCESS || type != DLX_WGPU_NO_ERROR))
		keep_text(error, type ? type : DLX_WGPU_UNKNOWN, text);
}

void dlx_wgpu_end(void *device, dlx_wgpu_error *error) {
	error->type = 0;
	for (int i = 0; i < FILTERS; i++)
		fn.DevicePopErrorScope(device, (dlx_wgpu_callback){NULL, DLX_WGPU_SPONTANEOUS, (void (*)(void))on_popped, error, NULL});
}

void *dlx_wgpu_new_buffer(void *device, uint64_t usage, uint64_t size, int mapped) {
	dlx_wgpu_buffer_descriptor d = {.usage = usage, .size = size, .mapped = mapped};
	return fn.DeviceCreateBuffer(device, &d);
}

void *dlx_wgpu_new_pipeline(void *device, const char *code, size_t length, const char **missing) {
	dlx_wgpu_wgsl source = {{NULL, DLX_WGPU_TYPE_WGSL}, {code, length}};
	dlx_wgpu_labeled d = {&source.chain, {NULL, 0}};
	// All loops of dlx's shaders end. By default the library gives each one a counter, which keeps drivers from unrolling it.
	void *module = fn.DeviceCreateShaderModuleTrusted(device, &d, DLX_WGPU_BOUNDS_CHECKS);
	if (!module) {
		*missing = "wgpuDeviceCreateShaderModuleTrusted";
		return NULL;
	}
	dlx_wgpu_pipeline_descriptor p = {.compute = {.module = module, .entry = {"main", 4}}};
	void *pipeline = fn.DeviceCreateComputePipeline(device, &p);
	fn.ShaderModuleRelease(module);
	if (!pipeline)
		*missing = "wgpuDeviceCreateComputePipeline";
	return pipeline;
}

const char *dlx_wgpu_dispatch(void *device, void *encoder, void *pipeline, const dlx_wgpu_range ranges[3], uint32_t x, uint32_t y, uint32_t z) {
	void *layout = fn.ComputePipelineGetBindGroupLayout(pipeline, 0);
	if (!layout)
		return "wgpuComputePipelineGetBindGroupLayout";
	dlx_wgpu_bind_entry entries[3] = {0};
	for (uint32_t i = 0; i < 3; i++)
		entries[i] = (dlx_wgpu_bind_entry){.binding = i, .buffer = ranges[i].buffer, .offset = ranges[i].offset, .size = ranges[i].size};
	dlx_wgpu_bind_descriptor d = {.layout = layout, .entry_count = 3, .entries = entries};
	void *group = fn.DeviceCreateBindGroup(device, &d);
	fn.BindGroupLayoutRelease(layout);
	if (!group)
		return "wgpuDeviceCreateBindGroup";
	void *pass = fn.CommandEncoderBeginComputePass(encoder, NULL);
	if (pass) {
		fn.ComputePassEncoderSetPipeline(pass, pipeline);
		fn.ComputePassEncoderSetBindGroup(pass, 0, group, 0, NULL);
		fn.ComputePassEncoderDispatchWorkgroups(pass, x, y, z);
		fn.ComputePassEncoderEnd(pass);
		fn.ComputePassEncoderRelease(pass);
	}
	fn.BindGroupRelease(group);
	return pass ? NULL : "wgpuCommandEncoderBeginComputePass";
}

void *dlx_wgpu_finish(void *encoder) {
	void *commands = fn.CommandEncoderFinish(encoder, NULL);
	fn.CommandEncoderRelease(encoder);
	return commands;
}

uint64_t dlx_wgpu_submit(void *queue, void *commands) { return fn.QueueSubmitForIndex(queue, 1, &commands); }
void dlx_wgpu_release_commands(void *commands) { fn.CommandBufferRelease(commands); }

long dlx_wgpu_callbacks(void) { return atomic_load(&callbacks); }

static dlx_wgpu_wait *new_wait(void) {
	dlx_wgpu_wait *wait = calloc(1, sizeof *wait);
	if (wait) {
		atomic_store(&wait->users, 2);
		atomic_fetch_add(&callbacks, 1);
	}
	return wait;
}

void dlx_wgpu_drop_wait(dlx_wgpu_wait *wait) {
	if (atomic_fetch_sub(&wait->users, 1) == 1) {
		free(wait);
		atomic_fetch_sub(&callbacks, 1);
	}
}

static void on_status(uint32_t status, dlx_wgpu_text text, void *first, void *second) {
	dlx_wgpu_wait *wait = first;
	atomic_store(&wait->status, status);
	dlx_wgpu_drop_wait(wait);
}

dlx_wgpu_wait *dlx_wgpu_on_done(void *queue) {
	dlx_wgpu_wait *wait = new_wait();
	if (wait)
		fn.QueueOnSubmittedWorkDone(queue, (dlx_wgpu_callback){NULL, DLX_WGPU_SPONTANEOUS, (void (*)(void))on_status, wait, NULL});
	return wait;
}

dlx_wgpu_wait *dlx_wgpu_map(void *buffer, uint64_t mode, uint64_t size) {
	dlx_wgpu_wait *wait = new_wait();
	if (wait)
		fn.BufferMapAsync(buffer, mode, 0, size, (dlx_wgpu_callback){NULL, DLX_WGPU_SPONTANEOUS, (void (*)(void))on_status, wait, NULL});
	return wait;
}

uint32_t dlx_wgpu_poll(void *device, dlx_wgpu_wait *wait, uint64_t submission) {
	uint32_t status = atomic_load(&wait->status);
	if (!status) {
		fn.DevicePoll(device, submission != 0, submission ? &submission : NULL);
		status = atomic_load(&wait->status);
	}
	return status;
}

uint32_t dlx_wgpu_idle(void *device, void *queue) {
	dlx_wgpu_wait *wait = dlx_wgpu_on_done(queue);
	if (!wait)
		return 0;
	uint32_t status = dlx_wgpu_poll(device, wait, 0);
	dlx_wgpu_drop_wait(wait);
	return status;
}

void dlx_wgpu_wait_for_all(void *device) { fn.DevicePoll(device, 1, NULL); }
