// pool.c: memory in stream order (Stream Ordered Memory Allocator). Memory is there once
// the stream has come to its allocation, and gone once a stream has come to its release.

#include "core.h"

#include <stdlib.h>

// A device has one pool. What it has of the device is used, or idle: given back to it, and kept for its next
// allocation. Idle memory has no place, since a place is not given out again soon.
struct sim_pool {
    sim_device *device;
    CUmemoryPool handle;
    size_t used, idle;
};

// let_go gives idle memory back to the device until only `keep` bytes are reserved.
static void let_go(sim_pool *p, size_t keep) {
    size_t reserved = p->used + p->idle;
    size_t n = reserved <= keep ? 0 : reserved - keep < p->idle ? reserved - keep : p->idle;
    p->idle -= n;
    p->device->used -= n;
}

// The threshold is 0: "When more than the release threshold bytes of memory are held by the memory
// pool, the allocator will try to release memory back to the OS on the next call to stream, event
// or context synchronize."
void sim_pools_settle(void) {
    for (int i = 0; i < sim.device_count; i++)
        if (sim.devices[i].pool) let_go(sim.devices[i].pool, 0);
}

// pool_of returns the pool of a device; NULL when memory is out.
static sim_pool *pool_of(sim_device *d) {
    if (d->pool) return d->pool;
    sim_pool *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->device = d;
    p->handle = sim_handle_new(SIM_POOLS, p);
    if (p->handle == NULL) {
        free(p);
        return NULL;
    }
    return d->pool = p;
}

CUmemoryPool sim_pool_handle(const sim_pool *p) { return p->handle; }

void sim_pool_end(sim_range *r) {
    sim_pool *p = r->owner;
    p->used -= r->size;
    sim_device_give(p->device, r->address - p->device->base, r->size);
    p->idle += r->size;  // the place goes, its bytes stay with the pool
    p->device->used += r->size;
    sim_range_remove(r);
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) {
    ENTER(cuDeviceGetDefaultMemPool, SIM_INIT);
    sim_device *d = sim_device_get(device);
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_pool *p = pool_of(d);
    if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = p->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    ENTER(cuMemPoolTrimTo, SIM_INIT);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL) return CUDA_ERROR_INVALID_VALUE;
    let_go(p, keep);
    return CUDA_SUCCESS;
}

struct change {
    uintptr_t address;
};

static CUresult begin(sim_op *op) {
    sim_range *r = sim_range_find(((struct change *)op->payload)->address);
    if (r) r->active = true;
    return CUDA_SUCCESS;
}

static CUresult end(sim_op *op) {
    sim_range *r = sim_range_find(((struct change *)op->payload)->address);
    if (r) sim_pool_end(r);
    return CUDA_SUCCESS;
}

static CUresult enqueue(const sim_scope *scope, uintptr_t address, CUresult (*run)(sim_op *),
                        sim_stream *s) {
    sim_op *op = sim_op_new(scope->call, sizeof(struct change), run);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    ((struct change *)op->payload)->address = address;
    op->always = true;
    return sim_enqueue(s, op);
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
    ENTER(cuMemAllocAsync, SIM_CONTEXT);
    CUresult r;
    sim_device *d = scope.ctx->device;
    sim_pool *p = pool_of(d);
    if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(&scope, stream, &r);
    if (s == NULL) return r;
    if (sim_capture_refuses(s)) return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes == 0) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    size_t offset, again = bytes < p->idle ? bytes : p->idle;
    p->idle -= again;
    d->used -= again;
    r = sim_device_take(d, bytes, &offset);
    if (r != CUDA_SUCCESS) return r;
    sim_range range = {
        .address = d->base + offset,
        .size = bytes,
        .work = d->work + offset,
        .kind = SIM_RANGE_POOL,
        .device = d,
        .access = 1u << d->ordinal,
        .owner = p,
    };
    if (sim_range_add(&range) == NULL) {
        sim_device_give(d, offset, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->used += bytes;
    r = enqueue(&scope, range.address, begin, s);
    if (r != CUDA_SUCCESS) {
        sim_pool_end(sim_range_find(range.address));
        return r;
    }
    sim_live(SIM_ASYNC_ALLOCATIONS, 1);
    *out = range.address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
    ENTER(cuMemFreeAsync, SIM_CONTEXT | SIM_RELEASE);
    CUresult r;
    if (p == 0) return SIM_RESULT(CUDA_SUCCESS);
    sim_range *range = sim_range_find(p);
    if (range == NULL || range->address != p || range->kind != SIM_RANGE_POOL || range->holds) {
        sim_misuse(scope.call, "%p is no allocation of a pool, or was freed", (void *)p);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_stream *s = sim_stream_get(&scope, stream, &r);
    if (s == NULL) return r;
    if (sim_capture_refuses(s)) return CUDA_ERROR_NOT_SUPPORTED;
    r = enqueue(&scope, p, end, s);
    if (r != CUDA_SUCCESS) return r;
    range->holds = 1;  // a second release finds it
    sim_live(SIM_ASYNC_ALLOCATIONS, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}
