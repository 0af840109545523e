// The functions of CUDA's driver that the experiments call, by the names and types of cuda.h. They are found by dlsym:
// an experiment must not depend on what it examines.
#ifndef DLX_FIRSTSESSION_TABLE_H
#define DLX_FIRSTSESSION_TABLE_H

#include <cuda.h>

CUresult CUDAAPI cuFuncLoad(CUfunction function); // which the header has since CUDA 12.4

#define FS_FUNCTIONS(X) \
	X(cuInit) X(cuGetErrorName) X(cuDriverGetVersion) X(cuDeviceGet) X(cuDeviceGetName) X(cuDeviceTotalMem) \
	X(cuDevicePrimaryCtxRetain) X(cuCtxSetCurrent) X(cuCtxSynchronize) X(cuCtxCreate) X(cuCtxDestroy) \
	X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemHostAlloc) X(cuMemFreeHost) X(cuMemHostGetDevicePointer) \
	X(cuMemHostRegister) X(cuMemHostUnregister) X(cuMemAllocManaged) X(cuMemcpyAsync) X(cuMemcpyHtoD) X(cuMemcpyDtoH) \
	X(cuMemsetD8Async) X(cuPointerGetAttribute) X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel) \
	X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamQuery) X(cuStreamSynchronize) X(cuLaunchHostFunc) \
	X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventQuery) X(cuIpcGetMemHandle) \
	X(cuImportExternalMemory) X(cuExternalMemoryGetMappedBuffer) X(cuDestroyExternalMemory) \
	X(cuImportExternalSemaphore) X(cuDestroyExternalSemaphore) X(cuSignalExternalSemaphoresAsync) X(cuWaitExternalSemaphoresAsync) \
	X(cuMemGetAllocationGranularity) X(cuMemCreate) X(cuMemRelease) X(cuMemAddressReserve) X(cuMemAddressFree) \
	X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess) X(cuMemExportToShareableHandle)

// Functions that drivers lack. A call that needs one then fails with CUDA_ERROR_NOT_SUPPORTED.
#define FS_OPTIONAL(X) \
	X(cuDeviceGetUuid_v2) X(cuFuncLoad) X(cuStreamWaitValue32) X(cuMemAllocAsync) X(cuMemFreeAsync) \
	X(cuDeviceGetDefaultMemPool) X(cuMemPoolTrimTo)

// The macros of cuda.h turn a name into that of its version, here and in each call.
typedef struct {
#define FS_ENTRY(name) __typeof__(&name) name;
	FS_FUNCTIONS(FS_ENTRY)
	FS_OPTIONAL(FS_ENTRY)
#undef FS_ENTRY
} fs_table;

extern fs_table cu;

// FS_IF calls an optional function.
#define FS_IF(name, ...) (cu.name ? cu.name(__VA_ARGS__) : CUDA_ERROR_NOT_SUPPORTED)

// FS_TRY returns from the function if a call fails, and keeps the call's name.
#define FS_TRY(call)                       \
	do {                                   \
		CUresult r_ = (call);              \
		if (r_) {                          \
			fs_what = #call;               \
			return r_;                     \
		}                                  \
	} while (0)

extern CUdevice fs_device;
extern CUcontext fs_context;
extern CUstream fs_stream;              // of the experiments that need one
extern CUexternalSemaphore fs_timeline; // of fs_cuda_semaphore

CUmemAllocationProp fs_vmm_prop(int location);
CUresult fs_vmm_size(int location, uint64_t *size); // rounds the size up
CUresult fs_import_memory(int fd, uint64_t size, CUexternalMemory *memory);
CUresult fs_import_semaphore(int fd, CUexternalSemaphore *semaphore);

#endif
