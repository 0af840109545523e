// vmm.c: "Virtual Memory Management": memory without an address, addresses without memory, and
// what brings both together. Allocating and what is documented to synchronise in most cases
// counts as unsafe during a capture.

#include "core.h"
#include "sharing.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t granularity = 2 << 20;  // as cards have it
enum { fabric = 8 };                        // CU_MEM_HANDLE_TYPE_FABRIC, in headers since 12.3
enum { host_numa = 3 };                     // CU_MEM_LOCATION_TYPE_HOST_NUMA, likewise since 12.2

// physical is the memory behind a handle: freed when no handle and no mapping is left.
typedef struct {
    void *handle;
    unsigned handles;  // cuMemRelease calls that are due
    unsigned mappings;
    int fd;
    sim_memory_file file;
    uint8_t *work;  // the simulator's view of the data
    bool imported;  // another process, or another handle, pays for it
    CUmemAllocationProp prop;
} physical;

// reservation is a range of addresses, in a list of all. What is mapped to it the simulator sees at
// work, so that mappings without a gap have none there either.
typedef struct reservation {
    uintptr_t address;
    uintptr_t work;
    size_t size;
    struct reservation *next;
} reservation;

static reservation *reservations;

static CUmemGenericAllocationHandle handle_value(const physical *p) {
    return (CUmemGenericAllocationHandle)(uintptr_t)p->handle;
}

// physical_get finds a handle that was not released as often as it was given out. Its
// value stays taken while something is mapped, for cuMemRetainAllocationHandle.
static physical *physical_get(CUmemGenericAllocationHandle handle, const char *call) {
    physical *p = sim_handle_get(SIM_VMM_HANDLES, (void *)(uintptr_t)handle, call);
    if (p != NULL && p->handles == 0) {
        sim_misuse(call, "the handle was released");
        return NULL;
    }
    return p;
}

// on_host reports memory of a NUMA node of the host. One device pays for other memory.
static bool on_host(const CUmemAllocationProp *prop) {
    return (int)prop->location.type == host_numa;
}

// physical_free lets the memory go if nothing refers to it.
static void physical_free(physical *p) {
    if (p->handles != 0 || p->mappings != 0) return;
    if (!p->imported && !on_host(&p->prop)) sim.devices[p->prop.location.id].used -= p->file.size;
    munmap(p->work, p->file.size);
    close(p->fd);
    sim_handle_drop(p->handle);
    free(p);
}

// physical_new makes a handle for the memory of fd, which it takes over, on failure too.
static CUresult physical_new(int fd, const sim_memory_file *file, const CUmemAllocationProp *prop,
                             physical **out) {
    uint8_t *work =
        mmap(NULL, file->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)file->begin);
    physical *p = calloc(1, sizeof *p);
    void *handle = p && work != MAP_FAILED ? sim_handle_new(SIM_VMM_HANDLES, p) : NULL;
    if (handle == NULL) {
        if (work != MAP_FAILED) munmap(work, file->size);
        free(p);
        close(fd);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *p = (physical){
        .handle = handle, .handles = 1, .fd = fd, .file = *file, .work = work, .prop = *prop};
    sim_live(SIM_VMM_HANDLES, +1);
    *out = p;
    return CUDA_SUCCESS;
}

// check_properties tells whether memory of a kind can be made.
static CUresult check_properties(const CUmemAllocationProp *prop) {
    if (prop == NULL || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->win32HandleMetaData != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (on_host(prop)) {  // "On systems where NUMA is not available [the] id must be set to 0"
        if (prop->location.id != 0) return CUDA_ERROR_INVALID_VALUE;
        return prop->requestedHandleTypes || prop->allocFlags.usage ? CUDA_ERROR_NOT_SUPPORTED
                                                                    : CUDA_SUCCESS;
    }
    if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return prop->location.type == CU_MEM_LOCATION_TYPE_INVALID ? CUDA_ERROR_INVALID_VALUE
                                                                   : CUDA_ERROR_NOT_SUPPORTED;
    if (sim_device_get(prop->location.id) == NULL) return CUDA_ERROR_INVALID_DEVICE;
    if (prop->requestedHandleTypes == (CUmemAllocationHandleType)fabric)
        return CUDA_ERROR_NOT_PERMITTED;  // "does not have access setup for an IMEX channel"
    if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        prop->allocFlags.usage != 0 || (prop->allocFlags.gpuDirectRDMACapable && !sim.dma_buf))
        return CUDA_ERROR_NOT_SUPPORTED;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                               CUmemAllocationGranularity_flags option) {
    ENTER(cuMemGetAllocationGranularity, SIM_INIT);
    if (out == NULL || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                        option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_properties(prop);
    if (r == CUDA_SUCCESS) *out = granularity;
    return r;
}

// is_dma_buf reports memory that other devices may use ("RDMA capable"). What can also be exported as an
// opaque descriptor has a header in its file, which a dma-buf has not.
static bool is_dma_buf(const CUmemAllocationProp *prop) {
    return prop->allocFlags.gpuDirectRDMACapable && prop->requestedHandleTypes == 0;
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                             const CUmemAllocationProp *prop, unsigned long long flags) {
    ENTER(cuMemCreate, SIM_INIT | SIM_UNSAFE);
    if (out == NULL || size == 0 || size % granularity != 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = check_properties(prop);
    if (r != CUDA_SUCCESS) return r;
    sim_device *device = sim_device_get(prop->location.id);
    if (!on_host(prop) && size > device->memory - device->used) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_memory_file file;
    int fd = is_dma_buf(prop) ? sim_dma_buf_new(size, device->ordinal, &file)
                              : sim_memory_file_new(size, device->ordinal, &file);
    if (fd < 0) return CUDA_ERROR_OUT_OF_MEMORY;
    physical *p;
    r = physical_new(fd, &file, prop, &p);
    if (r != CUDA_SUCCESS) return r;
    if (!on_host(prop)) device->used += size;
    memset(p->work, SIM_FRESH, size);
    *out = handle_value(p);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
    ENTER(cuMemRelease, SIM_INIT | SIM_RELEASE);
    physical *p = physical_get(handle, "cuMemRelease");
    if (p == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (--p->handles == 0) {
        sim_live(SIM_VMM_HANDLES, -1);
        physical_free(p);
    }
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType type,
                                              unsigned long long flags) {
    ENTER(cuMemExportToShareableHandle, SIM_INIT);
    physical *p = physical_get(handle, "cuMemExportToShareableHandle");
    if (out == NULL || p == NULL || flags != 0 ||
        type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || p->prop.requestedHandleTypes != type)
        return CUDA_ERROR_INVALID_VALUE;
    int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)out = fd;
    return CUDA_SUCCESS;
}

// The descriptor is given by value and stays the caller's.
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *shared,
                                                CUmemAllocationHandleType type) {
    ENTER(cuMemImportFromShareableHandle, SIM_INIT | SIM_UNSAFE);
    if (out == NULL || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_INVALID_VALUE;
    sim_memory_file file;
    CUresult r = sim_memory_file_read((int)(intptr_t)shared, &file);
    if (r != CUDA_SUCCESS) return CUDA_ERROR_INVALID_VALUE;
    // "Importing shareable handles exported from some graphics APIs [...] may not be
    // supported", so none are: they are for cuImportExternalMemory.
    if (!file.ours || file.size % granularity != 0 || sim_device_get(file.device) == NULL)
        return CUDA_ERROR_NOT_SUPPORTED;
    int fd = fcntl((int)(intptr_t)shared, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = type,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = file.device},
    };
    physical *p;
    r = physical_new(fd, &file, &prop, &p);
    if (r != CUDA_SUCCESS) return r;
    p->imported = true;
    *out = handle_value(p);
    return CUDA_SUCCESS;
}

// ---- Addresses -------------------------------------------------------------------------

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment,
                                     CUdeviceptr address, unsigned long long flags) {
    ENTER(cuMemAddressReserve, SIM_INIT);
    // The wished address may be ignored, and is.
    if (out == NULL || size == 0 || size % SIM_PAGE != 0 || address % SIM_PAGE != 0 || flags != 0 ||
        (alignment & (alignment - 1)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    reservation *r = malloc(sizeof *r);
    uintptr_t at = r ? sim_reserve(size, alignment > granularity ? alignment : granularity) : 0;
    uintptr_t work = at ? sim_reserve(size, 0) : 0;
    if (work == 0) {
        if (at) sim_unreserve(at, size);
        free(r);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *r = (reservation){.address = at, .work = work, .size = size, .next = reservations};
    reservations = r;
    sim_live(SIM_RESERVATIONS, +1);
    *out = at;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    ENTER(cuMemAddressFree, SIM_INIT | SIM_RELEASE);
    reservation **at = &reservations;
    while (*at != NULL && (*at)->address != ptr) at = &(*at)->next;
    reservation *r = *at;
    if (r == NULL || r->size != size) return CUDA_ERROR_INVALID_VALUE;
    if (sim_range_within(ptr, size)) {
        sim_misuse("cuMemAddressFree", "memory is still mapped there: cuMemUnmap comes first");
        return CUDA_ERROR_INVALID_VALUE;
    }
    *at = r->next;
    sim_unreserve(r->address, r->size);
    sim_unreserve(r->work, r->size);
    free(r);
    sim_live(SIM_RESERVATIONS, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}

// reservation_of returns the reservation that an address lies in, or NULL.
static const reservation *reservation_of(uintptr_t address) {
    for (const reservation *r = reservations; r != NULL; r = r->next)
        if (address >= r->address && address - r->address < r->size) return r;
    return NULL;
}

bool sim_reservation_find(uintptr_t address, uintptr_t *start, size_t *size) {
    const reservation *r = reservation_of(address);
    if (r == NULL) return false;
    *start = r->address;
    *size = r->size;
    return true;
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
    ENTER(cuMemMap, SIM_INIT);
    physical *p = physical_get(handle, "cuMemMap");
    if (p == NULL || flags != 0 || size == 0 || (ptr | size | offset) % granularity != 0)
        return CUDA_ERROR_INVALID_VALUE;
    // "Note: currently must be zero."
    const reservation *in = reservation_of(ptr);
    if (offset != 0 || size > p->file.size || in == NULL ||
        size > in->size - (ptr - in->address) || sim_range_within(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    uint8_t *work = (uint8_t *)in->work + (ptr - in->address);
    if (mmap(work, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, p->fd,
             (off_t)p->file.begin) == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const sim_range range = {
        .address = ptr,
        .size = size,
        .work = work,
        .kind = SIM_RANGE_VMM,
        .device = sim_device_get(p->prop.location.id),
        .active = true,
        .on_host = on_host(&p->prop),
        .owner = p,
    };
    if (sim_range_add(&range) == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    p->mappings++;
    sim_live(SIM_MAPPINGS, +1);
    return CUDA_SUCCESS;
}

// mapping_at returns the mapping that holds an address, or NULL.
static sim_range *mapping_at(uintptr_t address) {
    sim_range *r = sim_range_find(address);
    return r != NULL && r->kind == SIM_RANGE_VMM ? r : NULL;
}

// whole_mappings reports whether a range is filled by mappings, none of which goes beyond it.
static bool whole_mappings(uintptr_t address, size_t size) {
    while (size != 0) {
        const sim_range *r = mapping_at(address);
        if (r == NULL || r->address != address || r->size > size) return false;
        address += r->size;
        size -= r->size;
    }
    return true;
}

// Work that still uses the mappings is not waited for: it fails when it runs.
CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
    ENTER(cuMemUnmap, SIM_INIT | SIM_RELEASE | SIM_UNSAFE | SIM_DRAINS);
    if (size == 0 || !whole_mappings(ptr, size)) return CUDA_ERROR_INVALID_VALUE;
    for (uintptr_t at = ptr; at < ptr + size;) {
        sim_range *r = mapping_at(at);
        physical *p = r->owner;
        at += r->size;
        mmap(r->work, r->size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        sim_range_remove(r);
        sim_live(SIM_MAPPINGS, -1);
        p->mappings--;
        physical_free(p);
    }
    return SIM_RESULT(CUDA_SUCCESS);
}

static bool is_device(const CUmemLocation *location) {
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE && sim_device_get(location->id) != NULL;
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
                                size_t count) {
    ENTER(cuMemSetAccess, SIM_INIT | SIM_UNSAFE | SIM_DRAINS);
    // "The range must be a fully mapped address range containing all allocations".
    if (size == 0 || desc == NULL || count == 0 || !whole_mappings(ptr, size))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
        if (!is_device(&desc[i].location)) return CUDA_ERROR_INVALID_DEVICE;
        const sim_range *m = mapping_at(ptr);
        const sim_device *d = sim_device_get(desc[i].location.id), *owner = m->device;
        if (d != owner && !m->on_host && !sim_device_reaches(d, owner))
            return CUDA_ERROR_INVALID_DEVICE;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (uintptr_t at = ptr; at < ptr + size;) {
        sim_range *r = mapping_at(at);
        for (size_t i = 0; i < count; i++) {
            uint32_t bit = 1u << desc[i].location.id;
            r->access &= ~bit;
            r->flags &= ~bit;
            if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) r->access |= bit;
            if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ) r->flags |= bit;
        }
        at += r->size;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                                CUdeviceptr ptr) {
    ENTER(cuMemGetAccess, SIM_INIT);
    const sim_range *r = mapping_at(ptr);
    if (flags == NULL || location == NULL || r == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!is_device(location)) return CUDA_ERROR_INVALID_DEVICE;
    uint32_t bit = 1u << location->id;
    *flags = !(r->access & bit) ? CU_MEM_ACCESS_FLAGS_PROT_NONE
             : r->flags & bit   ? CU_MEM_ACCESS_FLAGS_PROT_READ
                                : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return CUDA_SUCCESS;
}

// The value is the one that was mapped, even if that was released since.
CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
    ENTER(cuMemRetainAllocationHandle, SIM_INIT);
    const sim_range *r = mapping_at((uintptr_t)address);
    if (out == NULL || r == NULL) return CUDA_ERROR_INVALID_VALUE;
    physical *p = r->owner;
    if (p->handles++ == 0) sim_live(SIM_VMM_HANDLES, +1);
    *out = handle_value(p);
    return CUDA_SUCCESS;
}

// "Memory Management". The address and the size "must be aligned to the host page size", and "the entire
// address range is backed and mapped". The file of a dma-buf here is the whole of its memory, so a part has none.
CUresult CUDAAPI cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t size,
                                               CUmemRangeHandleType type,
                                               unsigned long long flags) {
    ENTER(cuMemGetHandleForAddressRange, SIM_CONTEXT);
    if (handle == NULL || size == 0 || (ptr | size) % SIM_PAGE != 0 ||
        type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags != 0 || sim_range_find(ptr) == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    const sim_range *r = mapping_at(ptr);
    const physical *p = r ? r->owner : NULL;
    if (!sim.dma_buf || p == NULL || !is_dma_buf(&p->prop)) return CUDA_ERROR_NOT_SUPPORTED;
    if (size > r->size - (ptr - r->address)) return CUDA_ERROR_INVALID_VALUE;
    if (ptr != r->address || size != p->file.size) return CUDA_ERROR_NOT_SUPPORTED;
    int fd = fcntl(p->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
    *(int *)handle = fd;
    return CUDA_SUCCESS;
}
