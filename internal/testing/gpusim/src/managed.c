// managed.c: "Unified Memory", memory that the host and the devices use at the same addresses.
//
// Where DLX_GPUSIM_CONCURRENT is 0, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS is, and the
// devices have all of it for themselves from the first work until a caller learns that none is
// left ("Coherency and Concurrency": the host faults there meanwhile).

#include "core.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool taken;  // by the devices

static void protect(int protection) {
    for (sim_range *r = sim_range_next(NULL); r; r = sim_range_next(r))
        if (r->kind == SIM_RANGE_MANAGED)
            mprotect((void *)r->address, sim_pages(r->size), protection);
}

void sim_managed_take(void) {
    if (sim.concurrent || taken) return;
    taken = true;
    protect(PROT_NONE);
}

void sim_managed_settle(void) {
    if (!taken) return;
    for (const sim_context *c = sim.contexts; c; c = c->next)
        for (const sim_stream *s = c->streams; s; s = s->next)
            if (s->head) return;
    taken = false;
    protect(PROT_READ | PROT_WRITE);
}

// map_twice maps fresh memory for the host, and for the simulator.
static bool map_twice(size_t size, void **host, void **work) {
    int fd = memfd_create("dlx-gpusim-managed", MFD_CLOEXEC);
    if (fd < 0) return false;
    bool room = ftruncate(fd, (off_t)size) == 0;
    const int both = PROT_READ | PROT_WRITE;
    *host = room ? mmap(NULL, size, taken ? PROT_NONE : both, MAP_SHARED, fd, 0) : MAP_FAILED;
    *work = room ? mmap(NULL, size, both, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (*host != MAP_FAILED && *work != MAP_FAILED) return true;
    if (*host != MAP_FAILED) munmap(*host, size);
    if (*work != MAP_FAILED) munmap(*work, size);
    return false;
}

static void unmap(const sim_range *r) {
    munmap((void *)r->address, sim_pages(r->size));
    munmap(r->work, sim_pages(r->size));
}

CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned flags) {
    ENTER(cuMemAllocManaged, SIM_CONTEXT | SIM_UNSAFE);
    if (out == NULL || bytes == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    void *host, *work;
    if (bytes > PTRDIFF_MAX - SIM_PAGE || !map_twice(sim_pages(bytes), &host, &work))
        return CUDA_ERROR_OUT_OF_MEMORY;
    memset(work, SIM_FRESH, bytes);
    const sim_range range = {
        .address = (uintptr_t)host,
        .size = bytes,
        .work = work,
        .kind = SIM_RANGE_MANAGED,
        .device = scope.ctx->device,
        .ctx = scope.ctx,
        .active = true,
    };
    if (sim_range_add(&range) == NULL) {
        unmap(&range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_live(SIM_MANAGED_ALLOCATIONS, 1);
    *out = range.address;
    return CUDA_SUCCESS;
}

void sim_managed_end(sim_range *r) {
    unmap(r);
    sim_live(SIM_MANAGED_ALLOCATIONS, -1);
    sim_range_remove(r);
}
