// copy.c: copies and fills. All copies are boxes of rows and slices.

#include "hip.h"

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

hipError_t hipMemcpyAsync(void *dst, const void *src, size_t n, hipMemcpyKind kind, hipStream_t stream) {
    HIP_ENTER(hipMemcpyAsync, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    HIP_RETURN(enqueue(&in, line(dst, src, n), kind, stream, false));
}

#define LINE(name, dst_type, src_type, kind)                           \
    hipError_t name(dst_type dst, src_type src, size_t n) {            \
        HIP_ENTER(name, HIP_DEVICE);                                   \
        HIP_ENGINE(SIM_CONTEXT | SIM_UNSAFE);                          \
        HIP_RETURN(enqueue(&in, line(dst, src, n), kind, NULL, true)); \
    }
LINE(hipMemcpyHtoD, hipDeviceptr_t, void *, hipMemcpyHostToDevice)
LINE(hipMemcpyDtoH, void *, hipDeviceptr_t, hipMemcpyDeviceToHost)

hipError_t hipMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t n, hipStream_t stream) {
    HIP_ENTER(hipMemcpyPeerAsync, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    if (sim_device_get(to) == NULL || sim_device_get(from) == NULL) HIP_RETURN(hipErrorInvalidDevice);
    const sim_range *d = sim_range_find((uintptr_t)dst), *s = sim_range_find((uintptr_t)src);
    if (d == NULL || s == NULL) HIP_RETURN(hipErrorInvalidValue);
    if (d->device->ordinal != to || s->device->ordinal != from)
        sim_misuse(in.call, "the memory is of other devices than the call says");
    HIP_RETURN(enqueue(&in, line(dst, src, n), hipMemcpyDeviceToDevice, stream, false));
}

// ---- Boxes -----------------------------------------------------------------------------

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
                 int kind, hipStream_t stream) {
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
    return enqueue(in, b, kind, stream, false);
}

// hipMemcpy3DParms: positions and widths count bytes where no side is an array; arrays are not simulated.
hipError_t hipMemcpy3DAsync(const struct hipMemcpy3DParms *p, hipStream_t stream) {
    HIP_ENTER(hipMemcpy3DAsync, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    if (p == NULL) HIP_RETURN(hipErrorInvalidValue);
    if (p->srcArray || p->dstArray) HIP_RETURN(hipErrorNotSupported);
    struct corner d = {p->dstPtr.ptr, p->dstPos.x, p->dstPos.y, p->dstPos.z, p->dstPtr.pitch, p->dstPtr.ysize};
    struct corner s = {p->srcPtr.ptr, p->srcPos.x, p->srcPos.y, p->srcPos.z, p->srcPtr.pitch, p->srcPtr.ysize};
    HIP_RETURN(solid(&in, d, s, p->extent.width, p->extent.height, p->extent.depth, p->kind, stream));
}

// ---- Fills -----------------------------------------------------------------------------

hipError_t hipMemsetAsync(void *dst, int value, size_t n, hipStream_t stream) {
    HIP_ENTER(hipMemsetAsync, HIP_DEVICE);
    HIP_RETURN(hip_gone(cuMemsetD8Async((CUdeviceptr)dst, (unsigned char)value, n, hip_stream_of(stream))));
}
