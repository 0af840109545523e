// graphics.c: "Graphics Interoperability" and "OpenGL Interoperability": buffers of OpenGL. The
// software drivers of OpenGL cannot share a buffer's memory, so its bytes are copied: into device
// memory when it is mapped, back when it is unmapped. What a program may rely on is the same.

#include "gl.h"

#pragma GCC visibility push(default)
#include <cudaGL.h>
#pragma GCC visibility pop
#include <stdlib.h>

typedef struct {
    GLuint buffer;
    size_t size;
    unsigned flags;     // CU_GRAPHICS_MAP_RESOURCE_FLAGS_*
    sim_range *mapped;  // NULL while it is not
    size_t offset;      // of that in its device's memory
} resource;

static resource *resource_get(CUgraphicsResource handle, const char *call) {
    return sim_handle_get(SIM_GRAPHICS_RESOURCES, handle, call);
}

CUresult CUDAAPI cuGraphicsGLRegisterBuffer(CUgraphicsResource *out, GLuint buffer,
                                            unsigned int flags) {
    ENTER(cuGraphicsGLRegisterBuffer, SIM_CONTEXT);
    if (out == NULL || flags > CU_GRAPHICS_REGISTER_FLAGS_WRITE_DISCARD)
        return CUDA_ERROR_INVALID_VALUE;
    size_t size;
    CUresult r = sim_gl_buffer_size(buffer, &size);
    if (r != CUDA_SUCCESS) return r;
    resource *res = malloc(sizeof *res);
    void *handle = res ? sim_handle_new(SIM_GRAPHICS_RESOURCES, res) : NULL;
    if (handle == NULL) {
        free(res);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    // The flags for reading and discarding have the same values at both places.
    *res = (resource){.buffer = buffer, .size = size, .flags = flags};
    sim_live(SIM_GRAPHICS_RESOURCES, +1);
    *out = handle;
    return CUDA_SUCCESS;
}

// unmap ends a mapping without a copy back.
static void unmap(resource *res) {
    sim_device *device = res->mapped->device;
    sim_range_remove(res->mapped);
    sim_device_give(device, res->offset, res->size);
    res->mapped = NULL;
}

CUresult CUDAAPI cuGraphicsUnregisterResource(CUgraphicsResource handle) {
    ENTER(cuGraphicsUnregisterResource, SIM_CONTEXT | SIM_RELEASE);
    resource *res = resource_get(handle, "cuGraphicsUnregisterResource");
    if (res == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (res->mapped != NULL) {
        sim_misuse("cuGraphicsUnregisterResource",
                   "the resource is mapped: what was written to it is lost");
        unmap(res);
    }
    sim_handle_drop(handle);
    free(res);
    sim_live(SIM_GRAPHICS_RESOURCES, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphicsResourceGetMappedPointer(CUdeviceptr *ptr, size_t *size,
                                                    CUgraphicsResource handle) {
    ENTER(cuGraphicsResourceGetMappedPointer, SIM_CONTEXT);
    const resource *res = resource_get(handle, "cuGraphicsResourceGetMappedPointer");
    if (res == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (res->mapped == NULL) return CUDA_ERROR_NOT_MAPPED;
    if (ptr != NULL) *ptr = res->mapped->address;
    if (size != NULL) *size = res->size;
    return CUDA_SUCCESS;
}

// check finds every resource of a list, none of them twice, and all of them mapped or none.
static CUresult check(const char *call, unsigned count, const CUgraphicsResource *list,
                      bool mapped) {
    if (count == 0 || list == NULL) return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        const resource *res = resource_get(list[i], call);
        if (res == NULL) return CUDA_ERROR_INVALID_HANDLE;
        for (unsigned j = 0; j < i; j++)
            if (list[j] == list[i]) return CUDA_ERROR_INVALID_HANDLE;
        if (mapped != (res->mapped != NULL))
            return mapped ? CUDA_ERROR_NOT_MAPPED : CUDA_ERROR_ALREADY_MAPPED;
    }
    return CUDA_SUCCESS;
}

// map gives a resource device memory with the bytes of its buffer.
static CUresult map(resource *res, sim_context *ctx) {
    sim_device *device = ctx->device;
    size_t offset;
    CUresult r = sim_device_take(device, res->size, &offset);
    if (r != CUDA_SUCCESS) return r;
    if (res->flags != CU_GRAPHICS_MAP_RESOURCE_FLAGS_WRITE_DISCARD)
        r = sim_gl_read(res->buffer, res->size, device->work + offset);
    const sim_range range = {
        .address = device->base + offset,
        .size = res->size,
        .work = device->work + offset,
        .kind = SIM_RANGE_GRAPHICS,
        .device = device,
        .ctx = ctx,
        .active = true,
        .owner = res,
    };
    res->mapped = r == CUDA_SUCCESS ? sim_range_add(&range) : NULL;
    if (res->mapped == NULL) {
        sim_device_give(device, offset, res->size);
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_OUT_OF_MEMORY;
    }
    res->offset = offset;
    return CUDA_SUCCESS;
}

// The copy is done when this returns, so before any work of the stream that follows.
CUresult CUDAAPI cuGraphicsMapResources(unsigned int count, CUgraphicsResource *list,
                                        CUstream hstream) {
    ENTER(cuGraphicsMapResources, SIM_CONTEXT | SIM_UNSAFE);
    CUresult r;
    if (sim_stream_get(&scope, hstream, &r) == NULL) return r;
    r = check("cuGraphicsMapResources", count, list, false);
    unsigned done = 0;
    while (r == CUDA_SUCCESS && done < count) {
        r = map(resource_get(list[done], NULL), scope.ctx);
        if (r == CUDA_SUCCESS) done++;
    }
    while (r != CUDA_SUCCESS && done > 0)  // all of them or none
        unmap(resource_get(list[--done], NULL));
    return r;
}

// Waits for the work of this stream and of no other, as documented: what other streams
// write later does not arrive.
CUresult CUDAAPI cuGraphicsUnmapResources(unsigned int count, CUgraphicsResource *list,
                                          CUstream hstream) {
    ENTER(cuGraphicsUnmapResources, SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE);
    CUresult r;
    sim_stream *stream = sim_stream_get(&scope, hstream, &r);
    if (stream == NULL) return r;
    r = check("cuGraphicsUnmapResources", count, list, true);
    if (r != CUDA_SUCCESS) return r;
    CUresult worked = sim_wait_stream(stream);
    r = check("cuGraphicsUnmapResources", count, list, true);  // others ran meanwhile
    for (unsigned i = 0; r == CUDA_SUCCESS && i < count; i++) {
        resource *res = resource_get(list[i], NULL);
        if (res->flags != CU_GRAPHICS_MAP_RESOURCE_FLAGS_READ_ONLY)
            r = sim_gl_write(res->buffer, res->size, res->mapped->work);
        if (r == CUDA_SUCCESS) unmap(res);
    }
    return SIM_RESULT(r != CUDA_SUCCESS ? r : worked);
}
