// hostmem.c: memory of the host that devices reach.

#include "core.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static CUresult alloc(const sim_scope *scope, void **out, size_t bytes, unsigned flags) {
    const unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (out == NULL || bytes == 0 || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    if (bytes > PTRDIFF_MAX - SIM_PAGE) return CUDA_ERROR_OUT_OF_MEMORY;
    void *p =
        mmap(NULL, sim_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    memset(p, SIM_FRESH, bytes);
    const sim_range range = {
        .address = (uintptr_t)p,
        .size = bytes,
        .work = p,
        .kind = SIM_RANGE_HOST,
        .device = scope->ctx->device,
        .ctx = scope->ctx,
        .flags = flags,
        .active = true,
    };
    if (sim_range_add(&range) == NULL) {
        munmap(p, sim_pages(bytes));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_live(SIM_HOST_ALLOCATIONS, 1);
    sim_live(SIM_HOST_BYTES, (long)bytes);
    *out = p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    ENTER(cuMemHostAlloc, SIM_CONTEXT | SIM_UNSAFE);
    return alloc(&scope, out, bytes, flags);
}

// What is freed is not waited for: no section says so, and work that comes too late fails.
CUresult CUDAAPI cuMemFreeHost(void *p) {
    ENTER(cuMemFreeHost, SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE | SIM_DRAINS);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (r == NULL || r->address != (uintptr_t)p || r->kind != SIM_RANGE_HOST) {
        sim_misuse(scope.call, "%p is no allocation of cuMemHostAlloc, or was freed", p);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_range_end(r);
    return SIM_RESULT(CUDA_SUCCESS);
}

// mapped reports that the host can read all of a range, and also write it if write is true.
static bool mapped(uintptr_t address, size_t size, bool write) {
    FILE *maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) return false;
    char line[4352];
    uintptr_t low, high;
    char mode[2];
    while (size > 0 && fgets(line, sizeof line, maps) &&
           sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %2c", &low, &high, mode) == 3) {
        if (high <= address) continue;
        if (low > address || mode[0] != 'r' || (write && mode[1] != 'w')) break;
        size_t part = high - address < size ? high - address : size;
        address += part;
        size -= part;
    }
    fclose(maps);
    return size == 0;
}

// twin_add gives registered memory an address for devices, another one than the host's:
// CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM is 0.
static bool twin_add(sim_range *r) {
    const uintptr_t distance = r->address % SIM_PAGE;
    sim_range twin = *r;
    twin.kind = SIM_RANGE_TWIN;
    twin.owner = r;
    twin.mapped_size = sim_pages(distance + r->size);
    twin.reserved = sim_reserve(twin.mapped_size, 0);
    twin.address = twin.reserved + distance;
    r->owner = twin.reserved ? sim_range_add(&twin) : NULL;
    if (r->owner == NULL && twin.reserved) sim_unreserve(twin.reserved, twin.mapped_size);
    return r->owner != NULL;
}

// Memory is locked by whole pages, so that two ranges may not have one in common. The flag
// CU_MEMHOSTREGISTER_READ_ONLY "is required in order to register memory mapped to the CPU as
// read-only", and makes the memory "read-only by the device". Without
// CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED it fails "with CUDA_ERROR_NOT_SUPPORTED".
CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytes, unsigned flags) {
    ENTER(cuMemHostRegister, SIM_CONTEXT | SIM_UNSAFE);
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                           CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    const uintptr_t at = (uintptr_t)p, first = at / SIM_PAGE * SIM_PAGE;
    if (p == NULL || bytes == 0 || bytes > PTRDIFF_MAX - SIM_PAGE || at > UINTPTR_MAX - bytes ||
        (flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    const bool read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY;
    if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) || (read_only && !sim.read_only_host))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (sim_range_within(first, sim_pages(at - first + bytes)))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!mapped(at, bytes, !read_only)) return CUDA_ERROR_INVALID_VALUE;
    sim_range range = {
        .address = at,
        .size = bytes,
        .work = p,
        .kind = SIM_RANGE_REGISTERED,
        .device = scope.ctx->device,
        .ctx = scope.ctx,
        .flags = flags,
        .active = true,
    };
    sim_range *r = sim_range_add(&range);
    if (r == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if ((flags & CU_MEMHOSTREGISTER_DEVICEMAP) && !twin_add(r)) {
        sim_range_remove(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_live(SIM_REGISTERED_RANGES, 1);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostUnregister(void *p) {
    ENTER(cuMemHostUnregister, SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE | SIM_DRAINS);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (r == NULL || r->address != (uintptr_t)p || r->kind != SIM_RANGE_REGISTERED)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    sim_range_end(r);
    return SIM_RESULT(CUDA_SUCCESS);
}

bool sim_host_for_device(const sim_range *r, const sim_context *c, uintptr_t p, uint64_t *out) {
    const sim_range *twin = r->kind == SIM_RANGE_REGISTERED ? r->owner : r;
    if (twin == NULL || !sim_host_known(twin, c)) return false;
    *out = twin->address + (p - r->address);
    return true;
}

// "cuMemHostGetDevicePointer() will fail if the CU_MEMHOSTALLOC_DEVICEMAP flag was not specified";
// with unified addresses all that was allocated has it ("Unified Addressing").
CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned flags) {
    ENTER(cuMemHostGetDevicePointer, SIM_CONTEXT);
    sim_range *r = sim_range_find((uintptr_t)p);
    uint64_t at;
    if (out == NULL || flags != 0 || r == NULL ||
        (r->kind != SIM_RANGE_HOST && r->kind != SIM_RANGE_REGISTERED) ||
        !sim_host_for_device(r, scope.ctx, (uintptr_t)p, &at))
        return CUDA_ERROR_INVALID_VALUE;
    *out = at;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned *out, void *p) {
    ENTER(cuMemHostGetFlags, SIM_CONTEXT);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (out == NULL || r == NULL || r->kind != SIM_RANGE_HOST) return CUDA_ERROR_INVALID_VALUE;
    *out = r->flags | CU_MEMHOSTALLOC_DEVICEMAP;  // with unified addresses all of it is mapped
    return CUDA_SUCCESS;
}
