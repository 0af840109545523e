// copy.c: copies and fills. All of them are boxes of rows and slices.

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// side is where one side of a copy lies. With a staging buffer, at is not used.
struct side {
    uintptr_t at;
    size_t pitch, slice;  // bytes from row to row, from slice to slice
    uint8_t *staged;      // what pageable memory held when the call was made
    bool pageable;        // memory of the host that CUDA does not know
};

struct box {
    struct side dst, src;
    size_t row, rows, slices;
    bool peer;  // between devices whose contexts the call names: access is not asked for
    bool fill;
    unsigned char pattern[4];
    size_t unit;
};

static size_t span(const struct box *b, const struct side *s) { return (b->slices - 1) * s->slice + (b->rows - 1) * s->pitch + b->row; }

// find is where the bytes of a side are, NULL where they must not be touched.
static uint8_t *find(sim_op *op, const struct side *s, bool write) {
    const struct box *b = (const struct box *)op->payload;
    if (s->staged) return s->staged;
    if (s->pageable) return (uint8_t *)s->at;
    return b->peer ? sim_translate(s->at, span(b, s), write) : sim_translate_from(op->ctx, s->at, span(b, s), write);
}

static CUresult run(sim_op *op) {
    struct box *b = (struct box *)op->payload;
    uint8_t *dst = find(op, &b->dst, true), *src = b->fill ? NULL : find(op, &b->src, false);
    if (dst == NULL || (src == NULL && !b->fill)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t z = 0; z < b->slices; z++)
        for (size_t y = 0; y < b->rows; y++) {
            uint8_t *to = dst + z * b->dst.slice + y * b->dst.pitch;
            if (b->fill) {
                for (size_t x = 0; x < b->row; x += b->unit) memcpy(to + x, b->pattern, b->unit);
            } else {
                memmove(to, src + z * b->src.slice + y * b->src.pitch, b->row);
            }
        }
    return CUDA_SUCCESS;
}

static void release(sim_op *op) { free(((struct box *)op->payload)->src.staged); }

// reachable reports whether the host may read a byte.
static bool reachable(uintptr_t at) {
    uint8_t byte;
    struct iovec local = {&byte, 1}, remote = {(void *)at, 1};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == 1 || errno != EFAULT;
}

// check says whether a side is known, and fits into its allocation. What is not known
// is pageable memory of the host, if the host can reach it.
static CUresult check(const sim_scope *scope, const struct box *b, struct side *s) {
    if (s->at == 0) return CUDA_ERROR_INVALID_VALUE;
    size_t n = span(b, s);
    sim_range *r = sim_range_find(s->at);
    if (r) return n > r->size - (s->at - r->address) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    if (b->fill || !reachable(s->at) || !reachable(s->at + n - 1)) {
        sim_misuse(scope->call, "%p is no memory of a device or the host: freed, unmapped, or never allocated", (void *)s->at);
        return CUDA_ERROR_INVALID_VALUE;
    }
    s->pageable = true;
    return CUDA_SUCCESS;
}

// enqueue enqueues a box on a stream. "For transfers from pageable host memory to device
// memory, host memory is copied to a staging buffer; the function will return once the
// pageable buffer has been copied. For transfers from device memory to pageable host memory,
// the function will return only once the copy has completed" (API synchronization behavior).
static CUresult enqueue(const sim_scope *scope, struct box b, CUstream stream, bool wait) {
    CUresult error;
    sim_stream *s = sim_stream_get(scope, stream, &error);
    if (s == NULL) return error;
    if (b.row == 0 || b.rows == 0 || b.slices == 0) return CUDA_SUCCESS;
    CUresult r = check(scope, &b, &b.dst);
    if (r == CUDA_SUCCESS && !b.fill) r = check(scope, &b, &b.src);
    if (r != CUDA_SUCCESS) return r;
    if ((b.src.pageable || b.dst.pageable) && s->capture) {
        sim_capture_refuses(s);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    sim_op *op = sim_op_new(scope->call, sizeof b, run);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (b.src.pageable && !b.fill) {
        size_t n = span(&b, &b.src);
        b.src.staged = malloc(n);
        if (b.src.staged == NULL) {
            sim_op_drop(op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(b.src.staged, (const void *)b.src.at, n);
    }
    memcpy(op->payload, &b, sizeof b);
    op->release = release;
    op->node = b.fill ? CU_GRAPH_NODE_TYPE_MEMSET : CU_GRAPH_NODE_TYPE_MEMCPY;
    wait = wait || b.dst.pageable;
    if (wait) sim_op_retain(op);
    r = sim_enqueue(s, op);
    if (wait) {
        if (r == CUDA_SUCCESS) r = sim_wait(op);
        sim_op_drop(op);
    }
    return r;
}

static struct box line(uintptr_t dst, uintptr_t src, size_t n) { return (struct box){{.at = dst}, {.at = src}, n, 1, 1, false, false, {0}, 0}; }

#define LINE(name, dst_type, src_type)                                                    \
    CUresult CUDAAPI name(dst_type dst, src_type src, size_t n) {                         \
        ENTER(name, SIM_CONTEXT | SIM_UNSAFE);                                            \
        return enqueue(&scope, line((uintptr_t)dst, (uintptr_t)src, n), NULL, true);      \
    }
#define LINE_ASYNC(name, dst_type, src_type)                                              \
    CUresult CUDAAPI name(dst_type dst, src_type src, size_t n, CUstream stream) {        \
        ENTER(name, SIM_CONTEXT);                                                         \
        return enqueue(&scope, line((uintptr_t)dst, (uintptr_t)src, n), stream, false);   \
    }
LINE(cuMemcpy, CUdeviceptr, CUdeviceptr)
LINE(cuMemcpyHtoD, CUdeviceptr, const void *)
LINE(cuMemcpyDtoH, void *, CUdeviceptr)
LINE(cuMemcpyDtoD, CUdeviceptr, CUdeviceptr)
LINE_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr)
LINE_ASYNC(cuMemcpyHtoDAsync, CUdeviceptr, const void *)
LINE_ASYNC(cuMemcpyDtoHAsync, void *, CUdeviceptr)
LINE_ASYNC(cuMemcpyDtoDAsync, CUdeviceptr, CUdeviceptr)

// peers checks that memory lies where its context says.
static CUresult peers(const sim_scope *scope, uintptr_t at, CUcontext context) {
    sim_context *c = sim_handle_get(SIM_CONTEXTS, context, scope->call);
    sim_range *r = sim_range_find(at);
    if (c == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    return r == NULL || !sim_range_on_device(r) || r->device != c->device ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, CUstream stream) {
    ENTER(cuMemcpyPeerAsync, SIM_CONTEXT);
    CUresult r = peers(&scope, dst, to);
    if (r == CUDA_SUCCESS) r = peers(&scope, src, from);
    struct box b = line(dst, src, n);
    b.peer = true;
    return r == CUDA_SUCCESS ? enqueue(&scope, b, stream, false) : r;
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n) {
    ENTER(cuMemcpyPeer, SIM_CONTEXT | SIM_UNSAFE);
    CUresult r = peers(&scope, dst, to);
    if (r == CUDA_SUCCESS) r = peers(&scope, src, from);
    struct box b = line(dst, src, n);
    b.peer = true;
    return r == CUDA_SUCCESS ? enqueue(&scope, b, NULL, true) : r;
}

// place is where a side of a box begins, 0 for arrays, which are not simulated.
static uintptr_t place(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y, size_t z, size_t pitch, size_t height) {
    uintptr_t at = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED ? (uintptr_t)device : 0;
    return at ? at + (z * height + y) * pitch + x : 0;
}

static CUresult flat(const CUDA_MEMCPY2D *c, struct box *b) {
    if (c == NULL || (c->Height > 1 && (c->srcPitch < c->WidthInBytes || c->dstPitch < c->WidthInBytes))) return CUDA_ERROR_INVALID_VALUE;
    *b = (struct box){.row = c->WidthInBytes, .rows = c->Height, .slices = 1};
    b->src = (struct side){.at = place(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY, 0, c->srcPitch, 0), .pitch = c->srcPitch};
    b->dst = (struct side){.at = place(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY, 0, c->dstPitch, 0), .pitch = c->dstPitch};
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream) {
    ENTER(cuMemcpy2DAsync, SIM_CONTEXT);
    struct box b;
    CUresult r = flat(c, &b);
    return r == CUDA_SUCCESS ? enqueue(&scope, b, stream, false) : r;
}

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D *c) {
    ENTER(cuMemcpy2D, SIM_CONTEXT | SIM_UNSAFE);
    struct box b;
    CUresult r = flat(c, &b);
    return r == CUDA_SUCCESS ? enqueue(&scope, b, NULL, true) : r;
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *c) {
    ENTER(cuMemcpy2DUnaligned, SIM_CONTEXT | SIM_UNSAFE);
    struct box b;
    CUresult r = flat(c, &b);
    return r == CUDA_SUCCESS ? enqueue(&scope, b, NULL, true) : r;
}

#define SOLID(c, b)                                                                                                                      \
    (*(b) = (struct box){.row = (c)->WidthInBytes, .rows = (c)->Height, .slices = (c)->Depth},                                            \
     (b)->src = (struct side){.at = place((c)->srcMemoryType, (c)->srcHost, (c)->srcDevice, (c)->srcXInBytes, (c)->srcY, (c)->srcZ,       \
                                          (c)->srcPitch, (c)->srcHeight),                                                                 \
                              .pitch = (c)->srcPitch, .slice = (c)->srcPitch * (c)->srcHeight},                                           \
     (b)->dst = (struct side){.at = place((c)->dstMemoryType, (c)->dstHost, (c)->dstDevice, (c)->dstXInBytes, (c)->dstY, (c)->dstZ,       \
                                          (c)->dstPitch, (c)->dstHeight),                                                                 \
                              .pitch = (c)->dstPitch, .slice = (c)->dstPitch * (c)->dstHeight},                                           \
     ((c)->Height > 1 && ((c)->srcPitch < (c)->WidthInBytes || (c)->dstPitch < (c)->WidthInBytes)) ||                                     \
             ((c)->Depth > 1 && ((c)->srcHeight < (c)->Height || (c)->dstHeight < (c)->Height))                                           \
         ? CUDA_ERROR_INVALID_VALUE                                                                                                       \
         : CUDA_SUCCESS)

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *c, CUstream stream) {
    ENTER(cuMemcpy3DAsync, SIM_CONTEXT);
    struct box b;
    if (c == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = SOLID(c, &b);
    return r == CUDA_SUCCESS ? enqueue(&scope, b, stream, false) : r;
}

CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D *c) {
    ENTER(cuMemcpy3D, SIM_CONTEXT | SIM_UNSAFE);
    struct box b;
    if (c == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = SOLID(c, &b);
    return r == CUDA_SUCCESS ? enqueue(&scope, b, NULL, true) : r;
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *c, CUstream stream) {
    ENTER(cuMemcpy3DPeerAsync, SIM_CONTEXT);
    struct box b;
    if (c == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = SOLID(c, &b);
    if (r == CUDA_SUCCESS) r = peers(&scope, b.dst.at, c->dstContext);
    if (r == CUDA_SUCCESS) r = peers(&scope, b.src.at, c->srcContext);
    b.peer = true;
    return r == CUDA_SUCCESS ? enqueue(&scope, b, stream, false) : r;
}

// fill enqueues n units of up to four bytes, in rows.
static CUresult fill(const sim_scope *scope, CUdeviceptr dst, size_t pitch, unsigned value, size_t unit, size_t n, size_t rows, CUstream stream, bool wait) {
    struct box b = {.dst = {.at = dst, .pitch = pitch}, .row = n * unit, .rows = rows, .slices = 1, .fill = true, .unit = unit};
    if (dst % unit) return CUDA_ERROR_INVALID_VALUE;
    memcpy(b.pattern, &value, unit);
    return enqueue(scope, b, stream, wait);
}

#define FILL(name, type)                                                                       \
    CUresult CUDAAPI name(CUdeviceptr dst, type value, size_t n) {                             \
        ENTER(name, SIM_CONTEXT | SIM_UNSAFE);                                                 \
        return fill(&scope, dst, 0, value, sizeof value, n, 1, NULL, true);                    \
    }
#define FILL_ASYNC(name, type)                                                                 \
    CUresult CUDAAPI name(CUdeviceptr dst, type value, size_t n, CUstream stream) {            \
        ENTER(name, SIM_CONTEXT);                                                              \
        return fill(&scope, dst, 0, value, sizeof value, n, 1, stream, false);                 \
    }
FILL(cuMemsetD8, unsigned char)
FILL(cuMemsetD16, unsigned short)
FILL(cuMemsetD32, unsigned int)
FILL_ASYNC(cuMemsetD8Async, unsigned char)
FILL_ASYNC(cuMemsetD16Async, unsigned short)
FILL_ASYNC(cuMemsetD32Async, unsigned int)

CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char value, size_t width, size_t height, CUstream stream) {
    ENTER(cuMemsetD2D8Async, SIM_CONTEXT);
    return fill(&scope, dst, pitch, value, 1, width, height, stream, false);
}
