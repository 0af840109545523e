// hostmem.c: memory of the host that devices reach.

#include "core.h"

#include <stddef.h>

static CUresult alloc(const sim_scope *scope, void **out, size_t bytes, unsigned flags) {
    const unsigned known = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (out == NULL || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    uintptr_t p;
    CUresult r = sim_host_take(scope->ctx, bytes, SIM_RANGE_HOST, flags, &p);
    if (r == CUDA_SUCCESS) *out = (void *)p;
    return r;
}

CUresult CUDAAPI cuMemHostAlloc(void **out, size_t bytes, unsigned flags) {
    ENTER(cuMemHostAlloc, SIM_CONTEXT | SIM_UNSAFE);
    return alloc(&scope, out, bytes, flags);
}

CUresult CUDAAPI cuMemAllocHost(void **out, size_t bytes) {
    ENTER(cuMemAllocHost, SIM_CONTEXT | SIM_UNSAFE);
    return alloc(&scope, out, bytes, 0);
}

CUresult CUDAAPI cuMemFreeHost(void *p) {
    ENTER(cuMemFreeHost, SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (r == NULL || r->address != (uintptr_t)p || r->kind != SIM_RANGE_HOST) {
        sim_misuse(scope.call, "%p is no allocation of cuMemHostAlloc, or was freed", p);
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (sim_context *c = sim.contexts; c; c = c->next) sim_wait_context(c);
    r = sim_range_find((uintptr_t)p);
    if (r == NULL || r->address != (uintptr_t)p || r->kind != SIM_RANGE_HOST) return CUDA_ERROR_INVALID_VALUE;  // freed meanwhile
    sim_range_end(r);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemHostRegister(void *p, size_t bytes, unsigned flags) {
    ENTER(cuMemHostRegister, SIM_CONTEXT | SIM_UNSAFE);
    const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (p == NULL || bytes == 0 || bytes - 1 > UINTPTR_MAX - (uintptr_t)p || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    if (sim_range_within((uintptr_t)p, bytes)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    sim_range range = {
        .address = (uintptr_t)p, .size = bytes, .work = p, .kind = SIM_RANGE_REGISTERED, .device = scope.ctx->device, .ctx = scope.ctx,
        .flags = flags, .active = true,
    };
    if (sim_range_add(&range) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_live(SIM_REGISTERED_RANGES, 1);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostUnregister(void *p) {
    ENTER(cuMemHostUnregister, SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (r == NULL || r->address != (uintptr_t)p || r->kind != SIM_RANGE_REGISTERED) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    sim_range_end(r);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned flags) {
    ENTER(cuMemHostGetDevicePointer, SIM_CONTEXT);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (out == NULL || flags != 0 || r == NULL || sim_range_on_device(r)) return CUDA_ERROR_INVALID_VALUE;
    *out = (CUdeviceptr)p;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostGetFlags(unsigned *out, void *p) {
    ENTER(cuMemHostGetFlags, SIM_CONTEXT);
    sim_range *r = sim_range_find((uintptr_t)p);
    if (out == NULL || r == NULL || r->kind != SIM_RANGE_HOST) return CUDA_ERROR_INVALID_VALUE;
    *out = r->flags | CU_MEMHOSTALLOC_DEVICEMAP;  // with unified addresses all of it is mapped
    return CUDA_SUCCESS;
}
