//go:build webgpu && linux && cgo

package faults

/*
#cgo CFLAGS: -I${SRCDIR}/../wgpu
#include "calls.h"
#include <stdatomic.h>
#include <string.h>

// The calls that can fail: those that return an object, those whose only result is an error of a scope, and those below.
#define OBJECTS(F) \
	F(DeviceGetQueue) F(DeviceCreateBuffer) F(DeviceCreateCommandEncoder) F(DeviceCreateShaderModuleTrusted) \
	F(DeviceCreateComputePipeline) F(DeviceCreateBindGroup) F(ComputePipelineGetBindGroupLayout) \
	F(CommandEncoderBeginComputePass) F(CommandEncoderFinish)
#define RELEASES(F) \
	F(AdapterRelease) F(DeviceRelease) F(QueueRelease) F(BufferRelease) F(CommandEncoderRelease) F(CommandBufferRelease) \
	F(ShaderModuleRelease) F(ComputePipelineRelease) F(BindGroupRelease) F(BindGroupLayoutRelease) F(ComputePassEncoderRelease)
#define ACTIONS(F) \
	F(CommandEncoderCopyBufferToBuffer) F(ComputePassEncoderSetPipeline) F(ComputePassEncoderSetBindGroup) \
	F(ComputePassEncoderDispatchWorkgroups) F(ComputePassEncoderEnd) F(QueueSubmitForIndex) F(QueueWriteBuffer)
#define OTHERS(F) \
	F(InstanceEnumerateAdapters) F(AdapterGetInfo) F(AdapterGetLimits) F(AdapterRequestDevice) F(DevicePopErrorScope) \
	F(BufferMapAsync) F(DeviceGetLimits) F(QueueOnSubmittedWorkDone) F(BufferGetConstMappedRange) F(BufferGetMappedRange)

enum {
#define SLOT(name) slot_##name,
	OBJECTS(SLOT) ACTIONS(SLOT) OTHERS(SLOT) slots
};

static const char *const names[] = {
#define NAME(name) "wgpu" #name,
	OBJECTS(NAME) ACTIONS(NAME) OTHERS(NAME)
};

// Arguments of these calls are integers and addresses, 6 at most.
typedef uintptr_t word;
typedef word (*function)(word, word, word, word, word, word);

static dlx_wgpu_functions real;
static atomic_long left[slots]; // calls until the one that fails; 0 if none does
static atomic_long failed, objects;
static atomic_int scope, silent; // the next scope has an error; failing objects leave none

static int fails(int i) {
	if (atomic_load(&left[i]) <= 0 || atomic_fetch_sub(&left[i], 1) != 1) return 0;
	atomic_fetch_add(&failed, 1);
	return 1;
}

#define OBJECT(name) \
	static word object_##name(word a, word b, word c, word d, word e, word f) { \
		int fail = fails(slot_##name); \
		if (fail && atomic_load(&silent)) return 0; \
		word result = ((function)real.name)(a, b, c, d, e, f); \
		if (fail) atomic_store(&scope, 1); \
		if (result) atomic_fetch_add(&objects, 1); \
		return result; \
	}
OBJECTS(OBJECT)

#define RELEASE(name) \
	static void release_##name(void *p) { \
		atomic_fetch_sub(&objects, 1); \
		real.name(p); \
	}
RELEASES(RELEASE)

#define ACTION(name) \
	static word action_##name(word a, word b, word c, word d, word e, word f) { \
		if (fails(slot_##name)) atomic_store(&scope, 1); \
		return ((function)real.name)(a, b, c, d, e, f); \
	}
ACTIONS(ACTION)

static void retain(void *p) {
	atomic_fetch_add(&objects, 1);
	real.BufferAddRef(p);
}

static void retain_device(void *p) {
	atomic_fetch_add(&objects, 1);
	real.DeviceAddRef(p);
}

static size_t enumerate(void *instance, const void *options, void **adapters) {
	if (fails(slot_InstanceEnumerateAdapters)) return 0;
	size_t n = real.InstanceEnumerateAdapters(instance, options, adapters);
	if (adapters) atomic_fetch_add(&objects, (long)n);
	return n;
}

static uint32_t info(void *a, dlx_wgpu_adapter_info *i) { return fails(slot_AdapterGetInfo) ? 2 : real.AdapterGetInfo(a, i); }
static uint32_t limits(void *a, dlx_wgpu_limits *l) { return fails(slot_AdapterGetLimits) ? 2 : real.AdapterGetLimits(a, l); }

static uint32_t device_limits(void *d, dlx_wgpu_limits *l) { return fails(slot_DeviceGetLimits) ? 2 : real.DeviceGetLimits(d, l); }

static const void *mapped(void *b, size_t offset, size_t size) {
	return fails(slot_BufferGetConstMappedRange) ? NULL : real.BufferGetConstMappedRange(b, offset, size);
}

static void *mapped_to_write(void *b, size_t offset, size_t size) {
	return fails(slot_BufferGetMappedRange) ? NULL : real.BufferGetMappedRange(b, offset, size);
}

static const dlx_wgpu_text text = {"a fault of the test", sizeof "a fault of the test" - 1};

typedef void (*on_lost)(void *const *, uint32_t, dlx_wgpu_text, void *, void *);
typedef void (*on_device)(uint32_t, void *, dlx_wgpu_text, void *, void *);
typedef void (*on_popped)(uint32_t, uint32_t, dlx_wgpu_text, void *, void *);
typedef void (*on_status)(uint32_t, dlx_wgpu_text, void *, void *);

// The callback of the device that was opened last. It comes once.
static dlx_wgpu_callback lost;
static atomic_int lost_pending;

static atomic_uint group_memory; // of devices that are opened; 0 leaves it

static void lose(uint32_t reason, dlx_wgpu_text why) {
	if (atomic_exchange(&lost_pending, 0)) ((on_lost)lost.call)(NULL, reason, why, lost.first, lost.second);
}

static void real_lost(void *const *device, uint32_t reason, dlx_wgpu_text why, void *first, void *second) { lose(reason, why); }

static void got_device(uint32_t status, void *device, dlx_wgpu_text why, void *first, void *second) {
	if (device) atomic_fetch_add(&objects, 1);
	dlx_wgpu_callback *to = first;
	((on_device)to->call)(status, device, why, to->first, to->second);
}

static uint64_t request(void *adapter, const dlx_wgpu_device_descriptor *d, dlx_wgpu_callback to) {
	dlx_wgpu_device_descriptor mine = *d;
	dlx_wgpu_limits less;
	if (d->limits && atomic_load(&group_memory)) {
		less = *d->limits;
		less.group_memory = atomic_load(&group_memory);
		mine.limits = &less;
	}
	lost = d->lost;
	atomic_store(&lost_pending, 1);
	if (fails(slot_AdapterRequestDevice)) {
		lose(4, text); // WGPUDeviceLostReason_FailedCreation
		((on_device)to.call)(3, NULL, text, to.first, to.second);
		return 0;
	}
	mine.lost.call = (void (*)(void))real_lost;
	dlx_wgpu_callback outer = {NULL, to.mode, (void (*)(void))got_device, &to, NULL};
	return real.AdapterRequestDevice(adapter, &mine, outer);
}

static void on_real_pop(uint32_t status, uint32_t type, dlx_wgpu_text why, void *first, void *second) {
	dlx_wgpu_callback *to = first;
	if (fails(slot_DevicePopErrorScope)) {
		status = 3, type = 0, why = text; // WGPUPopErrorScopeStatus_Error
	} else if (atomic_exchange(&scope, 0)) {
		type = DLX_WGPU_VALIDATION, why = text;
	}
	((on_popped)to->call)(status, type, why, to->first, to->second);
}

static uint64_t pop(void *device, dlx_wgpu_callback to) {
	dlx_wgpu_callback outer = {NULL, to.mode, (void (*)(void))on_real_pop, &to, NULL};
	return real.DevicePopErrorScope(device, outer);
}

static uint64_t map(void *b, uint64_t mode, size_t offset, size_t size, dlx_wgpu_callback to) {
	if (!fails(slot_BufferMapAsync)) return real.BufferMapAsync(b, mode, offset, size, to);
	((on_status)to.call)(3, text, to.first, to.second); // WGPUMapAsyncStatus_Error
	if (!atomic_load(&silent)) atomic_store(&scope, 1);
	return 0;
}

static uint64_t done(void *queue, dlx_wgpu_callback to) {
	if (!fails(slot_QueueOnSubmittedWorkDone)) return real.QueueOnSubmittedWorkDone(queue, to);
	((on_status)to.call)(3, text, to.first, to.second); // WGPUQueueWorkDoneStatus_Error
	return 0;
}

static void install(dlx_wgpu_functions *table) {
	real = *table;
#define PUT_OBJECT(name) table->name = (__typeof__(table->name))object_##name;
#define PUT_RELEASE(name) table->name = release_##name;
#define PUT_ACTION(name) table->name = (__typeof__(table->name))action_##name;
	OBJECTS(PUT_OBJECT)
	RELEASES(PUT_RELEASE)
	ACTIONS(PUT_ACTION)
	table->BufferAddRef = retain;
	table->DeviceAddRef = retain_device;
	table->InstanceEnumerateAdapters = enumerate;
	table->AdapterGetInfo = info;
	table->AdapterGetLimits = limits;
	table->DeviceGetLimits = device_limits;
	table->AdapterRequestDevice = request;
	table->DevicePopErrorScope = pop;
	table->BufferMapAsync = map;
	table->QueueOnSubmittedWorkDone = done;
	table->BufferGetConstMappedRange = mapped;
	table->BufferGetMappedRange = mapped_to_write;
}

static void lose_device(void) { lose(1, text); } // WGPUDeviceLostReason_Unknown
static const char *name_of(int i) { return names[i]; }
static long count_objects(void) { return atomic_load(&objects); }

static void arm(int i, long n, int quiet) {
	atomic_store(&failed, 0);
	atomic_store(&silent, quiet);
	atomic_store(&left[i], n);
}

static long disarm(int i) {
	atomic_store(&left[i], 0);
	atomic_store(&scope, 0);
	return atomic_load(&failed);
}

static void push_scope(uintptr_t device) { real.DevicePushErrorScope((void *)device, DLX_WGPU_FILTER_VALIDATION); }

static void got_type(uint32_t status, uint32_t type, dlx_wgpu_text why, void *first, void *second) { *(uint32_t *)first = type; }

static uint32_t pop_scope(uintptr_t device) {
	uint32_t type = 0;
	real.DevicePopErrorScope((void *)device, (dlx_wgpu_callback){NULL, DLX_WGPU_SPONTANEOUS, (void (*)(void))got_type, &type, NULL});
	return type;
}

static void set_group_memory(uint32_t n) { atomic_store(&group_memory, n); }

static void destroy(uintptr_t device) { real.DeviceDestroy((void *)device); }

static void destroy_buffer(uintptr_t buffer) { real.BufferDestroy((void *)buffer); }
*/
import "C"

import "unsafe"

// Install puts interposers into the table of package wgpu, for good. They pass calls on, unless told otherwise. No device is
// open.
func Install(table []uintptr) {
	C.install((*C.dlx_wgpu_functions)(unsafe.Pointer(&table[0])))
}

// Calls are the names of the calls that can fail.
func Calls() []string {
	names := make([]string, C.slots)
	for i := range names {
		names[i] = C.GoString(C.name_of(C.int(i)))
	}
	return names
}

// Arm makes the n-th call from now on, counted from 1, of the function at index i of [Calls] fail. A function that returns
// an object then leaves an error in the scope, and returns an object with that error, as wgpu-native does; with silent it
// returns no object and leaves no error.
func Arm(i int, n int64, silent bool) {
	quiet := C.int(0)
	if silent {
		quiet = 1
	}
	C.arm(C.int(i), C.long(n), quiet)
}

// Disarm ends that, and reports whether the call came.
func Disarm(i int) bool { return C.disarm(C.int(i)) > 0 }

// Objects returns how many references to objects of the library are held.
func Objects() int64 { return int64(C.count_objects()) }

// Lose makes the device that was opened last a lost one, for an unknown reason.
func Lose() { C.lose_device() }

// Destroy calls wgpuDeviceDestroy, as another user of the device would.
func Destroy(device uintptr) { C.destroy(C.uintptr_t(device)) }

// DestroyBuffer calls wgpuBufferDestroy, as a program would. The buffer must still be released.
func DestroyBuffer(buffer uintptr) { C.destroy_buffer(C.uintptr_t(buffer)) }

// LimitGroupMemory makes devices that are opened from now on have bytes of workgroup memory, or as much as they ask for if bytes is 0.
func LimitGroupMemory(bytes uint32) { C.set_group_memory(C.uint32_t(bytes)) }

// PushScope begins a scope of errors of the program, on the calling thread.
func PushScope(device uintptr) { C.push_scope(C.uintptr_t(device)) }

// PopScope ends it, and reports whether it has an error.
func PopScope(device uintptr) bool { return C.pop_scope(C.uintptr_t(device)) != C.DLX_WGPU_NO_ERROR }
