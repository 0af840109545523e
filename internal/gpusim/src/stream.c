// stream.c: work, the streams that keep it in order, and who runs it when.
//
// Work runs when somebody must wait for it, and in an order between streams that is drawn by
// lot; else a thread runs it a few milliseconds later, so that a missing wait shows.

#include "core.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

// ---- Work ------------------------------------------------------------------------------

sim_op *sim_op_new(const char *call, size_t payload, CUresult (*run)(sim_op *)) {
    sim_op *op = calloc(1, sizeof *op + payload);
    if (op == NULL) return NULL;
    op->refs = 1;
    op->call = call;
    op->run = run;
    return op;
}

void sim_op_retain(sim_op *op) { op->refs++; }

static void forget_deps(sim_op *op) {
    for (size_t i = 0; i < op->dep_count; i++) sim_op_drop(op->deps[i]);
    free(op->deps);
    op->deps = NULL;
    op->dep_count = 0;
}

void sim_op_drop(sim_op *op) {
    if (--op->refs > 0) return;
    forget_deps(op);
    if (op->release) op->release(op);
    free(op);
}

CUresult sim_op_after(sim_op *op, sim_op *before) {
    if (before->done) return CUDA_SUCCESS;
    sim_op **more = realloc(op->deps, (op->dep_count + 1) * sizeof *more);
    if (more == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    op->deps = more;
    op->deps[op->dep_count++] = before;
    sim_op_retain(before);
    return CUDA_SUCCESS;
}

// after_legacy makes op wait for what other streams of the context have, by the rules of the
// legacy stream ("Stream synchronization behavior").
static CUresult after_legacy(sim_stream *s, sim_op *op) {
    sim_context *c = s->ctx;
    if (s == c->legacy) {
        for (sim_stream *other = c->streams; other; other = other->next) {
            if (other == s || (other->flags & CU_STREAM_NON_BLOCKING) || other->last == NULL) continue;
            CUresult r = sim_op_after(op, other->last);
            if (r != CUDA_SUCCESS) return r;
        }
    } else if (!(s->flags & CU_STREAM_NON_BLOCKING) && c->legacy && c->legacy->last) {
        return sim_op_after(op, c->legacy->last);
    }
    return CUDA_SUCCESS;
}

enum { LATEST = 4000000 };  // ns after which the thread runs what nobody waits for

CUresult sim_enqueue(sim_stream *s, sim_op *op) {
    if (s->capture) {
        CUresult r = sim_capture_take(s, op);
        sim_op_drop(op);
        return r;
    }
    CUresult r = after_legacy(s, op);
    if (r != CUDA_SUCCESS) {
        sim_op_drop(op);
        return r;
    }
    op->stream = s;
    op->ctx = s->ctx;
    op->due = sim_now() + 1000000 + sim_random() % LATEST;
    if (s->tail) {
        s->tail->next = op;
    } else {
        s->head = op;
    }
    s->tail = op;
    if (s->last) sim_op_drop(s->last);
    sim_op_retain(op);
    s->last = op;
    s->queries = 0;
    pthread_cond_broadcast(&sim.changed);
    return CUDA_SUCCESS;
}

static bool deps_done(const sim_op *op) {
    for (size_t i = 0; i < op->dep_count; i++)
        if (!op->deps[i]->done) return false;
    return true;
}

// runnable is the first work of a stream if it may run now.
static sim_op *runnable(sim_stream *s) {
    sim_op *op = s->head;
    if (op == NULL || s->running || !deps_done(op)) return NULL;
    if (op->ready && op->ctx->sticky == CUDA_SUCCESS && !op->ready(op)) return NULL;
    return op;
}

// run runs the first work of a stream. It lets go of the lock for host functions.
static void run(sim_stream *s) {
    sim_op *op = s->head;
    CUresult r = CUDA_SUCCESS;
    if (op->ctx->sticky == CUDA_SUCCESS || op->always) {
        if (op->unlocked) {
            s->running = true;
            pthread_mutex_unlock(&sim.mu);
            sim_in_callback = true;
            r = op->run(op);
            sim_in_callback = false;
            pthread_mutex_lock(&sim.mu);
            s->running = false;
        } else {
            r = op->run(op);
        }
    }
    if (r != CUDA_SUCCESS) {
        sim_misuse(op->call, "asynchronous work failed with %d", (int)r);
        sim_fail_context(op->ctx, r);
    }
    op->done = true;
    op->finished = sim_now();
    s->head = op->next;
    if (s->head == NULL) s->tail = NULL;
    s->queries = 0;
    forget_deps(op);
    sim_op_drop(op);
    if (s->destroyed && s->head == NULL) sim_stream_free(s);
    pthread_cond_broadcast(&sim.changed);
}

// needed finds work that can run now and that op waits for, NULL where there is none.
static sim_stream *needed(sim_op *op, int depth) {
    if (op->done || op->stream == NULL || depth > 10000) return NULL;
    sim_stream *s = op->stream;
    if (runnable(s)) return s;
    if (s->running || s->head == NULL) return NULL;
    for (size_t i = 0; i < s->head->dep_count; i++) {
        sim_stream *found = needed(s->head->deps[i], depth + 1);
        if (found) return found;
    }
    return NULL;
}

// anything is a stream with work that can run, drawn by lot among those due at a time.
static sim_stream *anything(uint64_t due) {
    sim_stream *chosen = NULL;
    unsigned n = 0;
    for (sim_context *c = sim.contexts; c; c = c->next)
        for (sim_stream *s = c->streams; s; s = s->next)
            if (s->head && s->head->due <= due && runnable(s) && sim_random() % ++n == 0) chosen = s;
    return chosen;
}

static void nap(long ns) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ns;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&sim.changed, &sim.mu, &until);
}

CUresult sim_wait(sim_op *op) {
    sim_context *c = op->ctx;
    while (!op->done) {
        sim_stream *s = sim_random() % 8 == 0 && !sim.hold ? anything(UINT64_MAX) : NULL;
        if (s == NULL) s = needed(op, 0);
        // What it waits for may be a value that other work sets: nothing is held back then.
        if (s == NULL && sim.hold) s = anything(UINT64_MAX);
        if (s) {
            run(s);
        } else {
            nap(200000);
        }
    }
    return c ? c->sticky : CUDA_SUCCESS;
}

CUresult sim_wait_stream(sim_stream *s) {
    sim_context *c = s->ctx;
    sim_op *last = s->last;
    if (last == NULL || last->done) return c->sticky;
    sim_op_retain(last);
    CUresult r = sim_wait(last);
    sim_op_drop(last);
    return r;
}

CUresult sim_wait_context(sim_context *c) {
    for (bool again = true; again;) {
        again = false;
        for (sim_stream *s = c->streams; s && !again; s = s->next)
            if (s->head) {
                sim_wait_stream(s);
                again = true;
            }
    }
    return c->sticky;
}

static void *worker(void *unused) {
    pthread_mutex_lock(&sim.mu);
    for (;;) {
        sim_stream *s = sim.hold ? NULL : anything(sim_now());
        if (s) {
            run(s);
        } else {
            nap(1000000);
        }
    }
    return unused;
}

void sim_start_worker(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, NULL) == 0) pthread_detach(thread);
}

// ---- Streams ---------------------------------------------------------------------------

static uint64_t last_id;

sim_stream *sim_stream_new(sim_context *ctx, unsigned flags, int priority) {
    sim_stream *s = calloc(1, sizeof *s);
    if (s == NULL) return NULL;
    s->ctx = ctx;
    s->flags = flags;
    s->priority = priority;
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
    sim_wait_context(c);
    while (c->events) {
        sim_live(SIM_ABANDONED, 1);
        sim_event_free(c->events);
    }
    while (c->streams) {
        sim_stream *s = c->streams;
        if (s->handle) {
            sim_live(SIM_ABANDONED, 1);
            sim_live(SIM_STREAMS, -1);
            sim_handle_drop(s->handle);
        }
        sim_stream_free(s);
    }
}

sim_stream *sim_stream_get(const sim_scope *scope, CUstream handle, CUresult *error) {
    sim_context *c = scope->ctx;
    *error = CUDA_ERROR_OUT_OF_MEMORY;
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        if (c->legacy == NULL) c->legacy = sim_stream_new(c, 0, 0);
        if (c->legacy == NULL) return NULL;
        for (sim_stream *s = c->streams; s; s = s->next)
            if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
                sim_capture_refuses(s);
                *error = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
                return NULL;
            }
        return c->legacy;
    }
    if (handle == CU_STREAM_PER_THREAD) {
        for (sim_stream *s = c->streams; s; s = s->next)
            if (s->per_thread && pthread_equal(s->thread, pthread_self())) return s;
        sim_stream *s = sim_stream_new(c, 0, 0);
        if (s) {
            s->per_thread = true;
            s->thread = pthread_self();
        }
        return s;
    }
    sim_stream *s = sim_handle_get(SIM_STREAMS, handle, scope->call);
    *error = CUDA_ERROR_INVALID_HANDLE;
    return s;
}

CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
    ENTER(cuStreamCreateWithPriority, SIM_CONTEXT);
    if (out == NULL || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_new(scope.ctx, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority);
    if (s == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    s->handle = sim_handle_new(SIM_STREAMS, s);
    sim_live(SIM_STREAMS, 1);
    *out = s->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamCreate(CUstream *out, unsigned flags) {
    ENTER(cuStreamCreate, SIM_CONTEXT);
    if (out == NULL || flags > CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_new(scope.ctx, flags, 0);
    if (s == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    s->handle = sim_handle_new(SIM_STREAMS, s);
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
    if (s->head == NULL) sim_stream_free(s);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
    ENTER(cuStreamSynchronize, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    if (sim_capture_refuses(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    return sim_wait_stream(s);
}

bool sim_progress(sim_stream *s, sim_op *op) {
    if (++s->queries % 4 || sim.hold) return false;
    sim_stream *next = needed(op, 0);
    if (next) run(next);
    return next != NULL;
}

CUresult CUDAAPI cuStreamQuery(CUstream stream) {
    ENTER(cuStreamQuery, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    if (sim_capture_refuses(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->head) sim_progress(s, s->last);
    return scope.ctx->sticky ? scope.ctx->sticky : s->head ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext *out) {
    ENTER(cuStreamGetCtx, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    *out = s->ctx->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetFlags(CUstream stream, unsigned *out) {
    ENTER(cuStreamGetFlags, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    *out = s->flags;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetPriority(CUstream stream, int *out) {
    ENTER(cuStreamGetPriority, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    *out = s->priority;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long *out) {
    ENTER(cuStreamGetId, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    *out = s->id;
    return CUDA_SUCCESS;
}

// ---- Host functions --------------------------------------------------------------------

struct host_function {
    CUhostFn function;
    void *data;
};

static CUresult run_host(sim_op *op) {
    struct host_function *h = (struct host_function *)op->payload;
    h->function(h->data);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function, void *data) {
    ENTER(cuLaunchHostFunc, SIM_CONTEXT);
    CUresult error;
    if (function == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    sim_op *op = sim_op_new(scope.call, sizeof(struct host_function), run_host);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *(struct host_function *)op->payload = (struct host_function){function, data};
    op->unlocked = true;
    op->node = CU_GRAPH_NODE_TYPE_HOST;
    return sim_enqueue(s, op);
}
