//go:build cuda && vulkan && linux && cgo

#include "raw.h"
#include "table.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

_Thread_local const char *fs_what = "";
const char *fs_failed(void) { return fs_what; }
fs_table cu;
CUdevice fs_device;
CUcontext fs_context;
CUstream fs_stream;
CUexternalSemaphore fs_timeline;

int64_t fs_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

#define STRING(name) #name
#define SYMBOL(name) STRING(name)

const char *fs_cuda_load(const char *library) {
	static char why[512];
	void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *reason = dlerror();
		snprintf(why, sizeof why, "dlopen: %s", reason ? reason : library);
		return why;
	}
#define FIND(name) *(void **)&cu.name = dlsym(handle, SYMBOL(name));
#define NEED(name) \
	FIND(name) \
	if (!cu.name) { \
		snprintf(why, sizeof why, "%s has no function %s", library, SYMBOL(name)); \
		return why; \
	}
	FS_FUNCTIONS(NEED)
	FS_OPTIONAL(FIND)
	return NULL;
}

const char *fs_cuda_code(int code) {
	const char *name = NULL;
	if (!cu.cuGetErrorName || cu.cuGetErrorName((CUresult)code, &name) || !name) return "an unknown code";
	return name;
}

int fs_cuda_open(void) {
	FS_TRY(cu.cuInit(0));
	FS_TRY(cu.cuDeviceGet(&fs_device, 0));
	FS_TRY(cu.cuDevicePrimaryCtxRetain(&fs_context, fs_device));
	FS_TRY(cu.cuCtxSetCurrent(fs_context));
	FS_TRY(cu.cuStreamCreate(&fs_stream, CU_STREAM_NON_BLOCKING));
	return 0;
}

int fs_cuda_current(void) {
	FS_TRY(cu.cuCtxSetCurrent(fs_context));
	return 0;
}

int fs_cuda_describe(char name[256], uint8_t uuid[16], int *version, uint64_t *total, uint64_t *unused) {
	CUuuid id = {{0}};
	size_t bytes = 0, left = 0;
	FS_TRY(cu.cuDeviceGetName(name, 256, fs_device));
	FS_TRY(cu.cuDriverGetVersion(version));
	FS_TRY(cu.cuDeviceTotalMem(&bytes, fs_device));
	*total = bytes;
	FS_TRY(cu.cuMemGetInfo(&left, &bytes));
	*unused = left;
	if (cu.cuDeviceGetUuid_v2) FS_TRY(cu.cuDeviceGetUuid_v2(&id, fs_device));
	memcpy(uuid, id.bytes, sizeof id.bytes);
	return 0;
}

int fs_cuda_alloc(uint64_t size, uint64_t *address) {
	CUdeviceptr p = 0;
	FS_TRY(cu.cuMemAlloc(&p, size));
	*address = p;
	return 0;
}

int fs_cuda_free(uint64_t address) {
	FS_TRY(cu.cuMemFree(address));
	return 0;
}

int fs_cuda_host_alloc(uint64_t size, void **p) {
	FS_TRY(cu.cuMemHostAlloc(p, size, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	return 0;
}

int fs_cuda_managed(uint64_t size, uint64_t *address) {
	CUdeviceptr p = 0;
	FS_TRY(cu.cuMemAllocManaged(&p, size, CU_MEM_ATTACH_GLOBAL));
	*address = p;
	return 0;
}

CUmemAllocationProp fs_vmm_prop(int location) {
	CUmemAllocationProp prop;
	memset(&prop, 0, sizeof prop);
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = (CUmemLocationType)location;
	prop.location.id = location == CU_MEM_LOCATION_TYPE_DEVICE ? fs_device : 0;
	return prop;
}

CUresult fs_vmm_size(int location, uint64_t *size) {
	size_t unit = 0;
	CUmemAllocationProp prop = fs_vmm_prop(location);
	FS_TRY(cu.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	*size = (*size + unit - 1) / unit * unit;
	return CUDA_SUCCESS;
}

int fs_cuda_vmm(uint64_t size, int location, uint64_t *address) {
	CUmemGenericAllocationHandle memory;
	CUmemAllocationProp prop = fs_vmm_prop(location);
	CUmemAccessDesc access = {.location = fs_vmm_prop(CU_MEM_LOCATION_TYPE_DEVICE).location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUdeviceptr p = 0;
	CUresult r = fs_vmm_size(location, &size);
	if (r) return r;
	FS_TRY(cu.cuMemCreate(&memory, size, &prop, 0));
	FS_TRY(cu.cuMemAddressReserve(&p, size, 0, 0, 0));
	FS_TRY(cu.cuMemMap(p, size, 0, memory, 0));
	FS_TRY(cu.cuMemSetAccess(p, size, &access, 1));
	*address = p;
	return 0;
}

int fs_cuda_pooled(uint64_t size, uint64_t *address) {
	CUdeviceptr p = 0;
	FS_TRY(FS_IF(cuMemAllocAsync, &p, size, fs_stream));
	FS_TRY(cu.cuStreamSynchronize(fs_stream));
	*address = p;
	return 0;
}

CUresult fs_import_memory(int fd, uint64_t size, CUexternalMemory *memory) {
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC what = {.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .handle.fd = fd, .size = size};
	FS_TRY(cu.cuImportExternalMemory(memory, &what));
	return CUDA_SUCCESS;
}

int fs_cuda_import(int fd, uint64_t size, uint64_t *address) {
	CUexternalMemory memory;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = {.offset = 0, .size = size};
	CUdeviceptr p = 0;
	CUresult r = fs_import_memory(fd, size, &memory);
	if (r) return r;
	FS_TRY(cu.cuExternalMemoryGetMappedBuffer(&p, memory, &all));
	*address = p;
	return 0;
}

int fs_cuda_register(void *p, uint64_t size, unsigned flags) {
	FS_TRY(cu.cuMemHostRegister(p, size, flags));
	return 0;
}

int fs_cuda_unregister(void *p) {
	FS_TRY(cu.cuMemHostUnregister(p));
	return 0;
}

int fs_cuda_write(uint64_t dst, const void *src, uint64_t size) {
	FS_TRY(cu.cuMemcpyHtoD(dst, src, size));
	return 0;
}

int fs_cuda_copies(uint64_t dst, uint64_t src, uint64_t size, int n, int64_t *ns) {
	int64_t start = fs_now();
	for (int i = 0; i < n; i++) FS_TRY(cu.cuMemcpyAsync(dst, src, size, fs_stream));
	FS_TRY(cu.cuStreamSynchronize(fs_stream));
	*ns = fs_now() - start;
	return 0;
}

int fs_cuda_attributes(uint64_t p, fs_attribute out[FS_ATTRIBUTES]) {
	int n = 0;
#define ASK(attribute)                                                                                \
	do {                                                                                              \
		uint64_t value[8] = {0};                                                                      \
		int code = cu.cuPointerGetAttribute(value, CU_POINTER_ATTRIBUTE_##attribute, (CUdeviceptr)p); \
		out[n++] = (fs_attribute){#attribute, code, value[0]};                                        \
	} while (0)
	ASK(CONTEXT);
	ASK(MEMORY_TYPE);
	ASK(DEVICE_POINTER);
	ASK(HOST_POINTER);
	ASK(BUFFER_ID);
	ASK(IS_MANAGED);
	ASK(DEVICE_ORDINAL);
	ASK(IS_LEGACY_CUDA_IPC_CAPABLE);
	ASK(RANGE_START_ADDR);
	ASK(RANGE_SIZE);
	ASK(MAPPED);
	ASK(ALLOWED_HANDLE_TYPES);
	ASK(ACCESS_FLAGS);
	ASK(MEMPOOL_HANDLE);
	return n;
}

CUresult fs_import_semaphore(int fd, CUexternalSemaphore *semaphore) {
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC what = {.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD, .handle.fd = fd};
	FS_TRY(cu.cuImportExternalSemaphore(semaphore, &what));
	return CUDA_SUCCESS;
}

int fs_cuda_semaphore(int fd) { return fs_import_semaphore(fd, &fs_timeline); }

int fs_cuda_signal(uint64_t value) {
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p = {.params.fence.value = value};
	FS_TRY(cu.cuSignalExternalSemaphoresAsync(&fs_timeline, &p, 1, fs_stream));
	return 0;
}

int fs_cuda_await(uint64_t value) {
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS p = {.params.fence.value = value};
	FS_TRY(cu.cuWaitExternalSemaphoresAsync(&fs_timeline, &p, 1, fs_stream));
	return 0;
}

static CUevent event;

int fs_cuda_event(void) {
	if (!event) FS_TRY(cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	FS_TRY(cu.cuEventRecord(event, fs_stream));
	return 0;
}

int fs_cuda_event_done(void) { return cu.cuEventQuery(event); }

int fs_cuda_synchronize(void) {
	FS_TRY(cu.cuStreamSynchronize(fs_stream));
	return 0;
}
