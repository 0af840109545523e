// copy.c: copies. All of them are boxes of rows and slices.

#include "copy.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

// span is how many bytes of a side a box covers, SIZE_MAX where that is beyond all memory.
static size_t span(const struct box *b, const struct side *s) {
    size_t slices, rows, sum;
    if (__builtin_mul_overflow(b->slices - 1, s->slice, &slices) ||
        __builtin_mul_overflow(b->rows - 1, s->pitch, &rows) ||
        __builtin_add_overflow(slices, rows, &sum) || __builtin_add_overflow(sum, b->row, &sum))
        return SIZE_MAX;
    return sum;
}

// find is where the bytes of a side are, NULL where they must not be touched.
static uint8_t *find(sim_op *op, const struct side *s, bool write) {
    const struct box *b = (const struct box *)op->payload;
    if (s->staged) return s->staged;
    if (s->pageable) return (uint8_t *)s->at;
    if (b->peer) return sim_translate_at_home(s->at, span(b, s), write);
    return b->fill ? sim_translate_from(op->ctx, s->at, span(b, s), write)
                   : sim_translate_copy(op->ctx, s->at, span(b, s), write);
}

static CUresult run(sim_op *op) {
    struct box *b = (struct box *)op->payload;
    uint8_t *dst = find(op, &b->dst, true), *src = b->fill ? NULL : find(op, &b->src, false);
    if (dst == NULL || (src == NULL && !b->fill)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (size_t z = 0; z < b->slices; z++)
        for (size_t y = 0; y < b->rows; y++) {
            uint8_t *to = dst + z * b->dst.slice + y * b->dst.pitch;
            if (b->fill)
                for (size_t x = 0; x < b->row; x += b->unit) memcpy(to + x, b->pattern, b->unit);
            else
                memmove(to, src + z * b->src.slice + y * b->src.pitch, b->row);
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
static CUresult check(const sim_scope *scope, const sim_context *ctx, const struct box *b,
                      struct side *s) {
    size_t n = span(b, s);
    if (s->at == 0 || n > UINTPTR_MAX - s->at) return CUDA_ERROR_INVALID_VALUE;
    sim_range *r = sim_range_find(s->at);
    if (r) {
        if (n > sim_range_room(r, s->at)) return CUDA_ERROR_INVALID_VALUE;
        s->pageable = !sim_range_on_device(r) && !sim_host_known(r, ctx);
        return CUDA_SUCCESS;
    }
    if (s->known || sim_range_within(s->at, n) || !reachable(s->at) || !reachable(s->at + n - 1)) {
        sim_misuse(scope->call,
                   "%p is no memory of a device or the host: freed, unmapped, or never allocated",
                   (void *)s->at);
        return CUDA_ERROR_INVALID_VALUE;
    }
    s->pageable = true;
    return CUDA_SUCCESS;
}

// settles reports that a call which is not asynchronous by its name waits because of a
// side: memory of the host.
static bool settles(const struct side *s) {
    const sim_range *r = sim_range_find(s->at);
    return s->pageable || (r && !sim_range_on_device(r));
}

// "For transfers from pageable host memory to device memory, host memory is copied to a staging
// buffer"; "from device memory to pageable host memory, the function will return only once the copy
// has completed" (API synchronization behavior).
CUresult sim_box_enqueue(const sim_scope *scope, struct box b, CUstream stream, bool wait) {
    CUresult error;
    sim_stream *s = sim_stream_get(scope, stream, &error);
    if (s == NULL) return error;
    if (b.row == 0 || b.rows == 0 || b.slices == 0) return CUDA_SUCCESS;
    CUresult r = check(scope, s->ctx, &b, &b.dst);
    if (r == CUDA_SUCCESS && !b.fill) r = check(scope, s->ctx, &b, &b.src);
    if (r != CUDA_SUCCESS) return r;
    if ((b.src.pageable || b.dst.pageable) && s->capture) {
        sim_capture_refuses(s);
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    sim_op *op = sim_op_new(scope->call, sizeof b, run);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    if (b.src.pageable && !b.fill && !b.late) {
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
    // "For transfers from device memory to device memory, no host-side synchronization is
    // performed."
    wait = (b.dst.pageable && !b.late) || (wait && (settles(&b.dst) || settles(&b.src)));
    if (wait) sim_op_retain(op);
    r = sim_enqueue(s, op);
    if (wait) {
        if (r == CUDA_SUCCESS) r = sim_wait(op);
        sim_op_drop(op);
    }
    return r;
}

static struct box box(struct side dst, struct side src, size_t row, size_t rows, size_t slices) {
    return (struct box){.dst = dst, .src = src, .row = row, .rows = rows, .slices = slices};
}

static struct box line(uintptr_t dst, bool device_dst, uintptr_t src, bool device_src, size_t n) {
    return box((struct side){.at = dst, .known = device_dst},
               (struct side){.at = src, .known = device_src}, n, 1, 1);
}

#define LINE(name, dst_type, dst_known, src_type, src_known)                                    \
    CUresult CUDAAPI name(dst_type dst, src_type src, size_t n) {                               \
        ENTER(name, SIM_CONTEXT | SIM_UNSAFE);                                                  \
        return sim_box_enqueue(                                                                 \
            &scope, line((uintptr_t)dst, dst_known, (uintptr_t)src, src_known, n), NULL, true); \
    }
#define LINE_ASYNC(name, dst_type, dst_known, src_type, src_known)                                 \
    CUresult CUDAAPI name(dst_type dst, src_type src, size_t n, CUstream stream) {                 \
        ENTER(name, SIM_CONTEXT);                                                                  \
        return sim_box_enqueue(                                                                    \
            &scope, line((uintptr_t)dst, dst_known, (uintptr_t)src, src_known, n), stream, false); \
    }
LINE(cuMemcpyHtoD, CUdeviceptr, true, const void *, false)
LINE(cuMemcpyDtoH, void *, false, CUdeviceptr, true)
LINE_ASYNC(cuMemcpyAsync, CUdeviceptr, false, CUdeviceptr, false)
LINE_ASYNC(cuMemcpyDtoDAsync, CUdeviceptr, true, CUdeviceptr, true)

// peers checks that memory lies where its context says.
static CUresult peers(const sim_scope *scope, uintptr_t at, CUcontext context) {
    sim_context *c = sim_handle_get(SIM_CONTEXTS, context, scope->call);
    sim_range *r = sim_range_find(at);
    if (c == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    return r == NULL || !sim_range_on_device(r) || r->device != c->device ? CUDA_ERROR_INVALID_VALUE
                                                                          : CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from,
                                   size_t n, CUstream stream) {
    ENTER(cuMemcpyPeerAsync, SIM_CONTEXT);
    CUresult r = peers(&scope, dst, to);
    if (r == CUDA_SUCCESS) r = peers(&scope, src, from);
    struct box b = line(dst, true, src, true, n);
    b.peer = true;
    return r == CUDA_SUCCESS ? sim_box_enqueue(&scope, b, stream, false) : r;
}

// place is where a side of a box begins, 0 for arrays, which are not simulated, and for places
// beyond all memory.
static uintptr_t place(CUmemorytype type, const void *host, CUdeviceptr device, size_t x, size_t y,
                       size_t z, size_t pitch, size_t height) {
    uintptr_t at = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host
                   : type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED
                       ? (uintptr_t)device
                       : 0;
    size_t rows, bytes;
    if (at == 0 || __builtin_mul_overflow(z, height, &rows) ||
        __builtin_add_overflow(rows, y, &rows) || __builtin_mul_overflow(rows, pitch, &bytes) ||
        __builtin_add_overflow(bytes, x, &bytes) || __builtin_add_overflow(at, bytes, &at))
        return 0;
    return at;
}

static size_t slice(size_t pitch, size_t height, size_t depth) {
    size_t bytes = 0;
    return depth > 1 && __builtin_mul_overflow(pitch, height, &bytes) ? SIZE_MAX : bytes;
}

// The structures of all copies have the same names; those of two dimensions have no z, height
// and depth.
#define SIDE(c, which, z, height, depth)                                                \
    ((struct side){                                                                     \
        .at = place((c)->which##MemoryType, (c)->which##Host, (c)->which##Device,       \
                    (c)->which##XInBytes, (c)->which##Y, z, (c)->which##Pitch, height), \
        .pitch = (c)->which##Pitch,                                                     \
        .slice = slice((c)->which##Pitch, height, depth),                               \
        .known = (c)->which##MemoryType == CU_MEMORYTYPE_DEVICE,                        \
    })
#define FLAT(c) box(SIDE(c, dst, 0, 0, 1), SIDE(c, src, 0, 0, 1), (c)->WidthInBytes, (c)->Height, 1)
#define SOLID(c)                                                                             \
    box(SIDE(c, dst, (c)->dstZ, (c)->dstHeight, (c)->Depth),                                 \
        SIDE(c, src, (c)->srcZ, (c)->srcHeight, (c)->Depth), (c)->WidthInBytes, (c)->Height, \
        (c)->Depth)
// What the pitches and heights of a copy must be: "greater than or equal to WidthInBytes +
// srcXInBytes", and "to Height + srcY", where they are given, and no pitch beyond
// CU_DEVICE_ATTRIBUTE_MAX_PITCH.
#define PITCH_FITS(c, which)                          \
    ((c)->which##Pitch <= SIM_MAX_PITCH &&            \
     (((c)->which##Pitch == 0 && (c)->Height <= 1) || \
      fits((c)->which##XInBytes, (c)->WidthInBytes, (c)->which##Pitch)))
#define HEIGHT_FITS(c, which)                        \
    (((c)->which##Height == 0 && (c)->Depth <= 1) || \
     fits((c)->which##Y, (c)->Height, (c)->which##Height))
#define LIES_RIGHT(c)                                                                          \
    (PITCH_FITS(c, src) && PITCH_FITS(c, dst) && HEIGHT_FITS(c, src) && HEIGHT_FITS(c, dst) && \
     (c)->srcLOD == 0 && (c)->dstLOD == 0)

static bool fits(size_t first, size_t n, size_t room) { return first <= room && n <= room - first; }

static bool on_device(uintptr_t at) {
    const sim_range *r = sim_range_find(at);
    return r && sim_range_on_device(r);
}

// "On intra-device memory copies [...] cuMemcpy2D() may fail for pitches not computed by
// cuMemAllocPitch()": it does fail.
CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D *c, CUstream stream) {
    ENTER(cuMemcpy2DAsync, SIM_CONTEXT);
    enum { ALIGNMENT = 512 };  // of the pitches that cuMemAllocPitch computes on cards
    if (c == NULL || !PITCH_FITS(c, src) || !PITCH_FITS(c, dst)) return CUDA_ERROR_INVALID_VALUE;
    struct box b = FLAT(c);
    if ((b.dst.pitch | b.src.pitch) % ALIGNMENT && on_device(b.dst.at) && on_device(b.src.at))
        return CUDA_ERROR_INVALID_VALUE;
    return sim_box_enqueue(&scope, b, stream, false);
}

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D *c, CUstream stream) {
    ENTER(cuMemcpy3DAsync, SIM_CONTEXT);
    if (c == NULL || !LIES_RIGHT(c)) return CUDA_ERROR_INVALID_VALUE;
    return sim_box_enqueue(&scope, SOLID(c), stream, false);
}

CUresult CUDAAPI cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *c, CUstream stream) {
    ENTER(cuMemcpy3DPeerAsync, SIM_CONTEXT);
    if (c == NULL || !LIES_RIGHT(c)) return CUDA_ERROR_INVALID_VALUE;
    struct box b = SOLID(c);
    b.peer = true;
    CUresult r = peers(&scope, b.dst.at, c->dstContext);
    if (r == CUDA_SUCCESS) r = peers(&scope, b.src.at, c->srcContext);
    return r == CUDA_SUCCESS ? sim_box_enqueue(&scope, b, stream, false) : r;
}
