// copy.c: copies and fills. All copies are boxes of rows and slices.

#include "hip.h"

#include <string.h>

// of_other reports whether an address is of a device that a context has not enabled.
static bool of_other(const sim_context *ctx, uintptr_t at) {
    const sim_range *r = sim_range_find(at);
    return r && sim_range_on_device(r) && r->device != ctx->device && !sim_range_reached(r, ctx, false);
}

// closed reports mapped memory that a device has no access to (hipMemSetAccess): libraries find that before the copy.
static bool closed(const sim_context *ctx, uintptr_t at, bool write) {
    const sim_range *r = sim_range_find(at);
    return r && r->kind == SIM_RANGE_VMM && !sim_range_reached(r, ctx, write);
}

// enqueue is sim_box_enqueue for copies of HIP's: the direction says which sides must be memory that HIP knows, and
// memory of other devices is reached without hipDeviceEnablePeerAccess ("the hipMemcpy will still work, but will
// perform the copy using a staging buffer on the host").
static int enqueue(const sim_scope *in, struct box b, int kind, hipStream_t stream, bool wait) {
    const int no_units = 1024;  // hipMemcpyDeviceToDeviceNoCU, since 6.0
    if ((kind < hipMemcpyHostToHost || kind > hipMemcpyDefault) && (kind != no_units || hip_version() < 6))
        return hipErrorInvalidMemcpyDirection;
    b.dst.known = kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice || kind == no_units;
    b.src.known = kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice || kind == no_units;
    CUresult error;
    sim_stream *s = sim_stream_get(in, hip_stream_of(stream), &error);
    if (s == NULL) return hip_gone(error);
    if (closed(s->ctx, b.dst.at, true) || closed(s->ctx, b.src.at, false)) return hipErrorUnknown;
    b.peer = of_other(s->ctx, b.dst.at) || of_other(s->ctx, b.src.at);
    return sim_box_enqueue(in, b, hip_stream_of(stream), wait);
}

static struct box line(void *dst, const void *src, size_t n) {
    return (struct box){.dst = {.at = (uintptr_t)dst}, .src = {.at = (uintptr_t)src}, .row = n, .rows = 1, .slices = 1};
}

hipError_t hipMemcpy(void *dst, const void *src, size_t n, hipMemcpyKind kind) {
    HIP_ENTER(hipMemcpy, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT | SIM_UNSAFE);
    HIP_RETURN(enqueue(&in, line(dst, src, n), kind, NULL, true));
}

hipError_t hipMemcpyAsync(void *dst, const void *src, size_t n, hipMemcpyKind kind, hipStream_t stream) {
    HIP_ENTER(hipMemcpyAsync, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    HIP_RETURN(enqueue(&in, line(dst, src, n), kind, stream, false));
}

hipError_t hipMemcpyWithStream(void *dst, const void *src, size_t n, hipMemcpyKind kind, hipStream_t stream) {
    HIP_ENTER(hipMemcpyWithStream, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    HIP_RETURN(enqueue(&in, line(dst, src, n), kind, stream, true));
}

#define LINE(name, dst_type, src_type, kind)                                          \
    hipError_t name(dst_type dst, src_type src, size_t n) {                           \
        HIP_ENTER(name, HIP_DEVICE);                                                  \
        HIP_ENGINE(SIM_CONTEXT | SIM_UNSAFE);                                         \
        HIP_RETURN(enqueue(&in, line(dst, src, n), kind, NULL, true));                \
    }                                                                                 \
    hipError_t name##Async(dst_type dst, src_type src, size_t n, hipStream_t stream) { \
        HIP_ENTER(name##Async, HIP_DEVICE);                                           \
        HIP_ENGINE(SIM_CONTEXT);                                                      \
        HIP_RETURN(enqueue(&in, line(dst, src, n), kind, stream, false));             \
    }
LINE(hipMemcpyHtoD, hipDeviceptr_t, void *, hipMemcpyHostToDevice)
LINE(hipMemcpyDtoH, void *, hipDeviceptr_t, hipMemcpyDeviceToHost)
LINE(hipMemcpyDtoD, hipDeviceptr_t, hipDeviceptr_t, hipMemcpyDeviceToDevice)

static int peer(const sim_scope *in, void *dst, int to, const void *src, int from, size_t n, hipStream_t stream, bool wait) {
    if (sim_device_get(to) == NULL || sim_device_get(from) == NULL) return hipErrorInvalidDevice;
    const sim_range *d = sim_range_find((uintptr_t)dst), *s = sim_range_find((uintptr_t)src);
    if (d == NULL || s == NULL) return hipErrorInvalidValue;
    if (d->device->ordinal != to || s->device->ordinal != from)
        sim_misuse(in->call, "the memory is of other devices than the call says");
    return enqueue(in, line(dst, src, n), hipMemcpyDeviceToDevice, stream, wait);
}

hipError_t hipMemcpyPeer(void *dst, int to, const void *src, int from, size_t n) {
    HIP_ENTER(hipMemcpyPeer, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT | SIM_UNSAFE);
    HIP_RETURN(peer(&in, dst, to, src, from, n, NULL, true));
}

hipError_t hipMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n, hipStream_t stream) {
    HIP_ENTER(hipMemcpyPeerAsync, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    HIP_RETURN(peer(&in, dst, to, src, from, n, stream, false));
}

// ---- Boxes -----------------------------------------------------------------------------

static int flat(const sim_scope *in, void *dst, size_t to, const void *src, size_t from, size_t width, size_t height,
                int kind, hipStream_t stream, bool wait) {
    if (width == 0 || height == 0) return hipSuccess;
    if (to == 0 || from == 0 || to < width || from < width || to > SIM_MAX_PITCH || from > SIM_MAX_PITCH)
        return hipErrorInvalidPitchValue;
    struct box b = {.dst = {.at = (uintptr_t)dst, .pitch = to}, .src = {.at = (uintptr_t)src, .pitch = from},
                    .row = width, .rows = height, .slices = 1};
    return enqueue(in, b, kind, stream, wait);
}

hipError_t hipMemcpy2D(void *dst, size_t to, const void *src, size_t from, size_t width, size_t height, hipMemcpyKind kind) {
    HIP_ENTER(hipMemcpy2D, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT | SIM_UNSAFE);
    HIP_RETURN(flat(&in, dst, to, src, from, width, height, kind, NULL, true));
}

hipError_t hipMemcpy2DAsync(void *dst, size_t to, const void *src, size_t from, size_t width, size_t height,
                            hipMemcpyKind kind, hipStream_t stream) {
    HIP_ENTER(hipMemcpy2DAsync, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    HIP_RETURN(flat(&in, dst, to, src, from, width, height, kind, stream, false));
}

// place is where a side of a box begins, 0 for places beyond all memory.
static uintptr_t place(const void *base, size_t x, size_t y, size_t z, size_t pitch, size_t height) {
    uintptr_t at = (uintptr_t)base;
    size_t rows, bytes;
    if (at == 0 || __builtin_mul_overflow(z, height, &rows) || __builtin_add_overflow(rows, y, &rows) ||
        __builtin_mul_overflow(rows, pitch, &bytes) || __builtin_add_overflow(bytes, x, &bytes) ||
        __builtin_add_overflow(at, bytes, &at))
        return 0;
    return at;
}

// corner is one side of a copy of three dimensions.
struct corner {
    const void *base;
    size_t x, y, z, pitch, height;
};

static int solid(const sim_scope *in, struct corner d, struct corner s, size_t width, size_t height, size_t depth,
                 int kind, hipStream_t stream, bool wait) {
    if (width == 0 || height == 0 || depth == 0) return hipSuccess;
    const struct corner *sides[] = {&d, &s};
    for (int i = 0; i < 2; i++) {
        const struct corner *c = sides[i];
        if (c->pitch > SIM_MAX_PITCH || ((height > 1 || c->pitch) && (c->x > c->pitch || width > c->pitch - c->x)) ||
            (depth > 1 && (c->y > c->height || height > c->height - c->y)))
            return hipErrorInvalidValue;
    }
    struct box b = {.row = width, .rows = height, .slices = depth};
    b.dst = (struct side){.at = place(d.base, d.x, d.y, d.z, d.pitch, d.height), .pitch = d.pitch};
    b.src = (struct side){.at = place(s.base, s.x, s.y, s.z, s.pitch, s.height), .pitch = s.pitch};
    if (__builtin_mul_overflow(d.pitch, d.height, &b.dst.slice) || __builtin_mul_overflow(s.pitch, s.height, &b.src.slice))
        return hipErrorInvalidValue;
    if (depth == 1) b.dst.slice = b.src.slice = 0;
    return enqueue(in, b, kind, stream, wait);
}

// hipMemcpy3DParms: positions and widths count bytes where no side is an array; arrays are not simulated.
static int parms(const sim_scope *in, const hipMemcpy3DParms *p, hipStream_t stream, bool wait) {
    if (p == NULL) return hipErrorInvalidValue;
    if (p->srcArray || p->dstArray) return hipErrorNotSupported;
    return solid(in, (struct corner){p->dstPtr.ptr, p->dstPos.x, p->dstPos.y, p->dstPos.z, p->dstPtr.pitch, p->dstPtr.ysize},
                 (struct corner){p->srcPtr.ptr, p->srcPos.x, p->srcPos.y, p->srcPos.z, p->srcPtr.pitch, p->srcPtr.ysize},
                 p->extent.width, p->extent.height, p->extent.depth, p->kind, stream, wait);
}

hipError_t hipMemcpy3D(const struct hipMemcpy3DParms *p) {
    HIP_ENTER(hipMemcpy3D, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT | SIM_UNSAFE);
    HIP_RETURN(parms(&in, p, NULL, true));
}

hipError_t hipMemcpy3DAsync(const struct hipMemcpy3DParms *p, hipStream_t stream) {
    HIP_ENTER(hipMemcpy3DAsync, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    HIP_RETURN(parms(&in, p, stream, false));
}

// wide is HIP_MEMCPY3D since 6.0, whose positions and sizes have eight bytes.
struct wide {
    struct wide_side {
        size_t x, y, z, lod;
        unsigned type;
        const void *host;
        hipDeviceptr_t device;
        void *array;
        size_t pitch, height;
    } src, dst;
    size_t width, height, depth;
};
_Static_assert(sizeof(struct wide) == 184 && sizeof(HIP_MEMCPY3D) == 128, "HIP_MEMCPY3D of 6.0 and of 5.x");

#define WIDEN(c, which)                                                                                          \
    ((struct wide_side){(c)->which##XInBytes, (c)->which##Y, (c)->which##Z, (c)->which##LOD,                     \
                        (c)->which##MemoryType, (c)->which##Host, (c)->which##Device, (c)->which##Array,         \
                        (c)->which##Pitch, (c)->which##Height})

// corner_of is a side by its kind of memory; managed and unknown memory may be given as either.
static struct corner corner_of(const struct wide_side *s) {
    const void *base = s->type == (unsigned)hip_memory_type(HIP_TYPE_HOST) ? s->host : s->device;
    return (struct corner){s->array ? NULL : base, s->x, s->y, s->z, s->pitch, s->height};
}

static int driver_copy(const sim_scope *in, const HIP_MEMCPY3D *c, hipStream_t stream, bool wait) {
    if (c == NULL) return hipErrorInvalidValue;
    struct wide w;
    if (hip_version() < 6)
        w = (struct wide){WIDEN(c, src), WIDEN(c, dst), c->WidthInBytes, c->Height, c->Depth};
    else
        memcpy(&w, c, sizeof w);
    if (w.src.lod || w.dst.lod) return hipErrorInvalidValue;
    return solid(in, corner_of(&w.dst), corner_of(&w.src), w.width, w.height, w.depth, hipMemcpyDefault, stream, wait);
}

hipError_t hipDrvMemcpy3D(const HIP_MEMCPY3D *c) {
    HIP_ENTER(hipDrvMemcpy3D, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT | SIM_UNSAFE);
    HIP_RETURN(driver_copy(&in, c, NULL, true));
}

hipError_t hipDrvMemcpy3DAsync(const HIP_MEMCPY3D *c, hipStream_t stream) {
    HIP_ENTER(hipDrvMemcpy3DAsync, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    HIP_RETURN(driver_copy(&in, c, stream, false));
}

// ---- Fills -----------------------------------------------------------------------------

hipError_t hipMemset(void *dst, int value, size_t n) {
    HIP_ENTER(hipMemset, HIP_DEVICE);
    HIP_RETURN(cuMemsetD8((CUdeviceptr)dst, (unsigned char)value, n));
}

hipError_t hipMemsetAsync(void *dst, int value, size_t n, hipStream_t stream) {
    HIP_ENTER(hipMemsetAsync, HIP_DEVICE);
    HIP_RETURN(hip_gone(cuMemsetD8Async((CUdeviceptr)dst, (unsigned char)value, n, hip_stream_of(stream))));
}

hipError_t hipMemset2DAsync(void *dst, size_t pitch, int value, size_t width, size_t height, hipStream_t stream) {
    HIP_ENTER(hipMemset2DAsync, HIP_DEVICE);
    CUresult r = cuMemsetD2D8Async((CUdeviceptr)dst, pitch, (unsigned char)value, width, height, hip_stream_of(stream));
    HIP_RETURN(hip_gone(r));
}

#define FILL(bits, type)                                                                                  \
    hipError_t hipMemsetD##bits(hipDeviceptr_t dst, type value, size_t n) {                               \
        HIP_ENTER(hipMemsetD##bits, HIP_DEVICE);                                                          \
        HIP_RETURN(cuMemsetD##bits((CUdeviceptr)dst, value, n));                                          \
    }                                                                                                     \
    hipError_t hipMemsetD##bits##Async(hipDeviceptr_t dst, type value, size_t n, hipStream_t stream) {    \
        HIP_ENTER(hipMemsetD##bits##Async, HIP_DEVICE);                                                   \
        HIP_RETURN(hip_gone(cuMemsetD##bits##Async((CUdeviceptr)dst, value, n, hip_stream_of(stream))));  \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, int)
