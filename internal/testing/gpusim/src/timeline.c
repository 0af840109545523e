// timeline.c: simulated timeline semaphores of a Vulkan driver, and the calls by which a
// test plays that driver.

#include "sharing.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct sim_timeline {
    uint8_t magic[8];
    _Atomic uint64_t value;
};

static const uint8_t magic[8] = "dlxtime";

CUresult sim_timeline_map(int fd, sim_timeline **out) {
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0) return CUDA_ERROR_INVALID_VALUE;
    // A file that may still be cut short would end the process at an access.
    int seals = S_ISREG(st.st_mode) ? fcntl(fd, F_GET_SEALS) : -1;
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || st.st_size != SIM_PAGE)
        return CUDA_ERROR_OPERATING_SYSTEM;
    sim_timeline *t = mmap(NULL, SIM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (t == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    if (memcmp(t->magic, magic, sizeof magic) != 0) {
        sim_timeline_unmap(t);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    *out = t;
    return CUDA_SUCCESS;
}

void sim_timeline_unmap(sim_timeline *timeline) { munmap(timeline, SIM_PAGE); }

uint64_t sim_timeline_value(const sim_timeline *timeline) { return atomic_load(&timeline->value); }

bool sim_timeline_raise(sim_timeline *timeline, uint64_t value) {
    uint64_t old = atomic_load(&timeline->value);
    while (old < value)
        if (atomic_compare_exchange_weak(&timeline->value, &old, value)) return true;
    return false;
}

// ---- For tests. None of these takes the simulator's lock; the results are CUresults. ----

// dlx_gpusim_timeline_new returns a descriptor of a new timeline at 0, the caller's; -1 on
// failure.
SIM_API int dlx_gpusim_timeline_new(void) {
    int fd = memfd_create("dlx simulated timeline semaphore", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (ftruncate(fd, SIM_PAGE) != 0 || pwrite(fd, magic, sizeof magic, 0) != sizeof magic ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

SIM_API int dlx_gpusim_timeline_value(int fd, uint64_t *value) {
    sim_timeline *t;
    CUresult r = sim_timeline_map(fd, &t);
    if (r != CUDA_SUCCESS) return r;
    *value = sim_timeline_value(t);
    sim_timeline_unmap(t);
    return CUDA_SUCCESS;
}

// dlx_gpusim_timeline_signal refuses a value that is not larger than the present one
// with CUDA_ERROR_INVALID_VALUE.
SIM_API int dlx_gpusim_timeline_signal(int fd, uint64_t value) {
    sim_timeline *t;
    CUresult r = sim_timeline_map(fd, &t);
    if (r != CUDA_SUCCESS) return r;
    bool raised = sim_timeline_raise(t, value);
    sim_timeline_unmap(t);
    return raised ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// dlx_gpusim_timeline_wait waits until the value is there, at most timeout_ms
// milliseconds (negative: for ever); CUDA_ERROR_TIMEOUT when that was not enough.
SIM_API int dlx_gpusim_timeline_wait(int fd, uint64_t value, int timeout_ms) {
    sim_timeline *t;
    CUresult r = sim_timeline_map(fd, &t);
    if (r != CUDA_SUCCESS) return r;
    const struct timespec pause = {.tv_nsec = 50 * 1000};
    uint64_t end = sim_now() + (uint64_t)timeout_ms * 1000000;
    while (sim_timeline_value(t) < value && (timeout_ms < 0 || sim_now() < end))
        nanosleep(&pause, NULL);
    bool there = sim_timeline_value(t) >= value;
    sim_timeline_unmap(t);
    return there ? CUDA_SUCCESS : CUDA_ERROR_TIMEOUT;
}
