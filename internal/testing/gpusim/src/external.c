// external.c: "External Resource Interoperability", memory. What another driver allocated and
// gave away as an opaque descriptor.

#include "sharing.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct {
    int fd;
    sim_memory_file file;
    uint64_t size;  // as imported; not beyond the file's
} external_memory;

CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *out,
                                        const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc) {
    ENTER(cuImportExternalMemory, SIM_CONTEXT | SIM_UNSAFE);
    if (out == NULL || desc == NULL || desc->type < CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD ||
        desc->type > CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;  // those of Windows and of NvSciBuf
    if (desc->size == 0 || desc->flags & ~CUDA_EXTERNAL_MEMORY_DEDICATED)
        return CUDA_ERROR_INVALID_VALUE;
    sim_memory_file file;
    CUresult r = sim_memory_file_read(desc->handle.fd, &file);
    if (r != CUDA_SUCCESS) return r;
    // No rule says that what CUDA itself exported is an object of another API, so it is one
    // of the wrong kind, as a pipe would be.
    if (file.ours) return CUDA_ERROR_OPERATING_SYSTEM;
    if (desc->size > file.size) return CUDA_ERROR_INVALID_VALUE;
    // "Opaque" handles are good on the device whose UUID they come from.
    if (file.device != scope.ctx->device->ordinal) return CUDA_ERROR_INVALID_DEVICE;
    external_memory *m = malloc(sizeof *m);
    void *handle = m ? sim_handle_new(SIM_EXTERNAL_MEMORIES, m) : NULL;
    if (handle == NULL) {
        free(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *m = (external_memory){.fd = desc->handle.fd, .file = file, .size = desc->size};
    sim_live(SIM_EXTERNAL_MEMORIES, +1);
    *out = handle;
    return CUDA_SUCCESS;
}

// The buffer lives until cuMemFree. It is used no longer than the external memory lives.
CUresult CUDAAPI cuExternalMemoryGetMappedBuffer(CUdeviceptr *out, CUexternalMemory handle,
                                                 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc) {
    ENTER(cuExternalMemoryGetMappedBuffer, SIM_CONTEXT | SIM_UNSAFE);
    if (out == NULL || desc == NULL) return CUDA_ERROR_INVALID_VALUE;
    external_memory *m =
        sim_handle_get(SIM_EXTERNAL_MEMORIES, handle, "cuExternalMemoryGetMappedBuffer");
    if (m == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (desc->flags != 0 || desc->size == 0 || desc->offset > m->size ||
        desc->size > m->size - desc->offset)
        return CUDA_ERROR_INVALID_VALUE;
    sim_range *range;
    CUresult r = sim_map_external(m->fd, m->file.begin + desc->offset, desc->size,
                                  SIM_RANGE_EXTERNAL, scope.ctx, m, &range);
    if (r != CUDA_SUCCESS) return r;
    sim_live(SIM_EXTERNAL_BUFFERS, +1);
    *out = range->address;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory handle) {
    ENTER(cuDestroyExternalMemory, SIM_INIT | SIM_RELEASE | SIM_DRAINS);
    external_memory *m = sim_handle_get(SIM_EXTERNAL_MEMORIES, handle, "cuDestroyExternalMemory");
    if (m == NULL) return CUDA_ERROR_INVALID_HANDLE;
    // "Any existing buffers [...] must no longer be used and must be explicitly freed".
    for (sim_range *r = sim_range_next(NULL); r; r = sim_range_next(r))
        if (r->kind == SIM_RANGE_EXTERNAL && r->owner == m) {
            r->active = false;
            r->owner = NULL;
        }
    close(m->fd);
    sim_handle_drop(handle);
    free(m);
    sim_live(SIM_EXTERNAL_MEMORIES, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}
