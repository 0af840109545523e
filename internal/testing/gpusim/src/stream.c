// stream.c: the streams themselves, and what they say.

#include "core.h"

#include <stdlib.h>

static uint64_t last_id;

sim_stream *sim_stream_new(sim_context *ctx, unsigned flags) {
    sim_stream *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->ctx = ctx;
    s->flags = flags;
    s->id = ++last_id;
    s->next = ctx->streams;
    ctx->streams = s;
    return s;
}

void sim_stream_free(sim_stream *s) {
    for (sim_stream **p = &s->ctx->streams; *p; p = &(*p)->next)
        if (*p == s) {
            *p = s->next;
            break;
        }
    if (s->last) sim_op_drop(s->last);
    free(s);
}

void sim_forget_context(sim_context *c) {
    for (sim_stream *s = c->streams; s; s = s->next) {
        sim_capture_abandon(s);
        if (s->handle == NULL) continue;
        sim_live(SIM_ABANDONED, 1);
        sim_live(SIM_STREAMS, -1);
        sim_handle_drop(s->handle);  // first, so that no work is added while it is waited for
        s->handle = NULL;
    }
    sim_wait_context(c);
    while (c->events) {
        sim_live(SIM_ABANDONED, 1);
        sim_event_free(c->events);
    }
    while (c->streams) sim_stream_free(c->streams);
}

sim_stream *sim_stream_find(const sim_scope *scope, CUstream handle, CUresult *error) {
    sim_context *c = scope->ctx;
    *error = CUDA_ERROR_OUT_OF_MEMORY;
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        if (c->legacy == NULL) c->legacy = sim_stream_new(c, 0);
        return c->legacy;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        for (sim_stream *s = c->streams; s; s = s->next)
            if (s->per_thread && pthread_equal(s->thread, pthread_self())) return s;
        sim_stream *s = sim_stream_new(c, 0);
        if (s) {
            s->per_thread = true;
            s->thread = pthread_self();
        }
        return s;
    }
    *error = CUDA_ERROR_INVALID_HANDLE;
    return sim_handle_get(SIM_STREAMS, handle, scope->call);
}

bool sim_legacy_captures(const sim_stream *s) {
    if (s != s->ctx->legacy) return false;
    for (const sim_stream *other = s->ctx->streams; other; other = other->next)
        if (other->capture && !(other->flags & CU_STREAM_NON_BLOCKING)) return true;
    return false;
}

sim_stream *sim_stream_get(const sim_scope *scope, CUstream handle, CUresult *error) {
    sim_stream *s = sim_stream_find(scope, handle, error);
    if (s == NULL || !sim_legacy_captures(s)) return s;
    for (sim_stream *other = s->ctx->streams; other; other = other->next)
        if (!(other->flags & CU_STREAM_NON_BLOCKING)) sim_capture_refuses(other);
    *error = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return NULL;
}

CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned flags) {
    ENTER(cuStreamCreate, SIM_CONTEXT);
    if (out == NULL || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_new(scope.ctx, flags);
    if (s == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    s->handle = sim_handle_new(SIM_STREAMS, s);
    if (s->handle == NULL) {
        sim_stream_free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_live(SIM_STREAMS, 1);
    *out = s->handle;
    return CUDA_SUCCESS;
}

// "the function will return immediately and the resources are released when the work is done"
CUresult CUDAAPI cuStreamDestroy(CUstream stream) {
    ENTER(cuStreamDestroy, SIM_INIT | SIM_RELEASE);
    sim_stream *s = sim_handle_get(SIM_STREAMS, stream, scope.call);
    if (s == NULL) return CUDA_ERROR_INVALID_HANDLE;
    sim_handle_drop(stream);
    sim_live(SIM_STREAMS, -1);
    s->handle = NULL;
    s->destroyed = true;
    sim_capture_abandon(s);
    if (s->head == NULL) sim_stream_free(s);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
    ENTER(cuStreamSynchronize, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    if (sim_capture_refuses(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult r = sim_wait_stream(s);
    sim_pools_settle();
    return r;
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
    ENTER(cuStreamQuery, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    if (sim_capture_refuses(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sim_context *c = s->ctx;
    if (s->head == NULL) {
        sim_managed_settle();
        return c->sticky;
    }
    sim_op *last = s->last;  // the stream may go while work runs
    sim_op_retain(last);
    sim_progress(s, last);
    bool done = last->done;
    sim_op_drop(last);
    return c->sticky ? c->sticky : done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

#define PROPERTY(name, type, value)                              \
    CUresult CUDAAPI name(CUstream stream, type *out) {          \
        ENTER(name, SIM_CONTEXT);                                \
        CUresult error;                                          \
        if (out == NULL) return CUDA_ERROR_INVALID_VALUE;        \
        sim_stream *s = sim_stream_find(&scope, stream, &error); \
        if (s == NULL) return error;                             \
        *out = (value);                                          \
        return CUDA_SUCCESS;                                     \
    }
PROPERTY(cuStreamGetCtx, CUcontext, s->ctx->handle)
PROPERTY(cuStreamGetId, unsigned long long, s->id)
