// pointer.c: what is known of an address.

#include "core.h"

// wide reports that an attribute takes eight bytes; the others take four.
static bool wide(CUpointer_attribute name) {
    switch ((int)name) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: return true;
    default: return false;
    }
}

static void put(void *out, CUpointer_attribute name, uint64_t value) {
    if (wide(name))
        *(uint64_t *)out = value;
    else
        *(uint32_t *)out = (uint32_t)value;
}

// allocation is what an address belongs to: what it was mapped into, for memory of cuMemMap.
typedef struct {
    const sim_range *range;  // NULL for reserved addresses where nothing is mapped
    uintptr_t start;
    size_t size;
} allocation;

static bool allocation_find(CUdeviceptr p, allocation *a) {
    const sim_range *r = sim_range_find(p);
    if (r && r->kind == SIM_RANGE_POOL && r->holds) return false;  // cuMemFreeAsync was called
    *a = (allocation){.range = r, .start = r ? r->address : 0, .size = r ? r->size : 0};
    return sim_reservation_find(p, &a->start, &a->size) || r != NULL;
}

static CUresult attribute(uint64_t *out, CUpointer_attribute name, CUdeviceptr p) {
    allocation a;
    if (!allocation_find(p, &a)) return CUDA_ERROR_INVALID_VALUE;
    switch ((int)name) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: *out = a.start; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: *out = a.size; return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED: *out = a.range != NULL; return CUDA_SUCCESS;
    }
    const sim_range *r = a.range;
    if (r == NULL) return CUDA_ERROR_INVALID_VALUE;
    const sim_context *c = sim_current_context();
    bool device = sim_range_on_device(r), managed = r->kind == SIM_RANGE_MANAGED;
    switch ((int)name) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: *out = r->ctx ? (uintptr_t)r->ctx->handle : 0; break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *out = (device && !r->on_host) || managed ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:  // for kernels of the current context
        if (c == NULL) return CUDA_ERROR_INVALID_CONTEXT;
        if (!device)
            return sim_host_for_device(r, c, p, out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (!sim_range_reached(r, c, false)) return CUDA_ERROR_INVALID_VALUE;
        *out = p;
        break;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        // Memory of a NUMA node, too: nothing gives the host access to it.
        if (device) return CUDA_ERROR_INVALID_VALUE;
        *out = r->kind == SIM_RANGE_TWIN ? (uintptr_t)r->work + (p - r->address) : p;
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID: *out = r->id; break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED: *out = managed; break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        if (r->on_host) return CUDA_ERROR_INVALID_VALUE;
        *out = (uint64_t)r->device->ordinal;
        break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE: *out = r->kind == SIM_RANGE_DEVICE; break;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *out = r->kind == SIM_RANGE_VMM ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                        : CU_MEM_HANDLE_TYPE_NONE;
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *out = r->kind == SIM_RANGE_POOL ? (uintptr_t)sim_pool_handle(r->owner) : 0;
        break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttribute(void *out, CUpointer_attribute name, CUdeviceptr p) {
    ENTER(cuPointerGetAttribute, SIM_INIT);
    uint64_t value;
    CUresult r = out == NULL ? CUDA_ERROR_INVALID_VALUE : attribute(&value, name, p);
    if (r == CUDA_SUCCESS) put(out, name, value);
    return r;
}

// Where there is no such memory, the attributes have default values, and that is no failure.
CUresult CUDAAPI cuPointerGetAttributes(unsigned n, CUpointer_attribute *names, void **out,
                                        CUdeviceptr p) {
    ENTER(cuPointerGetAttributes, SIM_INIT);
    if (names == NULL || out == NULL) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        uint64_t value = 0;
        if (attribute(&value, names[i], p) != CUDA_SUCCESS)
            value = names[i] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL ? (uint64_t)-2 : 0;
        put(out[i], names[i], value);
    }
    return CUDA_SUCCESS;
}
