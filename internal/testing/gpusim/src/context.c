// context.c: handles, contexts and what is current on a thread.

#include "core.h"

#include <stdlib.h>

// ---- Handles ---------------------------------------------------------------------------

static struct slot {
    void *object;
    sim_kind kind;
    uint32_t uses;
    uint32_t next_free;
} *slots;
static uint32_t slot_count, first_free, last_free;

// A handle is no canonical address, so that nothing can be mapped there.
enum { HANDLE_SHIFT = 20 };
#define HANDLE_TAG ((uintptr_t)0x5d << 56)

// handle_of is the present handle of a slot.
static uintptr_t handle_of(uint32_t i) {
    return HANDLE_TAG | (uintptr_t)slots[i].uses << HANDLE_SHIFT << 4 | (uintptr_t)i << 4;
}

void *sim_handle_new(sim_kind kind, void *object) {
    if (first_free == 0) {
        uint32_t n = slot_count ? slot_count * 2 : 1024;
        struct slot *more = realloc(slots, n * sizeof *more);
        if (more == NULL) return NULL;
        slots = more;
        for (uint32_t i = slot_count ? slot_count : 1; i < n; i++)
            slots[i] = (struct slot){.next_free = i + 1 < n ? i + 1 : 0};
        first_free = slot_count ? slot_count : 1;
        last_free = n - 1;
        slot_count = n;
    }
    uint32_t i = first_free;
    first_free = slots[i].next_free;
    slots[i].object = object;
    slots[i].kind = kind;
    slots[i].uses += !sim.reuse;
    return (void *)handle_of(i);
}

static struct slot *slot_of(const void *handle) {
    uintptr_t h = (uintptr_t)handle;
    uint32_t i = (uint32_t)(h >> 4) & ((1u << HANDLE_SHIFT) - 1);
    if ((h & ((uintptr_t)0xff << 56)) != HANDLE_TAG || i == 0 || i >= slot_count) return NULL;
    struct slot *s = &slots[i];
    return s->object && h == handle_of(i) ? s : NULL;
}

void *sim_handle_get(sim_kind kind, const void *handle, const char *call) {
    struct slot *s = slot_of(handle);
    if (s && s->kind == kind) return s->object;
    if (call) sim_misuse(call, "%p is no handle of this kind, or was destroyed", handle);
    return NULL;
}

void sim_handle_drop(const void *handle) {
    struct slot *s = slot_of(handle);
    if (s == NULL) return;
    s->object = NULL;
    s->next_free = sim.reuse ? first_free : 0;
    uint32_t i = (uint32_t)(s - slots);
    if (sim.reuse && first_free != 0) {
        first_free = i;
        return;
    }
    if (first_free == 0)
        first_free = i;
    else
        slots[last_free].next_free = i;
    last_free = i;
}

// ---- Contexts --------------------------------------------------------------------------

enum { STACK = 64 };
static _Thread_local CUcontext stack[STACK];
static _Thread_local int depth;  // 0: nothing is current

sim_context *sim_context_get(CUcontext handle) {
    return sim_handle_get(SIM_CONTEXTS, handle, NULL);
}

sim_context *sim_current_context(void) { return depth ? sim_context_get(stack[depth - 1]) : NULL; }

bool sim_context_is_gone(void) { return depth && sim_current_context() == NULL; }

void sim_fail_context(sim_context *ctx, CUresult code) {
    if (ctx->sticky == CUDA_SUCCESS) ctx->sticky = code;
}

static CUresult context_new(sim_device *device, bool primary, sim_context **out) {
    sim_context *c = calloc(1, sizeof *c);
    if (c == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    c->device = device;
    c->primary = primary;
    c->handle = sim_handle_new(SIM_CONTEXTS, c);
    if (c->handle == NULL) {
        free(c);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    c->next = sim.contexts;
    sim.contexts = c;
    sim_live(SIM_CONTEXTS, 1);
    *out = c;
    return CUDA_SUCCESS;
}

static sim_context *gone;

static void context_free(sim_context *c) {
    sim_handle_drop(c->handle);  // first, so that no work is added while it is waited for
    c->handle = NULL;
    sim_forget_context(c);
    sim_forget_ranges(c);
    sim_forget_modules(c);
    for (sim_context **p = &sim.contexts; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    sim_live(SIM_CONTEXTS, -1);
    c->gone = gone;
    gone = c;
}

CUresult sim_use_device(sim_device *d) {
    if (d->primary == NULL) {
        CUresult r = context_new(d, true, &d->primary);
        if (r != CUDA_SUCCESS) return r;
        d->primary->retains = 1;
    }
    stack[0] = d->primary->handle;
    depth = 1;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device) {
    ENTER(cuDevicePrimaryCtxRetain, SIM_INIT);
    sim_device *d = sim_device_get(device);
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    if (d->primary == NULL) {
        CUresult r = context_new(d, true, &d->primary);
        if (r != CUDA_SUCCESS) return r;
    }
    d->primary->retains++;
    *out = d->primary->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
    ENTER(cuDevicePrimaryCtxRelease, SIM_INIT | SIM_RELEASE);
    sim_device *d = sim_device_get(device);
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    if (d->primary == NULL) {
        sim_misuse(scope.call, "device %d has no primary context that is retained", device);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (--d->primary->retains == 0) {
        sim_context *c = d->primary;
        d->primary = NULL;
        context_free(c);
    }
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult sim_reset_device(sim_device *d) {
    sim_context *c = d->primary, *fresh;
    if (c == NULL) return CUDA_SUCCESS;
    CUresult r = context_new(d, true, &fresh);
    if (r != CUDA_SUCCESS) return r;
    fresh->retains = c->retains;
    d->primary = fresh;
    context_free(c);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxCreate(CUcontext *out, unsigned flags, CUdevice device) {
    ENTER(cuCtxCreate, SIM_INIT);
    (void)flags;
    sim_device *d = sim_device_get(device);
    if (out == NULL || depth == STACK) return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    sim_context *c;
    CUresult r = context_new(d, false, &c);
    if (r == CUDA_SUCCESS) *out = stack[depth++] = c->handle;
    return r;
}

CUresult CUDAAPI cuCtxDestroy(CUcontext context) {
    ENTER(cuCtxDestroy, SIM_INIT | SIM_RELEASE);
    sim_context *c = sim_handle_get(SIM_CONTEXTS, context, scope.call);
    if (c == NULL || c->primary) return CUDA_ERROR_INVALID_CONTEXT;
    if (depth && stack[depth - 1] == context) depth--;
    context_free(c);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
    ENTER(cuCtxSetCurrent, SIM_INIT);
    if (context == NULL) {
        if (depth) depth--;
        return CUDA_SUCCESS;
    }
    if (sim_handle_get(SIM_CONTEXTS, context, scope.call) == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (depth == 0) depth = 1;
    stack[depth - 1] = context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) {
    ENTER(cuCtxPushCurrent, SIM_INIT);
    if (depth == STACK || sim_handle_get(SIM_CONTEXTS, context, scope.call) == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *out) {
    ENTER(cuCtxPopCurrent, SIM_INIT | SIM_RELEASE);
    if (depth == 0) return CUDA_ERROR_INVALID_CONTEXT;
    depth--;
    if (out) *out = stack[depth];
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuCtxSynchronize(void) {
    ENTER(cuCtxSynchronize, SIM_CONTEXT | SIM_UNSAFE);
    bool captured = false;  // "while any of its streams is being captured", in every mode
    for (sim_stream *s = scope.ctx->streams; s; s = s->next) captured |= sim_capture_refuses(s);
    if (captured) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult r = sim_wait_context(scope.ctx);
    sim_pools_settle();
    return r;
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    ENTER(cuCtxEnablePeerAccess, SIM_CONTEXT);
    sim_context *p = sim_handle_get(SIM_CONTEXTS, peer, scope.call);
    if (p == NULL) return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (p == scope.ctx) return CUDA_ERROR_INVALID_CONTEXT;
    if (!sim_device_reaches(scope.ctx->device, p->device))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    uint32_t bit = 1u << p->device->ordinal;
    if (scope.ctx->peers & bit) return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    scope.ctx->peers |= bit;
    return CUDA_SUCCESS;
}
