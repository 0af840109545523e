//go:build cuda && vulkan && linux && cgo

// Calls that may block while a stream waits for a value that nobody has signaled yet. Each is a row of a table: what
// it needs is made before the wait is enqueued, and the call is made after.

#include "raw.h"
#include "table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { SIZE = 32 << 20, SMALL = 1 << 20 };

static struct {
	CUstream waiting, other, spare;
	CUevent done, spare_event;
	CUdeviceptr memory, used; // of the call; of other threads
	void *host, *pageable, *pinned;
	volatile uint32_t *word;
	CUdeviceptr word_device;
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	uint64_t mapped_size;
	CUmodule module;
	CUfunction function;
	CUcontext context;
	CUexternalMemory external;
	CUexternalSemaphore semaphore;
	int fd;
	uint64_t fd_size;
} s;

static const char ptx[] = ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n";

static void CUDA_CB nothing(void *p) { (void)p; }

static CUresult vmm(int steps) { // create, reserve, map, set access
	CUmemAllocationProp prop = fs_vmm_prop(CU_MEM_LOCATION_TYPE_DEVICE);
	CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	s.mapped_size = SIZE;
	CUresult r = fs_vmm_size(CU_MEM_LOCATION_TYPE_DEVICE, &s.mapped_size);
	if (!r && steps > 0) r = cu.cuMemCreate(&s.handle, s.mapped_size, &prop, 0);
	if (!r && steps > 1) r = cu.cuMemAddressReserve(&s.address, s.mapped_size, 0, 0, 0);
	if (!r && steps > 2) r = cu.cuMemMap(s.address, s.mapped_size, 0, s.handle, 0);
	if (!r && steps > 3) r = cu.cuMemSetAccess(s.address, s.mapped_size, &access, 1);
	return r;
}

static CUresult set_access(void) {
	CUmemAccessDesc access = {.location = fs_vmm_prop(CU_MEM_LOCATION_TYPE_DEVICE).location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	return cu.cuMemSetAccess(s.address, s.mapped_size, &access, 1);
}

static CUresult create(void) {
	CUmemAllocationProp prop = fs_vmm_prop(CU_MEM_LOCATION_TYPE_DEVICE);
	return cu.cuMemCreate(&s.handle, s.mapped_size, &prop, 0);
}

static CUresult export_memory(void) {
	int fd = -1;
	return cu.cuMemExportToShareableHandle(&fd, s.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

static CUresult map_buffer(void) {
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC all = {.offset = 0, .size = s.fd_size};
	return cu.cuExternalMemoryGetMappedBuffer(&s.memory, s.external, &all);
}

static CUresult pageable(void) {
	s.pageable = malloc(SIZE);
	if (!s.pageable) return CUDA_ERROR_OUT_OF_MEMORY;
	memset(s.pageable, 1, SIZE);
	return CUDA_SUCCESS;
}

static CUresult pages(void) {
	s.host = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s.host == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
	memset(s.host, 1, SIZE);
	return CUDA_SUCCESS;
}

static CUresult new_context(CUcontext *context) {
	CUresult r = cu.cuCtxCreate(context, 0, fs_device); // which makes it current
	return r ? r : cu.cuCtxSetCurrent(fs_context);
}

static CUresult pool_trim(void) {
	CUmemoryPool pool;
	CUresult r = FS_IF(cuDeviceGetDefaultMemPool, &pool, fs_device);
	return r ? r : FS_IF(cuMemPoolTrimTo, pool, 0);
}

static CUresult pool_memory(void) {
	CUresult r = FS_IF(cuMemAllocAsync, &s.memory, SIZE, s.other);
	return r ? r : cu.cuStreamSynchronize(s.other);
}

static CUresult ipc(void) {
	CUipcMemHandle handle;
	return cu.cuIpcGetMemHandle(&handle, s.memory);
}

static CUresult attribute(void) {
	unsigned type;
	return cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, s.memory);
}

static CUresult info(void) {
	size_t left, total;
	return cu.cuMemGetInfo(&left, &total);
}

static CUresult load_function(void) {
	CUresult r = cu.cuModuleGetFunction(&s.function, s.module, "nothing");
	return r ? r : FS_IF(cuFuncLoad, s.function);
}

static CUresult launch(void) { return cu.cuLaunchKernel(s.function, 1, 1, 1, 1, 1, 1, 0, s.other, NULL, NULL); }

static CUresult signal_other(void) {
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p = {.params.fence.value = 1};
	return cu.cuSignalExternalSemaphoresAsync(&s.semaphore, &p, 1, s.other);
}

static CUresult host_register(void) { return cu.cuMemHostRegister(s.host, SIZE, CU_MEMHOSTREGISTER_PORTABLE); }

// In the order of how much depends on the answer. The first two show that the experiment sees what blocks and what does
// not.
#define CALLS(X)                                                                                                       \
	X(0, cuCtxSynchronize, 0, cu.cuCtxSynchronize())                                                                   \
	X(0, cuEventQuery, 0, cu.cuEventQuery(s.done))                                                                     \
	X(0, cuMemFree, cu.cuMemAlloc(&s.memory, SIZE), cu.cuMemFree(s.memory))                                            \
	X(0, cuMemFree_64KiB, cu.cuMemAlloc(&s.memory, 64 << 10), cu.cuMemFree(s.memory))                                  \
	X(0, cuMemUnmap, vmm(4), cu.cuMemUnmap(s.address, s.mapped_size))                                                  \
	X(0, cuMemSetAccess, vmm(3), set_access())                                                                         \
	X(0, cuMemAlloc, 0, cu.cuMemAlloc(&s.memory, SIZE))                                                                \
	X(0, cuMemFreeHost, cu.cuMemHostAlloc(&s.host, SIZE, 0), cu.cuMemFreeHost(s.host))                                 \
	X(0, cuMemHostAlloc, 0, cu.cuMemHostAlloc(&s.host, SIZE, 0))                                                       \
	X(0, cuMemHostRegister, pages(), host_register())                                                                  \
	X(0, cuMemHostUnregister, pages() ?: host_register(), cu.cuMemHostUnregister(s.host))                              \
	X(FS_NEEDS_MEMORY, cuImportExternalMemory, 0, fs_import_memory(s.fd, s.fd_size, &s.external))                      \
	X(FS_NEEDS_MEMORY, cuExternalMemoryGetMappedBuffer, fs_import_memory(s.fd, s.fd_size, &s.external), map_buffer())  \
	X(FS_NEEDS_MEMORY, cuMemFree_external, fs_import_memory(s.fd, s.fd_size, &s.external) ?: map_buffer(),             \
		cu.cuMemFree(s.memory))                                                                                        \
	X(FS_NEEDS_MEMORY, cuDestroyExternalMemory, fs_import_memory(s.fd, s.fd_size, &s.external),                        \
		cu.cuDestroyExternalMemory(s.external))                                                                        \
	X(FS_NEEDS_SEMAPHORE, cuImportExternalSemaphore, 0, fs_import_semaphore(s.fd, &s.semaphore))                       \
	X(FS_NEEDS_SEMAPHORE, cuDestroyExternalSemaphore, fs_import_semaphore(s.fd, &s.semaphore),                         \
		cu.cuDestroyExternalSemaphore(s.semaphore))                                                                    \
	X(FS_NEEDS_SEMAPHORE, cuSignalExternalSemaphoresAsync, fs_import_semaphore(s.fd, &s.semaphore), signal_other())    \
	X(0, cuMemcpyAsync_pinned, 0, cu.cuMemcpyAsync(s.used, (CUdeviceptr)s.pinned, SMALL, s.other))                     \
	X(0, cuMemcpyAsync_pageable, pageable(), cu.cuMemcpyAsync(s.used, (CUdeviceptr)s.pageable, SMALL, s.other))        \
	X(0, cuMemcpyHtoD, pageable(), cu.cuMemcpyHtoD(s.used, s.pageable, SMALL))                                         \
	X(0, cuMemsetD8Async, 0, cu.cuMemsetD8Async(s.used, 0, SMALL, s.other))                                            \
	X(0, cuModuleLoadData, 0, cu.cuModuleLoadData(&s.module, ptx))                                                     \
	X(0, cuFuncLoad, cu.cuModuleLoadData(&s.module, ptx), load_function())                                             \
	X(0, cuLaunchKernel_first,                                                                                         \
		cu.cuModuleLoadData(&s.module, ptx) ?: cu.cuModuleGetFunction(&s.function, s.module, "nothing"), launch())     \
	X(0, cuModuleUnload, cu.cuModuleLoadData(&s.module, ptx), cu.cuModuleUnload(s.module))                             \
	X(0, cuStreamCreate, 0, cu.cuStreamCreate(&s.spare, CU_STREAM_NON_BLOCKING))                                       \
	X(0, cuStreamDestroy_idle, cu.cuStreamCreate(&s.spare, CU_STREAM_NON_BLOCKING), cu.cuStreamDestroy(s.spare))       \
	X(0, cuStreamDestroy_waiting, 0, cu.cuStreamDestroy(s.waiting))                                                    \
	X(0, cuEventCreate, 0, cu.cuEventCreate(&s.spare_event, 0))                                                        \
	X(0, cuEventDestroy, cu.cuEventCreate(&s.spare_event, 0), cu.cuEventDestroy(s.spare_event))                        \
	X(0, cuCtxCreate, 0, new_context(&s.context))                                                                      \
	X(0, cuCtxDestroy, new_context(&s.context), cu.cuCtxDestroy(s.context))                                            \
	X(0, cuMemCreate, vmm(0), create())                                                                                \
	X(0, cuMemMap, vmm(2), cu.cuMemMap(s.address, s.mapped_size, 0, s.handle, 0))                                      \
	X(0, cuMemRelease, vmm(1), cu.cuMemRelease(s.handle))                                                              \
	X(0, cuMemAddressFree, vmm(2), cu.cuMemAddressFree(s.address, s.mapped_size))                                      \
	X(0, cuMemExportToShareableHandle, vmm(1), export_memory())                                                        \
	X(0, cuMemAllocManaged, 0, cu.cuMemAllocManaged(&s.memory, SIZE, CU_MEM_ATTACH_GLOBAL))                            \
	X(0, cuMemAllocAsync, 0, FS_IF(cuMemAllocAsync, &s.memory, SIZE, s.other))                                         \
	X(0, cuMemFreeAsync, pool_memory(), FS_IF(cuMemFreeAsync, s.memory, s.other))                                      \
	X(0, cuMemPoolTrimTo, pool_memory() ?: FS_IF(cuMemFreeAsync, s.memory, s.other), pool_trim())                      \
	X(0, cuIpcGetMemHandle, cu.cuMemAlloc(&s.memory, SIZE), ipc())                                                     \
	X(0, cuPointerGetAttribute, cu.cuMemAlloc(&s.memory, SIZE), attribute())                                           \
	X(0, cuMemGetInfo, 0, info())                                                                                      \
	X(0, cuLaunchHostFunc, 0, cu.cuLaunchHostFunc(s.other, nothing, NULL))

#define DEFINE(needs, name, before, during)                    \
	static CUresult before_##name(void) { return before; } \
	static CUresult during_##name(void) { return during; }
CALLS(DEFINE)

static const struct {
	const char *name;
	int needs;
	CUresult (*before)(void), (*during)(void);
} calls[] = {
#define ENTRY(needs, name, before, during) {#name, needs, before_##name, during_##name},
	CALLS(ENTRY)
};

int fs_block_count(void) { return sizeof calls / sizeof *calls; }
const char *fs_block_name(int i) { return calls[i].name; }
int fs_block_needs(int i) { return calls[i].needs; }

int fs_block_open(void) {
	FS_TRY(cu.cuStreamCreate(&s.waiting, CU_STREAM_NON_BLOCKING));
	FS_TRY(cu.cuStreamCreate(&s.other, CU_STREAM_NON_BLOCKING));
	FS_TRY(cu.cuMemAlloc(&s.used, SIZE));
	FS_TRY(cu.cuMemHostAlloc(&s.pinned, SIZE, CU_MEMHOSTALLOC_PORTABLE));
	memset(s.pinned, 1, SIZE);
	FS_TRY(cu.cuMemHostAlloc((void **)&s.word, 4096, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
	*s.word = 0;
	FS_TRY(cu.cuMemHostGetDevicePointer(&s.word_device, (void *)s.word, 0));
	// What a driver makes at first use is made here.
	FS_TRY(cu.cuMemcpyAsync(s.used, (CUdeviceptr)s.pinned, SMALL, s.waiting));
	FS_TRY(cu.cuMemcpyAsync(s.used, (CUdeviceptr)s.pinned, SMALL, s.other));
	FS_TRY(cu.cuMemsetD8Async(s.used, 0, SMALL, s.other));
	FS_TRY(cu.cuEventCreate(&s.done, CU_EVENT_DISABLE_TIMING));
	FS_TRY(cu.cuEventRecord(s.done, s.other));
	FS_TRY(cu.cuCtxSynchronize());
	return 0;
}

int fs_block_prepare(int i, int fd, uint64_t fd_size) {
	s.fd = fd;
	s.fd_size = fd_size;
	CUresult r = calls[i].before();
	if (r) {
		fs_what = "what the call needs";
		return r;
	}
	FS_TRY(cu.cuCtxSynchronize());
	return 0;
}

int fs_block_wait(int semaphore) {
	FS_TRY(cu.cuMemcpyAsync(s.used, (CUdeviceptr)s.pinned, SMALL, s.waiting));
	if (semaphore) {
		CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS p = {.params.fence.value = 1};
		FS_TRY(cu.cuWaitExternalSemaphoresAsync(&fs_timeline, &p, 1, s.waiting));
	} else {
		FS_TRY(FS_IF(cuStreamWaitValue32, s.waiting, s.word_device, 1, CU_STREAM_WAIT_VALUE_GEQ));
	}
	FS_TRY(cu.cuMemcpyAsync(s.used, (CUdeviceptr)s.pinned, SMALL, s.waiting));
	return 0;
}

void fs_block_word(void) { __atomic_store_n(s.word, 1, __ATOMIC_RELEASE); }
int fs_block_waiting(void) { return cu.cuStreamQuery(s.waiting); }
int fs_block_call(int i) { return calls[i].during(); }
int fs_block_other_query(void) { return cu.cuStreamQuery(s.other); }

int fs_block_other_copy(void) {
	FS_TRY(cu.cuMemcpyAsync(s.used, (CUdeviceptr)s.pinned, SMALL, s.other));
	FS_TRY(cu.cuStreamSynchronize(s.other));
	return 0;
}
