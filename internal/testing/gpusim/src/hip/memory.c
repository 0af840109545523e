// memory.c: memory of devices and of the host.

#include "hip.h"

#include <string.h>

// A size of 0 gives NULL, and that is no error.
#define NOTHING(out, bytes)            \
    if ((out) != NULL && (bytes) == 0) { \
        *(out) = NULL;                 \
        HIP_RETURN(hipSuccess);        \
    }

hipError_t hipMalloc(void **out, size_t bytes) {
    HIP_ENTER(hipMalloc, HIP_DEVICE);
    NOTHING(out, bytes);
    HIP_RETURN(cuMemAlloc((CUdeviceptr *)out, bytes));
}

// It waits for all work of the device that has the memory.
hipError_t hipFree(void *p) {
    HIP_ENTER(hipFree, HIP_DEVICE | HIP_RELEASE);
    HIP_RETURN(cuMemFree((CUdeviceptr)p));
}

// asked notes the flags of a call at the memory it made, for the calls that report them.
static void asked(const void *p, unsigned flags) {
    pthread_mutex_lock(&sim.mu);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (r) r->asked = flags;
    pthread_mutex_unlock(&sim.mu);
}

enum {
    HOST_FLAGS = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined,
    REGISTER_READ_ONLY = 8,  // hipHostRegisterReadOnly, since 6.0
};

static CUresult host_alloc(void **out, size_t bytes, unsigned flags) {
    const unsigned known = HOST_FLAGS | hipHostMallocNumaUser | hipHostMallocCoherent | hipHostMallocNonCoherent;
    const unsigned both = hipHostMallocCoherent | hipHostMallocNonCoherent;
    if (flags & ~known || (flags & both) == both) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = cuMemHostAlloc(out, bytes, flags & HOST_FLAGS);
    if (r == CUDA_SUCCESS) asked(*out, flags);
    return r;
}

hipError_t hipHostMalloc(void **out, size_t bytes, unsigned flags) {
    HIP_ENTER(hipHostMalloc, HIP_DEVICE);
    NOTHING(out, bytes);
    HIP_RETURN(host_alloc(out, bytes, flags));
}

// AMD's runtime waits for the device's work; no section promises that, and work that comes too late fails here.
hipError_t hipHostFree(void *p) {
    HIP_ENTER(hipHostFree, HIP_DEVICE | HIP_RELEASE);
    if (p == NULL) HIP_RETURN(hipSuccess);
    HIP_RETURN(cuMemFreeHost(p));
}

hipError_t hipMallocManaged(void **out, size_t bytes, unsigned flags) {
    HIP_ENTER(hipMallocManaged, HIP_DEVICE);
    HIP_RETURN(cuMemAllocManaged((CUdeviceptr *)out, bytes, flags));
}

// HIP knows no memory that is registered for one device: "HIP only supports one context so this is always assumed
// true" (hipHostRegisterPortable), and all of it is mapped. What a device may only read is no feature of AMD's cards.
hipError_t hipHostRegister(void *p, size_t bytes, unsigned flags) {
    HIP_ENTER(hipHostRegister, HIP_DEVICE);
    const unsigned known = hip_version() < 6 ? 7 : 15;
    if (flags & ~known) HIP_RETURN(hipErrorInvalidValue);
    unsigned read_only = flags & REGISTER_READ_ONLY ? CU_MEMHOSTREGISTER_READ_ONLY : 0;
    unsigned io = flags & hipHostRegisterIoMemory ? CU_MEMHOSTREGISTER_IOMEMORY : 0;
    CUresult r = cuMemHostRegister(p, bytes, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | io | read_only);
    if (r == CUDA_SUCCESS) asked(p, flags);
    HIP_RETURN(r);
}

hipError_t hipHostUnregister(void *p) {
    HIP_ENTER(hipHostUnregister, HIP_DEVICE | HIP_RELEASE);
    if (p == NULL) HIP_RETURN(hipErrorInvalidValue);
    HIP_RETURN(cuMemHostUnregister(p));
}

hipError_t hipHostGetDevicePointer(void **out, void *p, unsigned flags) {
    HIP_ENTER(hipHostGetDevicePointer, HIP_DEVICE);
    HIP_RETURN(cuMemHostGetDevicePointer((CUdeviceptr *)out, p, flags));
}

// Only memory that was allocated has flags: "was allocated using hipHostAlloc(), and not hipMalloc()".
hipError_t hipHostGetFlags(unsigned *out, void *p) {
    HIP_ENTER(hipHostGetFlags, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (out == NULL || r == NULL || (r->kind != SIM_RANGE_HOST && r->kind != SIM_RANGE_MANAGED))
        HIP_RETURN(hipErrorInvalidValue);
    *out = r->asked;
    HIP_RETURN(hipSuccess);
}

hipError_t hipMemGetInfo(size_t *available, size_t *total) {
    HIP_ENTER(hipMemGetInfo, HIP_DEVICE);
    HIP_RETURN(cuMemGetInfo(available, total));
}

// Memory of the host has a range, too, by either of its addresses.
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *size, hipDeviceptr_t p) {
    HIP_ENTER(hipMemGetAddressRange, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    const sim_range *r = sim_range_find((uintptr_t)p);
    if (base == NULL || size == NULL) HIP_RETURN(hipErrorInvalidValue);
    if (r == NULL || !r->active) HIP_RETURN(hipErrorNotFound);
    *base = (hipDeviceptr_t)r->address;
    *size = r->size;
    HIP_RETURN(hipSuccess);
}

// ---- What is known of an address -------------------------------------------------------

int hip_memory_type(int kind) {
    // hipMemoryType of 5.x and of 6.0 and later, where it has the numbers of CUDA's runtime.
    static const int old[] = {0, 1, 0}, new[] = {1, 2, 3};
    return (hip_version() < 6 ? old : new)[kind];
}

enum { NO_DEVICE = -2 };

// attributes is hipPointerAttribute_t, whose first member has another name and other values since 6.0.
_Static_assert(sizeof(hipPointerAttribute_t) == 32 && offsetof(hipPointerAttribute_t, devicePointer) == 8,
               "hipPointerAttribute_t of every version");

// describe describes the memory at an address for a device's context.
static bool describe(hipPointerAttribute_t *out, uintptr_t p, const sim_context *ctx) {
    const sim_range *r = sim_range_find(p);
    if (r == NULL || !r->active) return false;
    bool on_device = sim_range_on_device(r), managed = r->kind == SIM_RANGE_MANAGED;
    uint64_t at = p;
    if (!on_device) sim_host_for_device(r, ctx, p, &at);
    bool twin = r->kind == SIM_RANGE_TWIN;
    void *host = twin ? r->work + (p - r->address) : (void *)p;
    *out = (hipPointerAttribute_t){
        .memoryType = hip_memory_type(managed ? HIP_TYPE_MANAGED : on_device ? HIP_TYPE_DEVICE : HIP_TYPE_HOST),
        .device = r->device->ordinal,
        .devicePointer = (void *)at,
        .hostPointer = on_device || (managed && hip_version() >= 6) ? NULL : host,
        .isManaged = managed,
        .allocationFlags = r->asked,
    };
    if (managed) out->hostPointer = host;
    return true;
}

// In 5.x an address that HIP does not know is an error.
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *out, const void *p) {
    HIP_ENTER(hipPointerGetAttributes, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    if (out == NULL || p == NULL) HIP_RETURN(hipErrorInvalidValue);
    if (describe(out, (uintptr_t)p, in.ctx)) HIP_RETURN(hipSuccess);
    if (hip_version() < 6) HIP_RETURN(hipErrorInvalidValue);
    *out = (hipPointerAttribute_t){.device = NO_DEVICE};  // hipMemoryTypeUnregistered is 0
    HIP_RETURN(hipSuccess);
}
