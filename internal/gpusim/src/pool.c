// pool.c: memory in stream order (Stream Ordered Memory Allocator). Memory is there once
// the stream has come to its allocation, and gone once a stream has come to its release.

#include "core.h"

#include <stdlib.h>
#include <string.h>

// What a pool has of its device is used, or idle: given back to it, and kept for its next
// allocation. Idle memory has no place, since a place is not given out again soon.
struct sim_pool {
    sim_device *device;
    CUmemoryPool handle;
    sim_pool *next;  // of all
    size_t used, idle;
    size_t used_high, reserved_high;
    size_t threshold, most;
    int reuse[3];        // CU_MEMPOOL_ATTR_REUSE_*, which change nothing here
    bool own;            // of the device: not destroyed by users
    size_t allocations;  // that are not given back yet
    bool destroyed;      // goes with the last of them
    uint32_t access;     // bit d: device d may use its memory
};

static sim_pool *pools;

// let_go gives idle memory back to the device until only `keep` bytes are reserved.
static void let_go(sim_pool *p, size_t keep) {
    size_t reserved = p->used + p->idle;
    size_t n = reserved <= keep ? 0 : reserved - keep < p->idle ? reserved - keep : p->idle;
    p->idle -= n;
    p->device->used -= n;
}

// "When more than the release threshold bytes of memory are held by the memory pool, the allocator
// will try to release memory back to the OS on the next call to stream, event or context
// synchronize."
void sim_pools_settle(void) {
    for (sim_pool *p = pools; p; p = p->next) let_go(p, p->threshold);
}

static sim_pool *pool_new(sim_device *d, size_t most) {
    sim_pool *p = calloc(1, sizeof *p);
    if (p == NULL) return NULL;
    p->device = d;
    p->most = most;
    p->access = 1u << d->ordinal;
    for (int i = 0; i < 3; i++) p->reuse[i] = 1;
    p->handle = sim_handle_new(SIM_POOLS, p);
    if (p->handle == NULL) {
        free(p);
        return NULL;
    }
    p->next = pools;
    pools = p;
    return p;
}

static sim_pool *default_pool(sim_device *d) {
    if (d->default_pool == NULL) d->default_pool = pool_new(d, 0);
    if (d->default_pool) d->default_pool->own = true;
    return d->default_pool;
}

// The header of CUDA 12.0 and 12.1 calls maxSize reserved.
static size_t limit_of(const CUmemPoolProps *props) {
#if CUDA_VERSION < 12020
    size_t limit;
    memcpy(&limit, props->reserved, sizeof limit);
    return limit;
#else
    return props->maxSize;
#endif
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
    ENTER(cuMemPoolCreate, SIM_INIT);
    if (out == NULL || props == NULL || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    sim_device *d = sim_device_get(props->location.id);
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    sim_pool *p = pool_new(d, limit_of(props));
    if (p == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_live(SIM_POOLS, 1);
    *out = p->handle;
    return CUDA_SUCCESS;
}

// "released automatically once there are no more outstanding allocations"
static void drop(sim_pool *p) {
    if (!p->destroyed || p->allocations != 0) return;
    let_go(p, 0);
    for (sim_pool **at = &pools; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    free(p);
}

CUmemoryPool sim_pool_handle(const sim_pool *p) { return p->destroyed ? NULL : p->handle; }

void sim_pool_end(sim_range *r) {
    sim_pool *p = r->owner;
    p->used -= r->size;
    p->allocations--;
    sim_device_give(p->device, r->address - p->device->base, r->size);
    p->idle += r->size;  // the place goes, its bytes stay with the pool
    p->device->used += r->size;
    sim_range_remove(r);
    drop(p);
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool) {
    ENTER(cuMemPoolDestroy, SIM_INIT | SIM_RELEASE);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL || p->own) return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < sim.device_count; i++)
        if (sim.devices[i].current_pool == p)
            sim.devices[i].current_pool = NULL;  // the default one again
    sim_handle_drop(pool);
    sim_live(SIM_POOLS, -1);
    p->destroyed = true;
    drop(p);
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
    switch ((int)name) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        p->reuse[name - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        p->threshold = *(cuuint64_t *)value;
        return CUDA_SUCCESS;
    }
    // "It is illegal to set this attribute to a non-zero value", and the present amounts are not
    // set at all.
    if (*(cuuint64_t *)value != 0) return CUDA_ERROR_INVALID_VALUE;
    switch ((int)name) {
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: p->used_high = p->used; return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        p->reserved_high = p->used + p->idle;
        return CUDA_SUCCESS;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute name, void *value) {
    ENTER(cuMemPoolGetAttribute, SIM_INIT);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL || value == NULL) return CUDA_ERROR_INVALID_VALUE;
    switch ((int)name) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        *(int *)value = p->reuse[name - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)value = p->threshold; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)value = p->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)value = p->used_high; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)value = p->used + p->idle; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)value = p->reserved_high; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
    ENTER(cuMemPoolSetAccess, SIM_INIT);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL || (map == NULL && count != 0)) return CUDA_ERROR_INVALID_VALUE;
    uint32_t access = p->access;
    for (size_t i = 0; i < count; i++) {
        sim_device *d = map[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE
                            ? sim_device_get(map[i].location.id)
                            : NULL;
        if (d == NULL || (d != p->device && !sim_device_reaches(d, p->device)))
            return CUDA_ERROR_INVALID_DEVICE;
        uint32_t bit = 1u << d->ordinal;
        if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            access |= bit;
        else if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && d != p->device)
            access &= ~bit;
        else
            return CUDA_ERROR_INVALID_VALUE;  // the device of the pool keeps its access
    }
    p->access = access;
    for (sim_range *r = sim_range_next(NULL); r; r = sim_range_next(r))
        if (r->kind == SIM_RANGE_POOL && r->owner == p) r->access = access;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
                                    CUmemLocation *location) {
    ENTER(cuMemPoolGetAccess, SIM_INIT);
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL || flags == NULL || location == NULL || sim_device_get(location->id) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = p->access & 1u << location->id ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                            : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool) {
    ENTER(cuDeviceSetMemPool, SIM_INIT);
    sim_device *d = sim_device_get(device);
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    sim_pool *p = sim_handle_get(SIM_POOLS, pool, scope.call);
    if (p == NULL || p->device != d) return CUDA_ERROR_INVALID_VALUE;
    d->current_pool = p;
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
                        sim_stream *s, CUgraphNodeType node) {
    sim_op *op = sim_op_new(scope->call, sizeof(struct change), run);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    ((struct change *)op->payload)->address = address;
    op->node = node;
    op->always = true;
    return sim_enqueue(s, op);
}

static CUresult take(const sim_scope *scope, CUdeviceptr *out, size_t bytes, sim_pool *p,
                     CUstream stream) {
    CUresult r;
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(scope, stream, &r);
    if (s == NULL) return r;
    if (sim_capture_refuses(s)) return CUDA_ERROR_NOT_SUPPORTED;
    if (bytes == 0) {
        *out = 0;
        return CUDA_SUCCESS;
    }
    if (p->most && bytes > p->most - p->used) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_device *d = p->device;
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
        .access = p->access,
        .owner = p,
    };
    if (sim_range_add(&range) == NULL) {
        sim_device_give(d, offset, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    p->allocations++;
    p->used += bytes;
    r = enqueue(scope, range.address, begin, s, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    if (r != CUDA_SUCCESS) {
        sim_pool_end(sim_range_find(range.address));
        return r;
    }
    if (p->used > p->used_high) p->used_high = p->used;
    if (p->used + p->idle > p->reserved_high) p->reserved_high = p->used + p->idle;
    sim_live(SIM_ASYNC_ALLOCATIONS, 1);
    *out = range.address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
    ENTER(cuMemAllocAsync, SIM_CONTEXT);
    sim_device *d = scope.ctx->device;
    sim_pool *p = d->current_pool ? d->current_pool : default_pool(d);
    return p ? take(&scope, out, bytes, p, stream) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool,
                                         CUstream stream) {
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
    if (sim_capture_refuses(s)) return CUDA_ERROR_NOT_SUPPORTED;
    r = enqueue(&scope, p, end, s, CU_GRAPH_NODE_TYPE_MEM_FREE);
    if (r != CUDA_SUCCESS) return r;
    range->holds = 1;  // a second release finds it
    sim_live(SIM_ASYNC_ALLOCATIONS, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}
