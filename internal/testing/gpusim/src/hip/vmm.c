// vmm.c: memory without an address, addresses without memory, and what brings both together; since 6.0, where the
// structures are those of CUDA.

#include "hip.h"

#include <unistd.h>

// properties is hipMemAllocationProp since 6.0. Libraries of 5.x have the functions, but no devices that support them.
struct properties {
    int type, handle_type;
    hipMemLocation location;
    void *windows;
    struct {
        unsigned char compression, rdma;
        unsigned short usage;
    } flags;
};
_Static_assert(sizeof(struct properties) == sizeof(CUmemAllocationProp) &&
                   offsetof(struct properties, flags) == offsetof(CUmemAllocationProp, allocFlags),
               "the structure is CUDA's");

// offered reports whether devices have virtual memory management.
static bool offered(void) { return hip_version() >= 6 && sim_environment("DLX_GPUSIM_HIP_VMM", 1, 0, 1); }

#define VMM(name, flags)         \
    HIP_ENTER(name, flags);      \
    if (!offered()) HIP_RETURN(hipErrorNotSupported)

// convert checks what HIP knows of: memory of a device, pinned.
static CUresult convert(const hipMemAllocationProp *from, CUmemAllocationProp *out) {
    const struct properties *p = (const struct properties *)from;
    if (p == NULL || p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->location.type != hipMemLocationTypeDevice ||
        sim_device_get(p->location.id) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->handle_type != 0 && p->handle_type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_NOT_SUPPORTED;
    *out = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = (CUmemAllocationHandleType)p->handle_type,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = p->location.id},
        // Every allocation can be exported as a dma-buf; the engine needs to know it beforehand.
        .allocFlags.gpuDirectRDMACapable = sim.dma_buf && p->handle_type == 0,
    };
    return CUDA_SUCCESS;
}

hipError_t hipMemGetAllocationGranularity(size_t *out, const hipMemAllocationProp *prop, hipMemAllocationGranularity_flags option) {
    VMM(hipMemGetAllocationGranularity, HIP_DEVICE);
    CUmemAllocationProp p;
    CUresult r = convert(prop, &p);
    HIP_RETURN(r == CUDA_SUCCESS ? cuMemGetAllocationGranularity(out, &p, (CUmemAllocationGranularity_flags)option) : r);
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *out, size_t size, const hipMemAllocationProp *prop,
                        unsigned long long flags) {
    VMM(hipMemCreate, HIP_DEVICE);
    CUmemAllocationProp p;
    CUresult r = convert(prop, &p);
    HIP_RETURN(r == CUDA_SUCCESS ? cuMemCreate((CUmemGenericAllocationHandle *)out, size, &p, flags) : r);
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle) {
    VMM(hipMemRelease, HIP_DEVICE | HIP_RELEASE);
    HIP_RETURN(cuMemRelease((CUmemGenericAllocationHandle)(uintptr_t)handle));
}

hipError_t hipMemAddressReserve(void **out, size_t size, size_t alignment, void *address, unsigned long long flags) {
    VMM(hipMemAddressReserve, HIP_DEVICE);
    const size_t granularity = 2 << 20;
    if (out == NULL || flags != 0) HIP_RETURN(hipErrorInvalidValue);
    if (size == 0 || size % granularity || (alignment & (alignment - 1))) HIP_RETURN(hipErrorOutOfMemory);
    HIP_RETURN(cuMemAddressReserve((CUdeviceptr *)out, size, alignment, (CUdeviceptr)address, 0));
}

hipError_t hipMemAddressFree(void *p, size_t size) {
    VMM(hipMemAddressFree, HIP_DEVICE | HIP_RELEASE);
    HIP_RETURN(cuMemAddressFree((CUdeviceptr)p, size));
}

hipError_t hipMemMap(void *p, size_t size, size_t offset, hipMemGenericAllocationHandle_t handle, unsigned long long flags) {
    VMM(hipMemMap, HIP_DEVICE);
    HIP_RETURN(cuMemMap((CUdeviceptr)p, size, offset, (CUmemGenericAllocationHandle)(uintptr_t)handle, flags));
}

// AMD's runtime waits for the null stream of the device, which no section promises.
hipError_t hipMemUnmap(void *p, size_t size) {
    VMM(hipMemUnmap, HIP_DEVICE | HIP_RELEASE);
    HIP_RETURN(cuMemUnmap((CUdeviceptr)p, size));
}

hipError_t hipMemSetAccess(void *p, size_t size, const hipMemAccessDesc *desc, size_t n) {
    VMM(hipMemSetAccess, HIP_DEVICE);
    for (size_t i = 0; desc && i < n; i++)
        if (sim_device_get(desc[i].location.id) == NULL) HIP_RETURN(hipErrorInvalidValue);
    HIP_RETURN(cuMemSetAccess((CUdeviceptr)p, size, (const CUmemAccessDesc *)desc, n));
}
_Static_assert(sizeof(hipMemAccessDesc) == sizeof(CUmemAccessDesc), "the structure is CUDA's");

hipError_t hipMemGetAccess(unsigned long long *out, const hipMemLocation *location, void *p) {
    VMM(hipMemGetAccess, HIP_DEVICE);
    HIP_RETURN(cuMemGetAccess(out, (const CUmemLocation *)location, (CUdeviceptr)p));
}

// Before 7.15 (there are builds of 7.14 with and without both corrections) the handle is not counted, so that whoever
// releases it takes the library's own reference, and the function crashes for memory that is not mapped (hip_vm.cpp of
// rocm-systems, and its history).
hipError_t hipMemRetainAllocationHandle(hipMemGenericAllocationHandle_t *out, void *p) {
    VMM(hipMemRetainAllocationHandle, HIP_DEVICE);
    CUresult r = cuMemRetainAllocationHandle((CUmemGenericAllocationHandle *)out, p);
    if (hip_runtime_version() >= 71500000) HIP_RETURN(r);
    if (r == CUDA_SUCCESS) {
        cuMemRelease(*(CUmemGenericAllocationHandle *)out);
    } else {
        pthread_mutex_lock(&sim.mu);
        sim_misuse(scope.call, "%p is not mapped: libraries before 7.15 crash for other memory of HIP", p);
        pthread_mutex_unlock(&sim.mu);
    }
    HIP_RETURN(r);
}

hipError_t hipMemExportToShareableHandle(void *out, hipMemGenericAllocationHandle_t handle, hipMemAllocationHandleType type,
                                         unsigned long long flags) {
    VMM(hipMemExportToShareableHandle, HIP_DEVICE);
    HIP_RETURN(cuMemExportToShareableHandle(out, (CUmemGenericAllocationHandle)(uintptr_t)handle,
                                            (CUmemAllocationHandleType)type, flags));
}

// Before 7.1 the argument points to the descriptor, since then it is the descriptor, as in CUDA. It stays the caller's.
hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *out, void *shared, hipMemAllocationHandleType type) {
    VMM(hipMemImportFromShareableHandle, HIP_DEVICE);
    const bool by_value = hip_runtime_version() >= 70100000;
    if (out == NULL || (shared == NULL && !by_value)) HIP_RETURN(hipErrorInvalidValue);
    if (!by_value) {
        if ((uintptr_t)shared < SIM_PAGE) {  // where the library would crash
            pthread_mutex_lock(&sim.mu);
            sim_misuse(scope.call, "%p is a descriptor; before 7.1 the argument points to one", shared);
            pthread_mutex_unlock(&sim.mu);
            HIP_RETURN(hipErrorInvalidValue);
        }
        shared = (void *)(intptr_t)*(int *)shared;
    }
    CUresult r = cuMemImportFromShareableHandle((CUmemGenericAllocationHandle *)out, shared, (CUmemAllocationHandleType)type);
    HIP_RETURN(r == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_INVALID_VALUE : r);
}

// ---- DMA-BUFs --------------------------------------------------------------------------

// As in CUDA; every allocation that has no other type of handle can be exported.
static hipError_t range_handle(void *out, hipDeviceptr_t p, size_t size, int type, unsigned long long flags) {
    HIP_ENTER(hipMemGetHandleForAddressRange, HIP_DEVICE);
    HIP_RETURN(cuMemGetHandleForAddressRange(out, (CUdeviceptr)p, size, (CUmemRangeHandleType)type, flags));
}
HIP_SINCE(7, hipMemGetHandleForAddressRange, range_handle);

// hsa_ext_amd.h, since ROCm 5.3: libamdhip64 depends on the library that has these, so dlsym finds them by it. offset is
// where the memory begins in the dma-buf. On cards all memory of a device can be exported; here it is that of hipMemCreate.
enum { HSA_ERROR = 0x1000, HSA_INVALID_ARGUMENT = 0x1001, HSA_INVALID_ALLOCATION = 0x1002 };
static int portable_export(const void *p, size_t size, int *out, uint64_t *offset) {
    hip_scope scope __attribute__((cleanup(hip_leave))) = hip_enter("hsa_amd_portable_export_dmabuf", HIP_DEVICE);
    if (scope.result != hipSuccess) return HSA_ERROR;
    if (p == NULL || size == 0 || out == NULL || offset == NULL) return HSA_INVALID_ARGUMENT;
    if (!offered()) return HSA_INVALID_ALLOCATION;
    CUresult r = cuMemGetHandleForAddressRange(out, (CUdeviceptr)p, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
    if (r == CUDA_SUCCESS) *offset = 0;
    return r == CUDA_SUCCESS ? 0 : r == CUDA_ERROR_OPERATING_SYSTEM ? HSA_ERROR : HSA_INVALID_ALLOCATION;
}
HIP_SINCE(6, hsa_amd_portable_export_dmabuf, portable_export);

// HSA_AMD_SYSTEM_INFO_DMABUF_SUPPORTED, a bool.
static int system_info(unsigned which, void *value) {
    if (which != 0x204 || value == NULL) return HSA_INVALID_ARGUMENT;
    *(bool *)value = offered() && sim.dma_buf;
    return 0;
}
HIP_SINCE(6, hsa_system_get_info, system_info);

static int portable_close(int fd) { return close(fd) == 0 ? 0 : HSA_INVALID_ARGUMENT; }
HIP_SINCE(6, hsa_amd_portable_close_dmabuf, portable_close);
