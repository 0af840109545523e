// event.c: events, those of several processes too.

#include "core.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

sim_event *sim_event_get(const sim_scope *scope, CUevent handle) {
    return sim_handle_get(SIM_EVENTS, handle, scope->call);
}

// forget frees what an event has.
static void forget(sim_event *e) {
    if (e->record) sim_op_drop(e->record);
    if (e->shared && !e->imported) atomic_store(&e->shared->gone, 1);
    if (e->shared) munmap(e->shared, SIM_PAGE);
    if (e->shared_fd >= 0) close(e->shared_fd);
    free(e);
}

// used is sim_event_get for calls that do something with an event: "Performing operations on the
// imported event after the exported event has been freed with cuEventDestroy will result in
// undefined behavior".
static sim_event *used(const sim_scope *scope, CUevent handle) {
    sim_event *e = sim_event_get(scope, handle);
    if (e && e->imported && atomic_load(&e->shared->gone))
        sim_misuse(scope->call, "the process that made the event has destroyed it");
    return e;
}

static CUresult event_new(sim_context *ctx, unsigned flags, int fd, CUevent *out) {
    sim_event *e = calloc(1, sizeof *e);
    if (e == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    e->ctx = ctx;
    e->flags = flags;
    e->shared_fd = -1;
    if (fd >= 0) {
        e->shared = mmap(NULL, SIM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (e->shared == MAP_FAILED) {
            free(e);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        e->shared_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    e->handle = fd >= 0 && e->shared_fd < 0 ? NULL : sim_handle_new(SIM_EVENTS, e);
    if (e->handle == NULL) {
        forget(e);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->next = ctx->events;
    ctx->events = e;
    sim_live(SIM_EVENTS, 1);
    *out = e->handle;
    return CUDA_SUCCESS;
}

CUresult sim_event_open(sim_context *ctx, int fd, CUevent *out) {
    CUresult r = event_new(ctx, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, fd, out);
    if (r == CUDA_SUCCESS) ctx->events->imported = true;
    return r;
}

void sim_event_free(sim_event *e) {
    for (sim_event **p = &e->ctx->events; *p; p = &(*p)->next)
        if (*p == e) {
            *p = e->next;
            break;
        }
    sim_handle_drop(e->handle);
    sim_live(SIM_EVENTS, -1);
    forget(e);
}

CUresult CUDAAPI cuEventCreate(CUevent *out, unsigned flags) {
    ENTER(cuEventCreate, SIM_CONTEXT);
    const unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
    if (out == NULL || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
    if (!(flags & CU_EVENT_INTERPROCESS)) return event_new(scope.ctx, flags, -1, out);
    if (!(flags & CU_EVENT_DISABLE_TIMING)) return CUDA_ERROR_INVALID_VALUE;
    int fd = memfd_create("dlx-gpusim-event", MFD_CLOEXEC);
    CUresult r = fd < 0 || ftruncate(fd, SIM_PAGE) != 0 ? CUDA_ERROR_OPERATING_SYSTEM
                                                        : event_new(scope.ctx, flags, fd, out);
    if (fd >= 0) close(fd);
    return r;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) {
    ENTER(cuEventDestroy, SIM_INIT | SIM_RELEASE);
    sim_event *e = sim_event_get(&scope, event);
    if (e == NULL) return CUDA_ERROR_INVALID_HANDLE;
    sim_event_free(e);
    return SIM_RESULT(CUDA_SUCCESS);
}

// What a record or a wait has of a shared event: a mapping of its own, since the event may go.
struct shared {
    sim_shared_event *state;
    uint64_t point;
};

static void release_shared(sim_op *op) {
    struct shared *x = (struct shared *)op->payload;
    if (x->state) munmap(x->state, SIM_PAGE);
}

static CUresult nothing(sim_op *op) {
    (void)op;
    return CUDA_SUCCESS;
}

static CUresult reach_shared(sim_op *op) {
    struct shared *x = (struct shared *)op->payload;
    if (x->state && atomic_load(&x->state->done) < x->point)
        atomic_store(&x->state->done, x->point);
    return CUDA_SUCCESS;
}

static bool shared_reached(sim_op *op) {
    struct shared *x = (struct shared *)op->payload;
    return atomic_load(&x->state->done) >= x->point;
}

// shared_op makes work with the shared state of an event, whose fd may be -1: without.
static sim_op *shared_op(const char *call, sim_event *e, CUresult (*run)(sim_op *)) {
    sim_op *op = sim_op_new(call, sizeof(struct shared), run);
    if (op == NULL || e->shared == NULL) return op;
    struct shared *x = (struct shared *)op->payload;
    op->release = release_shared;
    x->state = mmap(NULL, SIM_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, e->shared_fd, 0);
    if (x->state == MAP_FAILED) {
        x->state = NULL;
        sim_op_drop(op);
        return NULL;
    }
    return op;
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
    ENTER(cuEventRecord, SIM_CONTEXT);
    CUresult r;
    sim_event *e = used(&scope, event);
    if (e == NULL) return CUDA_ERROR_INVALID_HANDLE;
    sim_stream *s = sim_stream_get(&scope, stream, &r);
    if (s == NULL) return r;
    if (s->ctx != e->ctx) return CUDA_ERROR_INVALID_HANDLE;
    if (s->capture) {
        r = sim_capture_take(s);
        if (r == CUDA_SUCCESS) e->capture_id = sim_capture_id(s);
        return r;
    }
    sim_op *op = shared_op(scope.call, e, reach_shared);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    op->always = true;
    sim_op_retain(op);
    if (e->shared)
        ((struct shared *)op->payload)->point = atomic_fetch_add(&e->shared->recorded, 1) + 1;
    e->capture_id = 0;
    r = sim_enqueue(s, op);
    if (r != CUDA_SUCCESS) {
        sim_op_drop(op);
        return r;
    }
    if (e->record) sim_op_drop(e->record);
    e->record = op;
    return CUDA_SUCCESS;
}

// done reports whether the work that was recorded last is done.
static bool done(const sim_event *e) {
    if (e->shared) return atomic_load(&e->shared->done) >= atomic_load(&e->shared->recorded);
    return e->record == NULL || e->record->done;
}

CUresult CUDAAPI cuEventQuery(CUevent event) {
    ENTER(cuEventQuery, SIM_CONTEXT | SIM_UNSAFE);
    sim_event *e = used(&scope, event);
    if (e == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (e->capture_id) return CUDA_ERROR_CAPTURED_EVENT;
    sim_context *c = e->ctx;
    if (c->sticky || done(e)) {
        sim_managed_settle();
        return c->sticky;
    }
    sim_op *op = e->record;  // the event may be destroyed while work runs
    if (op == NULL || op->done) return CUDA_ERROR_NOT_READY;
    sim_op_retain(op);
    sim_progress(op->stream, op);
    bool reached = op->done;
    sim_op_drop(op);
    return c->sticky ? c->sticky : reached ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
    ENTER(cuStreamWaitEvent, SIM_CONTEXT);
    CUresult error;
    if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
    sim_event *e = used(&scope, event);
    if (e == NULL) return CUDA_ERROR_INVALID_HANDLE;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    // "This flag is invalid outside of stream capture", where it makes nodes that are not simulated.
    if (flags) return s->capture ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
    if (e->capture_id) {
        // Within one capture the order is there already; it does not spread to other streams here.
        if (e->capture_id == sim_capture_id(s)) return CUDA_SUCCESS;
        return sim_capture_refuses(s) ? CUDA_ERROR_STREAM_CAPTURE_MERGE : CUDA_ERROR_NOT_SUPPORTED;
    }
    if (s->capture && (e->record || e->shared)) {
        sim_capture_refuses(s);
        return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (done(e)) return CUDA_SUCCESS;
    bool mine = e->record && !e->record->done;
    sim_op *op = mine ? sim_op_new(scope.call, 0, nothing) : shared_op(scope.call, e, nothing);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    op->always = true;
    if (mine) {
        CUresult r = sim_op_after(op, e->record);
        if (r != CUDA_SUCCESS) {
            sim_op_drop(op);
            return r;
        }
    } else {
        ((struct shared *)op->payload)->point = atomic_load(&e->shared->recorded);
        op->ready = shared_reached;
    }
    return sim_enqueue(s, op);
}

CUresult CUDAAPI cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
    ENTER(cuEventElapsedTime, SIM_CONTEXT);
    sim_event *a = used(&scope, from), *b = used(&scope, to);
    if (a == NULL || b == NULL || a->record == NULL || b->record == NULL ||
        ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_HANDLE;
    if (ms == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (!a->record->done || !b->record->done) {
        sim_op *op = b->record->done ? a->record : b->record;
        sim_op_retain(op);
        sim_progress(op->stream, op);
        sim_op_drop(op);
        return CUDA_ERROR_NOT_READY;
    }
    // "with a resolution of around 0.5 microseconds"
    int64_t steps = (int64_t)(b->record->finished / 500) - (int64_t)(a->record->finished / 500);
    *ms = (float)steps / 2000;
    return CUDA_SUCCESS;
}
