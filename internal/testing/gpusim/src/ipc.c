// ipc.c: "Device Management", interprocess handles. A handle names the exporting process and a
// descriptor there, which the importer opens by /proc while that process lives.

#include "core.h"
#include "sharing.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// place is a descriptor of a process. A process id is given out again one day, so the
// time of its start belongs to it; a descriptor too, so the file's number does.
typedef struct {
    int32_t pid;
    int32_t fd;
    uint64_t started;
    uint64_t file;
} place;

typedef struct {
    uint8_t magic[7];
    uint8_t device;     // the ordinal
    place memory;       // the device's memory
    uint32_t registry;  // descriptor of the exporter's registry
    uint32_t slot;      // the allocation's place there
    uint64_t id;        // what stands there while the allocation lives
    uint64_t offset, size;
} memory_handle;

typedef struct {
    uint8_t magic[8];
    place state;
} event_handle;

_Static_assert(sizeof(memory_handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");
_Static_assert(sizeof(event_handle) <= sizeof(CUipcEventHandle), "a handle has 64 bytes");

static const uint8_t memory_magic[7] = "dlxmem" SIM_BRAND;
static const uint8_t event_magic[8] = "dlxevnt" SIM_BRAND;

// process_start returns when a process, which is its first thread, began, in ticks since the
// machine's; 0 when it is gone.
static uint64_t process_start(int pid) {
    char path[48], text[1024];
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", pid, pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    // proc(5): the second field is a name in parentheses that may hold anything, the third
    // the state ('Z' has nothing open any more), the 22nd the time.
    char *at = strrchr(text, ')');
    if (at != NULL && strncmp(at, ") Z", 3) == 0) return 0;
    for (int field = 2; at != NULL && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static bool place_of(int fd, place *out) {
    struct stat st;
    if (fstat(fd, &st) != 0) return false;
    *out =
        (place){.pid = getpid(), .fd = fd, .started = process_start(getpid()), .file = st.st_ino};
    return out->started != 0;
}

// open_there opens a descriptor of another process; -1 when it has no such.
static int open_there(int pid, uint64_t started, int there) {
    char path[48];
    if (process_start(pid) != started) return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, there);
    // Only files in memory are opened: to open a pipe would block.
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return -1;
    return open(path, O_RDWR | O_CLOEXEC);
}

static int open_place(const place *p) {
    struct stat st;
    int fd = open_there(p->pid, p->started, p->fd);
    if (fd >= 0 && (fstat(fd, &st) != 0 || st.st_ino != p->file)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

// ---- Memory ----------------------------------------------------------------------------

// A registry tells other processes which of the exported allocations are alive: the id of one
// stands in a slot from its first export to its cuMemFree. They tell there that they have it open.
enum { slots = 4096 };

typedef struct {
    uint8_t magic[8];
    _Atomic uint64_t live[slots];
    _Atomic uint64_t opener[slots];  // the newest process that has it open: see opener_of
} registry;

static const uint8_t registry_magic[8] = "dlxipcr";
static registry *exports;
static int exports_fd = -1;

static registry *registry_map(int fd) {
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size != sizeof(registry) ||
        !(fcntl(fd, F_GET_SEALS) & F_SEAL_SHRINK))
        return NULL;
    registry *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return r == MAP_FAILED ? NULL : r;
}

static bool registry_open(void) {
    if (exports != NULL) return true;
    int fd = memfd_create("dlx simulated IPC registry", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return false;
    if (ftruncate(fd, sizeof(registry)) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
        (exports = registry_map(fd)) == NULL) {
        close(fd);
        return false;
    }
    memcpy(exports->magic, registry_magic, sizeof registry_magic);
    exports_fd = fd;
    return true;
}

// slot_of finds what stands in the registry: an id, or 0 for a free slot. `slots` if nothing does.
static unsigned slot_of(uint64_t id) {
    unsigned i = 0;
    while (i < slots && atomic_load(&exports->live[i]) != id) i++;
    return i;
}

// opener_of is a process and, since its number is given out again one day, a part of when it began.
static uint64_t opener_of(int pid) { return (uint64_t)pid << 32 | (uint32_t)process_start(pid); }

void sim_ipc_revoke(const sim_range *range) {
    unsigned i = exports ? slot_of(range->id) : slots;
    if (i == slots) return;
    uint64_t opener = atomic_exchange(&exports->opener[i], 0);
    // "Calling cuMemFree on an exported memory region before calling cuIpcCloseMemHandle in the
    // importing context will result in undefined behavior."
    if (opener != 0 && opener == opener_of((int)(opener >> 32)))
        sim_misuse("cuMemFree", "process %d has the memory open", (int)(opener >> 32));
    atomic_store(&exports->live[i], 0);
}

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *out, CUdeviceptr ptr) {
    ENTER(cuIpcGetMemHandle, SIM_CONTEXT);
    sim_range *range = sim_range_find(ptr);
    // "a pointer to the base of an existing device memory allocation created with cuMemAlloc"
    if (out == NULL || range == NULL || range->kind != SIM_RANGE_DEVICE || range->address != ptr)
        return CUDA_ERROR_INVALID_VALUE;
    memory_handle h = {
        .device = (uint8_t)range->device->ordinal,
        .id = range->id,
        .offset = range->address - range->device->base,
        .size = range->size,
    };
    memcpy(h.magic, memory_magic, sizeof h.magic);
    if (!registry_open() || !place_of(range->device->memory_fd, &h.memory))
        return CUDA_ERROR_OUT_OF_MEMORY;
    h.registry = (uint32_t)exports_fd;
    h.slot = slot_of(range->id);
    if (h.slot == slots) {
        h.slot = slot_of(0);
        if (h.slot == slots) return CUDA_ERROR_OUT_OF_MEMORY;
        atomic_store(&exports->live[h.slot], range->id);
        range->holds++;  // nobody else gets the place that other processes may have mapped
    }
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

// imported is what a range of SIM_RANGE_IPC belongs to.
typedef struct {
    memory_handle handle;
    unsigned opens;       // cuIpcCloseMemHandle calls that are due
    registry *exporters;  // where this process stands
} imported;

// registry_of maps the registry of whoever exported memory; NULL if the memory is not alive.
static registry *registry_of(const memory_handle *h) {
    int fd = open_there(h->memory.pid, h->memory.started, (int)h->registry);
    registry *r = fd < 0 ? NULL : registry_map(fd);
    if (fd >= 0) close(fd);
    if (r == NULL) return NULL;
    if (memcmp(r->magic, registry_magic, sizeof registry_magic) == 0 &&
        atomic_load(&r->live[h->slot]) == h->id)
        return r;
    munmap(r, sizeof *r);
    return NULL;
}

static void imported_free(imported *i) {
    uint64_t own = opener_of(getpid());
    atomic_compare_exchange_strong(&i->exporters->opener[i->handle.slot], &own, 0);
    munmap(i->exporters, sizeof *i->exporters);
    free(i);
}

void sim_ipc_close(sim_range *range) {
    imported_free(range->owner);
    sim_unmap_external(range);
    sim_live(SIM_IPC_MAPPINGS, -1);
}

static bool same_exporter(const memory_handle *a, const memory_handle *b) {
    return a->memory.pid == b->memory.pid && a->memory.started == b->memory.started;
}

static CUresult map_memory(const memory_handle *h, sim_context *ctx, imported *owner,
                           sim_range **out) {
    int fd = open_place(&h->memory);
    if (fd < 0) return CUDA_ERROR_MAP_FAILED;
    struct stat st;
    bool there = fstat(fd, &st) == 0 && h->offset <= (uint64_t)st.st_size &&
                 h->size <= (uint64_t)st.st_size - h->offset;
    CUresult r = there ? sim_map_external(fd, h->offset, h->size, SIM_RANGE_IPC, ctx, owner, out)
                       : CUDA_ERROR_INVALID_VALUE;
    close(fd);
    return r;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags) {
    ENTER(cuIpcOpenMemHandle, SIM_CONTEXT | SIM_UNSAFE);
    memory_handle h;
    memcpy(&h, &handle, sizeof h);
    if (out == NULL || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) return CUDA_ERROR_INVALID_VALUE;
    if (memcmp(h.magic, memory_magic, sizeof h.magic) != 0 || h.slot >= slots || h.size == 0)
        return CUDA_ERROR_INVALID_VALUE;
    sim_device *device = sim_device_get(h.device);
    if (h.memory.pid == getpid() || device == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    // It "can attempt to enable peer access between the devices".
    if (device != scope.ctx->device && !sim_device_reaches(scope.ctx->device, device))
        return CUDA_ERROR_MAP_FAILED;
    for (sim_range *r = sim_range_next(NULL); r != NULL; r = sim_range_next(r)) {
        imported *i = r->owner;
        if (r->kind != SIM_RANGE_IPC || !same_exporter(&i->handle, &h)) continue;
        // "may only be opened by one CUcontext per CUdevice per other process"
        if (r->ctx != scope.ctx && r->ctx->device == scope.ctx->device)
            return CUDA_ERROR_INVALID_CONTEXT;
        if (r->ctx == scope.ctx && i->handle.id == h.id && r->device == device) {
            i->opens++;
            *out = r->address;
            return CUDA_SUCCESS;
        }
    }
    registry *exporters = registry_of(&h);
    if (exporters == NULL) return CUDA_ERROR_MAP_FAILED;
    imported *i = malloc(sizeof *i);
    if (i == NULL) {
        munmap(exporters, sizeof *exporters);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *i = (imported){.handle = h, .opens = 1, .exporters = exporters};
    sim_range *range;
    CUresult r = map_memory(&h, scope.ctx, i, &range);
    if (r != CUDA_SUCCESS) {
        imported_free(i);
        return r;
    }
    atomic_store(&exporters->opener[h.slot], opener_of(getpid()));
    range->device = device;
    scope.ctx->peers |= 1u << device->ordinal;  // as cuCtxEnablePeerAccess does
    sim_live(SIM_IPC_MAPPINGS, +1);
    *out = range->address;
    return CUDA_SUCCESS;
}

// Work that still uses the memory is not waited for: it fails when it runs.
CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr ptr) {
    ENTER(cuIpcCloseMemHandle, SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE | SIM_DRAINS);
    sim_range *range = sim_range_find(ptr);
    if (range == NULL || range->kind != SIM_RANGE_IPC || range->address != ptr)
        return CUDA_ERROR_INVALID_VALUE;
    imported *i = range->owner;
    if (--i->opens == 0) sim_ipc_close(range);
    return SIM_RESULT(CUDA_SUCCESS);
}

// ---- Events ----------------------------------------------------------------------------

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *out, CUevent handle) {
    ENTER(cuIpcGetEventHandle, SIM_CONTEXT);
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    const sim_event *event = sim_event_get(&scope, handle);
    // "must have been created with the CU_EVENT_INTERPROCESS and CU_EVENT_DISABLE_TIMING flags"
    if (event == NULL || event->shared == NULL) return CUDA_ERROR_INVALID_HANDLE;
    event_handle h;
    memcpy(h.magic, event_magic, sizeof h.magic);
    if (!place_of(event->shared_fd, &h.state)) return CUDA_ERROR_MAP_FAILED;
    memset(out, 0, sizeof *out);
    memcpy(out, &h, sizeof h);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *out, CUipcEventHandle handle) {
    ENTER(cuIpcOpenEventHandle, SIM_CONTEXT);
    event_handle h;
    memcpy(&h, &handle, sizeof h);
    if (out == NULL || memcmp(h.magic, event_magic, sizeof h.magic) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (h.state.pid == getpid()) return CUDA_ERROR_INVALID_CONTEXT;
    int fd = open_place(&h.state);
    if (fd < 0) return CUDA_ERROR_MAP_FAILED;
    CUresult r = sim_event_open(scope.ctx, fd, out);
    close(fd);
    return r;
}
