// memory.c: the table of addresses, address space, and the memory of devices.

#include "core.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- The table -------------------------------------------------------------------------

static sim_range **ranges;  // by address
static size_t range_count, range_room;
static uint64_t last_id;

// place is the index of the first range that ends after an address.
static size_t place(uintptr_t address) {
    size_t low = 0, high = range_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (ranges[middle]->address + ranges[middle]->size <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

sim_range *sim_range_add(const sim_range *range) {
    if (range_count == range_room) {
        size_t n = range_room ? range_room * 2 : 256;
        sim_range **more = realloc(ranges, n * sizeof *more);
        if (more == NULL) return NULL;
        ranges = more;
        range_room = n;
    }
    sim_range *r = malloc(sizeof *r);
    if (r == NULL) return NULL;
    *r = *range;
    r->id = ++last_id;
    size_t i = place(r->address);
    memmove(ranges + i + 1, ranges + i, (range_count - i) * sizeof *ranges);
    ranges[i] = r;
    range_count++;
    return r;
}

void sim_range_remove(sim_range *range) {
    size_t i = place(range->address);
    memmove(ranges + i, ranges + i + 1, (range_count - i - 1) * sizeof *ranges);
    range_count--;
    free(range);
}

sim_range *sim_range_find(uintptr_t address) {
    size_t i = place(address);
    return i < range_count && ranges[i]->address <= address ? ranges[i] : NULL;
}

sim_range *sim_range_next(const sim_range *after) {
    size_t i = after ? place(after->address) + 1 : 0;
    return i < range_count ? ranges[i] : NULL;
}

sim_range *sim_range_within(uintptr_t address, size_t size) {
    size_t i = place(address);
    return i < range_count && ranges[i]->address - 1 < address + (size - 1) ? ranges[i] : NULL;
}

bool sim_range_on_device(const sim_range *r) {
    return r->kind != SIM_RANGE_HOST && r->kind != SIM_RANGE_REGISTERED &&
           r->kind != SIM_RANGE_TWIN && r->kind != SIM_RANGE_MANAGED;
}

size_t sim_range_room(const sim_range *r, uintptr_t address) {
    uintptr_t end = r->address + r->size;
    if (r->kind == SIM_RANGE_VMM)
        for (const sim_range *n = sim_range_next(r);
             n && n->kind == SIM_RANGE_VMM && n->address == end &&
             n->work == r->work + (end - r->address) && n->device == r->device &&
             n->access == r->access && n->flags == r->flags;
             n = sim_range_next(n))
            end += n->size;
    return end - address;
}

// bytes_of is where bytes of a range are, or NULL unless they lie in it.
static void *bytes_of(const sim_range *r, uintptr_t address, size_t bytes) {
    if (r == NULL || !r->active || bytes > sim_range_room(r, address)) return NULL;
    return r->work + (address - r->address);
}

// granted reports that a device has been given access to a range that has no owner.
static bool granted(const sim_range *r, const sim_device *d, bool write) {
    uint32_t bit = 1u << d->ordinal;
    return (r->access & bit) && !(write && r->kind == SIM_RANGE_VMM && (r->flags & bit));
}

static bool has_access_list(const sim_range *r) {
    return r->kind == SIM_RANGE_VMM || r->kind == SIM_RANGE_POOL;
}

// read_only reports that devices must not write memory of the host.
static bool read_only(const sim_range *r) {
    const bool registered = r->kind == SIM_RANGE_REGISTERED || r->kind == SIM_RANGE_TWIN;
    return registered && (r->flags & CU_MEMHOSTREGISTER_READ_ONLY);
}

bool sim_range_reached(const sim_range *r, const sim_context *ctx, bool write) {
    if (has_access_list(r)) return granted(r, ctx->device, write);
    // "The host address will correspond to an invalid unmapped device address".
    if (r->kind == SIM_RANGE_REGISTERED) return false;
    if (!sim_range_on_device(r)) return sim_host_known(r, ctx) && !(write && read_only(r));
    return r->device == ctx->device || (ctx->peers & 1u << r->device->ordinal);
}

void *sim_translate_from(const sim_context *ctx, uintptr_t address, size_t bytes, bool write) {
    sim_range *r = sim_range_find(address);
    return r && sim_range_reached(r, ctx, write) ? bytes_of(r, address, bytes) : NULL;
}

void *sim_translate_copy(const sim_context *ctx, uintptr_t address, size_t bytes, bool write) {
    sim_range *r = sim_range_find(address);
    if (r && r->kind == SIM_RANGE_REGISTERED && sim_host_known(r, ctx))
        return write && read_only(r) ? NULL : bytes_of(r, address, bytes);
    return sim_translate_from(ctx, address, bytes, write);
}

void *sim_translate_at_home(uintptr_t address, size_t bytes, bool write) {
    sim_range *r = sim_range_find(address);
    if (r && has_access_list(r) && !granted(r, r->device, write)) return NULL;
    return bytes_of(r, address, bytes);
}

bool sim_host_known(const sim_range *r, const sim_context *ctx) {
    bool registered = r->kind == SIM_RANGE_REGISTERED || r->kind == SIM_RANGE_TWIN;
    return !registered || r->ctx == ctx || (r->flags & CU_MEMHOSTREGISTER_PORTABLE);
}

// ---- Address space ---------------------------------------------------------------------

size_t sim_pages(size_t bytes) { return (bytes + SIM_PAGE - 1) / SIM_PAGE * SIM_PAGE; }

uintptr_t sim_reserve(size_t bytes, size_t alignment) {
    if (alignment < SIM_PAGE) alignment = SIM_PAGE;
    if (bytes > PTRDIFF_MAX - SIM_PAGE || alignment > PTRDIFF_MAX - SIM_PAGE - bytes) return 0;
    bytes = sim_pages(bytes);
    uint8_t *p = mmap(NULL, bytes + alignment, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return 0;
    uintptr_t start = ((uintptr_t)p + alignment - 1) / alignment * alignment;
    size_t before = start - (uintptr_t)p, after = alignment - before;
    if (before) munmap(p, before);
    if (after) munmap((void *)(start + bytes), after);
    return start;
}

void sim_unreserve(uintptr_t address, size_t bytes) { munmap((void *)address, sim_pages(bytes)); }

CUresult sim_map_external(int fd, uint64_t offset, size_t size, sim_range_kind kind,
                          sim_context *ctx, void *owner, sim_range **out) {
    uint64_t low = offset / SIM_PAGE * SIM_PAGE, distance = offset - low;
    size_t whole = sim_pages(distance + size);
    uint8_t *work = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)low);
    if (work == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    uintptr_t address = sim_reserve(whole, 0);
    sim_range r = {
        .address = address + distance,
        .size = size,
        .work = work + distance,
        .kind = kind,
        .device = ctx->device,
        .ctx = ctx,
        .active = true,
        .owner = owner,
        .mapped = work,
        .reserved = address,
        .mapped_size = whole,
    };
    *out = address ? sim_range_add(&r) : NULL;
    if (*out) return CUDA_SUCCESS;
    if (address) sim_unreserve(address, whole);
    munmap(work, whole);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_unmap_external(sim_range *range) {
    munmap(range->mapped, range->mapped_size);
    sim_unreserve(range->reserved, range->mapped_size);
    sim_range_remove(range);
}

// ---- Memory of a device ----------------------------------------------------------------

// region is how much of a device's addresses an allocation takes: whole pages, and one more, so that
// it need not begin with the first of them, and what runs over is found.
static size_t region(size_t bytes) { return sim_pages(bytes) + SIM_PAGE; }

static size_t page_of(size_t offset) { return offset / SIM_PAGE * SIM_PAGE; }

// An address is a multiple of 256 and of nothing more, as promised ("Device Memory Accesses").
CUresult sim_device_take(sim_device *d, size_t bytes, size_t *offset) {
    if (bytes > d->memory - d->used) return CUDA_ERROR_OUT_OF_MEMORY;
    for (int around = 0; around < 2; around++) {
        while (d->next + region(bytes) <= d->arena) {
            size_t at = d->next;
            sim_range *there = sim_range_within(d->base + at, region(bytes));
            if (there) {
                d->next = page_of(there->address - d->base) + region(there->size);
                continue;
            }
            d->next = at + region(bytes);
            d->used += bytes;
            *offset = at + (sim.reuse ? 0 : 256 * (1 + 2 * (sim_random() % 8)));
            memset(d->work + *offset, SIM_FRESH, bytes);
            return CUDA_SUCCESS;
        }
        d->next = 0;
    }
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void sim_device_give(sim_device *d, size_t offset, size_t bytes) {
    d->used -= bytes;
    if (sim.reuse) d->next = page_of(offset);
    fallocate(d->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page_of(offset),
              (off_t)region(bytes));
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *out, size_t bytes) {
    ENTER(cuMemAlloc, SIM_CONTEXT | SIM_UNSAFE);
    if (out == NULL || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    sim_device *d = scope.ctx->device;
    size_t offset;
    CUresult r = sim_device_take(d, bytes, &offset);
    if (r != CUDA_SUCCESS) return r;
    sim_range range = {
        .address = d->base + offset,
        .size = bytes,
        .work = d->work + offset,
        .kind = SIM_RANGE_DEVICE,
        .device = d,
        .ctx = scope.ctx,
        .active = true,
    };
    if (sim_range_add(&range) == NULL) {
        sim_device_give(d, offset, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_live(SIM_ALLOCATIONS, 1);
    *out = range.address;
    return CUDA_SUCCESS;
}

void sim_range_end(sim_range *r) {
    switch (r->kind) {
    case SIM_RANGE_DEVICE:
        if (r->holds) sim_ipc_revoke(r);
        sim_device_give(r->device, r->address - r->device->base, r->size);
        sim_live(SIM_ALLOCATIONS, -1);
        sim_range_remove(r);
        break;
    case SIM_RANGE_MANAGED: sim_managed_end(r); break;
    case SIM_RANGE_HOST:
        munmap(r->work, sim_pages(r->size));
        sim_live(SIM_HOST_ALLOCATIONS, -1);
        sim_live(SIM_HOST_BYTES, -(long)r->size);
        sim_range_remove(r);
        break;
    case SIM_RANGE_TWIN: sim_range_end(r->owner); break;
    case SIM_RANGE_REGISTERED: {
        sim_range *twin = r->owner;
        if (twin) {
            sim_unreserve(twin->reserved, twin->mapped_size);
            sim_range_remove(twin);
        }
        sim_live(SIM_REGISTERED_RANGES, -1);
        sim_range_remove(r);
        break;
    }
    case SIM_RANGE_EXTERNAL:
        sim_live(SIM_EXTERNAL_BUFFERS, -1);
        sim_unmap_external(r);
        break;
    case SIM_RANGE_IPC: sim_ipc_close(r); break;
    case SIM_RANGE_POOL: sim_pool_end(r); break;
    default:  // of a file that frees it by itself
        r->ctx = NULL;
    }
}

void sim_forget_ranges(sim_context *c) {
    for (size_t i = 0; i < range_count;) {
        if (ranges[i]->ctx != c) {
            i++;
            continue;
        }
        sim_live(SIM_ABANDONED, 1);
        sim_range_end(ranges[i]);
        i = 0;  // more than one may have gone
    }
}

static void wait_device(sim_device *d) {
    for (sim_context *c = sim.contexts; c; c = c->next)
        if (c->device == d) sim_wait_context(c);
}

CUresult CUDAAPI cuMemFree(CUdeviceptr p) {
    ENTER(cuMemFree, SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE | SIM_DRAINS);
    if (p == 0) return SIM_RESULT(CUDA_SUCCESS);
    sim_range *r = sim_range_find(p);
    // "will not perform any implicit synchronization when the pointer was allocated with
    // cuMemAllocAsync".
    if (r && r->address == p && r->kind != SIM_RANGE_POOL) wait_device(r->device);
    r = sim_range_find(p);
    if (r == NULL || r->address != p || (r->kind == SIM_RANGE_POOL && r->holds)) {
        sim_misuse(scope.call, "%p is no allocation, or was freed", (void *)p);
        return CUDA_ERROR_INVALID_VALUE;
    }
    switch ((int)r->kind) {
    case SIM_RANGE_POOL: sim_live(SIM_ASYNC_ALLOCATIONS, -1); break;
    case SIM_RANGE_DEVICE:
    case SIM_RANGE_MANAGED:
    case SIM_RANGE_EXTERNAL: break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    sim_range_end(r);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemGetInfo(size_t *available, size_t *total) {
    ENTER(cuMemGetInfo, SIM_CONTEXT);
    sim_device *d = scope.ctx->device;
    if (available) *available = d->memory - d->used;
    if (total) *total = d->memory;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr p) {
    ENTER(cuMemGetAddressRange, SIM_CONTEXT);
    sim_range *r = sim_range_find(p);
    if (r == NULL || r->kind == SIM_RANGE_POOL ||
        (!sim_range_on_device(r) && r->kind != SIM_RANGE_MANAGED))
        return CUDA_ERROR_NOT_FOUND;
    if (base) *base = r->address;
    if (size) *size = r->size;
    return CUDA_SUCCESS;
}
