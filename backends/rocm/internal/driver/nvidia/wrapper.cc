// HIP's library for cards of NVIDIA: HIP's headers for __HIP_PLATFORM_NVIDIA__, over libcudart and libcuda, with the names
// and structs of libamdhip64 7.1. With it backends/rocm runs on such a card. It is built by build.sh.
//
// The headers have each function of HIP as an "inline static" one over CUDA. Here it is compiled without these words, so
// that the library can export it. What the headers lack, or have as in HIP 5, is written out below. There is no compiler:
// backends/rocm loads PTX for such a card.

#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cuda.h>
#include <cuda_runtime_api.h>

// dlx_driver returns a function of libcuda, or NULL. Libcuda is not linked, so that the library loads where there is none.
static void *const dlx_libcuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
static void *dlx_driver(const char *name) { return dlx_libcuda ? dlsym(dlx_libcuda, name) : nullptr; }

// dlx_current makes the device of the thread current for libcuda. Functions of libcudart do so themselves.
static const auto dlx_get_current = (decltype(&cuCtxGetCurrent))dlx_driver("cuCtxGetCurrent");
static void dlx_current() {
	CUcontext context = nullptr;
	int device;
	if (dlx_get_current && dlx_get_current(&context) == CUDA_SUCCESS && !context && cudaGetDevice(&device) == cudaSuccess) cudaSetDevice(device);
}

template <typename F, typename... A> static CUresult dlx_call(F *f, A... a) { return f ? f(a...) : CUDA_ERROR_NO_DEVICE; }
#define DLX_TEXT(name) #name // after the macros of cuda.h, which give a name its newest version
#define DLX_DRIVER(name, ...) dlx_call((decltype(&name))dlx_driver(DLX_TEXT(name)), __VA_ARGS__)
#define DLX_CURRENT(name, ...) (dlx_current(), DLX_DRIVER(name, __VA_ARGS__))

// Those of libcuda that HIP's headers call.
#define cuInit(...) DLX_DRIVER(cuInit, __VA_ARGS__)
#define cuDeviceGetName(...) DLX_DRIVER(cuDeviceGetName, __VA_ARGS__)
#define cuDeviceTotalMem_v2(...) DLX_DRIVER(cuDeviceTotalMem_v2, __VA_ARGS__)
#define cuLaunchKernel(...) DLX_CURRENT(cuLaunchKernel, __VA_ARGS__)
#define cuMemGetAddressRange_v2(...) DLX_CURRENT(cuMemGetAddressRange_v2, __VA_ARGS__)
#define cuModuleGetFunction(...) DLX_CURRENT(cuModuleGetFunction, __VA_ARGS__)
#define cuModuleLoadData(...) DLX_CURRENT(cuModuleLoadData, __VA_ARGS__)
#define cuModuleUnload(...) DLX_CURRENT(cuModuleUnload, __VA_ARGS__)

// CUDA 12 has these no more. Nothing that is exported calls them.
#define cudaBindTexture(...) cudaErrorNotSupported
#define cudaBindTexture2D(...) cudaErrorNotSupported
#define cudaGetTextureAlignmentOffset(...) cudaErrorNotSupported

// The headers' own ones, which are not exported.
#define hipDeviceGetAttribute dlx_header_hipDeviceGetAttribute
#define hipDeviceGetUuid dlx_header_hipDeviceGetUuid
#define hipGetDeviceProperties dlx_header_hipGetDeviceProperties
#define hipPointerGetAttributes dlx_header_hipPointerGetAttributes
#define hipRuntimeGetVersion dlx_header_hipRuntimeGetVersion
#define static
#define inline
#include <hip/hip_runtime_api.h>
#undef static
#undef inline
#undef hipDeviceGetAttribute
#undef hipDeviceGetUuid
#undef hipRuntimeGetVersion

#define _Static_assert static_assert
#include "../abi.h"
#include "../functions.h"

// The constants that backends/rocm takes from AMD's headers.
static_assert(hipMemcpyDefault == 4 && hipHostMallocPortable == 1 && hipHostRegisterPortable == 1 && hipHostRegisterMapped == 2 &&
	hipStreamNonBlocking == 1 && hipEventDisableTiming == 2 && hipEventInterprocess == 4 && hipMemAttachGlobal == 1 &&
	cudaStreamCaptureModeRelaxed == 2 && cudaStreamCaptureStatusNone == 0 && hipIpcMemLazyEnablePeerAccess == DLX_LAZY_PEERS_6, "flags");
static_assert((int)cudaMemoryTypeHost == DLX_HOST_6 && (int)cudaMemoryTypeDevice == DLX_DEVICE_6 &&
	(int)cudaMemoryTypeManaged == DLX_MANAGED_6, "hipMemoryType");
static_assert((int)CU_MEM_LOCATION_TYPE_DEVICE == DLX_LOCATION_DEVICE && (int)CU_MEM_ALLOCATION_TYPE_PINNED == DLX_PINNED &&
	(int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR == DLX_POSIX_FD && (int)CU_MEM_ACCESS_FLAGS_PROT_READWRITE == DLX_READ_WRITE &&
	(int)CU_MEM_ALLOC_GRANULARITY_MINIMUM == DLX_MINIMUM && (int)CU_MEM_ALLOC_GRANULARITY_RECOMMENDED == DLX_RECOMMENDED, "memory");
static_assert((int)cudaExternalMemoryHandleTypeOpaqueFd == DLX_OPAQUE_FD && cudaExternalMemoryDedicated == DLX_DEDICATED, "external");
// hipMemcpy3DParms of amd_detail has these fields too.
static_assert(sizeof(cudaMemcpy3DParms) == 160 && offsetof(cudaMemcpy3DParms, srcPtr) == 32 && offsetof(cudaMemcpy3DParms, dstPtr) == 96 &&
	offsetof(cudaMemcpy3DParms, extent) == 128 && offsetof(cudaMemcpy3DParms, kind) == 152, "hipMemcpy3DParms");
static_assert(sizeof(dlx_allocation) == sizeof(CUmemAllocationProp) && offsetof(dlx_allocation, location) == offsetof(CUmemAllocationProp, location) &&
	offsetof(dlx_allocation, compression) == offsetof(CUmemAllocationProp, allocFlags) && sizeof(dlx_access) == sizeof(CUmemAccessDesc), "memory");

static hipError_t of_runtime(cudaError_t r) { return hipCUDAErrorTohipError(r); }
static hipError_t of_driver(CUresult r) { return hipCUResultTohipError(r); }
static CUdeviceptr number(const void *address) { return (CUdeviceptr)(uintptr_t)address; }

extern "C" {

// The compiler compares the prototypes.
#define DLX_PROTOTYPE(name, parameters) hipError_t name parameters;
DLX_HIP_FUNCTIONS_OF_VERSIONS(DLX_PROTOTYPE)

hipError_t hipRuntimeGetVersion(int *version) {
	*version = DLX_HIP_7_1;
	return hipSuccess;
}

// The name of the architecture is "sm_90".
hipError_t hipGetDevicePropertiesR0600(void *properties, int device) {
	int major = 0, minor = 0;
	cudaError_t r = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
	if (r == cudaSuccess) r = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
	snprintf((char *)properties + DLX_ARCH_6, DLX_ARCH_SIZE, "sm_%d%d", major, minor);
	return of_runtime(r);
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t which, int device) {
	if ((int)which != DLX_ATTRIBUTE_VMM) return dlx_header_hipDeviceGetAttribute(value, which, device);
	return of_driver(DLX_DRIVER(cuDeviceGetAttribute, value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
}

// The headers' one ends at a zero byte.
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device) {
	return of_driver(DLX_DRIVER(cuDeviceGetUuid_v2, (CUuuid *)uuid, device));
}

hipError_t hipPointerGetAttributes(void *attributes, const void *address) {
	cudaPointerAttributes a;
	cudaError_t r = cudaPointerGetAttributes(&a, address);
	if (r != cudaSuccess) return of_runtime(r);
	dlx_pointer_attributes out = {(int)a.type, a.device, a.devicePointer, a.hostPointer, a.type == cudaMemoryTypeManaged, 0};
	memcpy(attributes, &out, sizeof out);
	return hipSuccess;
}

hipError_t hipLaunchHostFunc(hipStream_t stream, cudaHostFn_t f, void *data) { return of_runtime(cudaLaunchHostFunc(stream, f, data)); }

hipError_t hipThreadExchangeStreamCaptureMode(cudaStreamCaptureMode *mode) { return of_runtime(cudaThreadExchangeStreamCaptureMode(mode)); }

hipError_t hipStreamIsCapturing(hipStream_t stream, cudaStreamCaptureStatus *state) { return of_runtime(cudaStreamIsCapturing(stream, state)); }

hipError_t hipStreamGetDevice(hipStream_t stream, int *device) {
	CUcontext context;
	CUresult r = DLX_CURRENT(cuStreamGetCtx, stream, &context);
	if (r == CUDA_SUCCESS) r = DLX_DRIVER(cuCtxPushCurrent, context);
	if (r != CUDA_SUCCESS) return of_driver(r);
	r = DLX_DRIVER(cuCtxGetDevice, device);
	DLX_DRIVER(cuCtxPopCurrent, &context);
	return of_driver(r);
}

// CUDA takes the descriptor, which HIP leaves to the caller.
hipError_t hipImportExternalMemory(void **memory, const void *description) {
	const dlx_external_handle *from = (const dlx_external_handle *)description;
	cudaExternalMemoryHandleDesc to = {};
	to.type = (cudaExternalMemoryHandleType)from->type;
	to.size = from->size;
	to.flags = from->flags;
	to.handle.fd = fcntl(from->handle.fd, F_DUPFD_CLOEXEC, 0);
	if (to.handle.fd < 0) return hipErrorInvalidValue;
	cudaError_t r = cudaImportExternalMemory((cudaExternalMemory_t *)memory, &to);
	if (r != cudaSuccess) close(to.handle.fd);
	return of_runtime(r);
}

hipError_t hipExternalMemoryGetMappedBuffer(void **address, void *memory, const void *description) {
	const dlx_external_buffer *from = (const dlx_external_buffer *)description;
	cudaExternalMemoryBufferDesc to = {};
	to.offset = from->offset;
	to.size = from->size;
	to.flags = from->flags;
	return of_runtime(cudaExternalMemoryGetMappedBuffer(address, (cudaExternalMemory_t)memory, &to));
}

hipError_t hipDestroyExternalMemory(void *memory) { return of_runtime(cudaDestroyExternalMemory((cudaExternalMemory_t)memory)); }

hipError_t hipMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
	return of_driver(DLX_CURRENT(cuMemGetAllocationGranularity, bytes, (const CUmemAllocationProp *)properties, (CUmemAllocationGranularity_flags)option));
}

hipError_t hipMemCreate(void **memory, size_t size, const void *properties, unsigned long long flags) {
	return of_driver(DLX_CURRENT(cuMemCreate, (CUmemGenericAllocationHandle *)memory, size, (const CUmemAllocationProp *)properties, flags));
}

hipError_t hipMemRelease(void *memory) { return of_driver(DLX_CURRENT(cuMemRelease, number(memory))); }

hipError_t hipMemAddressReserve(void **address, size_t size, size_t alignment, void *wanted, unsigned long long flags) {
	return of_driver(DLX_CURRENT(cuMemAddressReserve, (CUdeviceptr *)address, size, alignment, number(wanted), flags));
}

hipError_t hipMemAddressFree(void *address, size_t size) { return of_driver(DLX_CURRENT(cuMemAddressFree, number(address), size)); }

hipError_t hipMemMap(void *address, size_t size, size_t offset, void *memory, unsigned long long flags) {
	return of_driver(DLX_CURRENT(cuMemMap, number(address), size, offset, number(memory), flags));
}

hipError_t hipMemUnmap(void *address, size_t size) { return of_driver(DLX_CURRENT(cuMemUnmap, number(address), size)); }

hipError_t hipMemSetAccess(void *address, size_t size, const void *access, size_t count) {
	return of_driver(DLX_CURRENT(cuMemSetAccess, number(address), size, (const CUmemAccessDesc *)access, count));
}

hipError_t hipMemGetAccess(unsigned long long *flags, const void *location, void *address) {
	return of_driver(DLX_CURRENT(cuMemGetAccess, flags, (const CUmemLocation *)location, number(address)));
}

hipError_t hipMemExportToShareableHandle(void *handle, void *memory, int type, unsigned long long flags) {
	return of_driver(DLX_CURRENT(cuMemExportToShareableHandle, handle, number(memory), (CUmemAllocationHandleType)type, flags));
}

hipError_t hipMemImportFromShareableHandle(void **memory, void *handle, int type) {
	return of_driver(DLX_CURRENT(cuMemImportFromShareableHandle, (CUmemGenericAllocationHandle *)memory, handle, (CUmemAllocationHandleType)type));
}

}
