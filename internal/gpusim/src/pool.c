// pool.c: memory in stream order (Stream Ordered Memory Allocator). Memory is there once
// the stream has come to its allocation, and gone once a stream has come to its release.

#include "core.h"

#include <stdlib.h>
#include <string.h>

struct sim_pool {
    sim_device *device;
    CUmemoryPool handle;
    size_t used, high, threshold, most;
    bool own;  // of the device: not destroyed by users
};

static sim_pool *pool_new(sim_device *d, size_t most) {
    sim_pool *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->device = d;
    p->most = most;
    p->handle = sim_handle_new(SIM_POOLS, p);
    return p;
}

static sim_pool *default_pool(sim_device *d) {
    if (d->default_pool == NULL) d->default_pool = pool_new(d, 0);
    if (d->default_pool) d->default_pool->own = true;
    return d->default_pool;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
    ENTER(cuMemPoolCreate, SIM_INIT);
    if (out == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    sim_device *d = sim_device_get(props->location.id);
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    sim_pool *p = pool_new(d, props->maxSize);
    if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_live(SIM_POOLS, 1);
    *out = p->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
    ENTER(cuMemPoolDestroy, SIM_INIT | SIM_RELEASE);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL || p->own) return CUDA_ERROR_INVALID_VALUE;
    if (p->used) sim_misuse(scope.call, "%zu bytes of the pool are in use", p->used);
    sim_handle_drop(pool);
    sim_live(SIM_POOLS, -1);
    free(p);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device) {
    ENTER(cuDeviceGetDefaultMemPool, SIM_INIT);
    sim_device *d = sim_device_get(device);
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_pool *p = default_pool(d);
    if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = p->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device) {
    ENTER(cuDeviceGetMemPool, SIM_INIT);
    sim_device *d = sim_device_get(device);
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    sim_pool *p = d->current_pool ? d->current_pool : default_pool(d);
    if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = p->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute name, void *value) {
    ENTER(cuMemPoolSetAttribute, SIM_INIT);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL || value == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (name == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) p->threshold = *(cuuint64_t *)value;
    if (name == CU_MEMPOOL_ATTR_USED_MEM_HIGH) p->high = p->used;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute name, void *value) {
    ENTER(cuMemPoolGetAttribute, SIM_INIT);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL || value == NULL) return CUDA_ERROR_INVALID_VALUE;
    switch ((int)name) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = p->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = p->high; break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = p->threshold; break;
    default: *(int *)value = 1;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    ENTER(cuMemPoolTrimTo, SIM_INIT);
    (void)keep;  // nothing is kept: what is released goes back at once
    return sim_handle_get(SIM_POOLS, pool, scope.call) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
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
    if (r == NULL) return CUDA_SUCCESS;
    sim_pool *p = r->owner;
    p->used -= r->size;
    sim_device_give(r->device, r->address - r->device->base, r->size);
    sim_range_remove(r);
    return CUDA_SUCCESS;
}

static CUresult enqueue(const sim_scope *scope, uintptr_t address, CUresult (*run)(sim_op *), sim_stream *s, CUgraphNodeType node) {
    sim_op *op = sim_op_new(scope->call, sizeof(struct change), run);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    ((struct change *)op->payload)->address = address;
    op->node = node;
    op->always = true;
    return sim_enqueue(s, op);
}

static CUresult take(const sim_scope *scope, CUdeviceptr *out, size_t bytes, sim_pool *p, CUstream stream) {
    CUresult r;
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(scope, stream, &r);
    if (s == NULL) return r;
    if (s->capture) return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes == 0) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    if (p->most && bytes > p->most - p->used) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_device *d = p->device;
    size_t offset;
    r = sim_device_take(d, bytes, 0, &offset);
    if (r != CUDA_SUCCESS) return r;
    sim_range range = {
        .address = d->base + offset, .size = bytes, .work = d->work + offset, .kind = SIM_RANGE_POOL, .device = d, .access = 1u << d->ordinal, .owner = p,
    };
    if (sim_range_add(&range) == NULL) {
        sim_device_give(d, offset, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->used += bytes;
    if (p->used > p->high) p->high = p->used;
    sim_live(SIM_ASYNC_ALLOCATIONS, 1);
    *out = range.address;
    return enqueue(scope, range.address, begin, s, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
    ENTER(cuMemAllocAsync, SIM_CONTEXT);
    sim_device *d = scope.ctx->device;
    sim_pool *p = d->current_pool ? d->current_pool : default_pool(d);
    return p ? take(&scope, out, bytes, p, stream) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
    ENTER(cuMemAllocFromPoolAsync, SIM_CONTEXT);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    return p ? take(&scope, out, bytes, p, stream) : CUDA_ERROR_INVALID_VALUE;
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
    range->holds = 1;  // a second release finds it
    sim_live(SIM_ASYNC_ALLOCATIONS, -1);
    r = enqueue(&scope, p, end, s, CU_GRAPH_NODE_TYPE_MEM_FREE);
    return SIM_RESULT(r);
}
