// work.c: work, its order, and who runs it when.
//
// Work runs when somebody must wait for it, and in an order between streams that is drawn by
// lot; else a thread runs it a few milliseconds later, so that a missing wait shows.

#include "core.h"

#include <signal.h>
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
            if (other == s || (other->flags & CU_STREAM_NON_BLOCKING) || other->last == NULL)
                continue;
            CUresult r = sim_op_after(op, other->last);
            if (r != CUDA_SUCCESS) return r;
        }
    } else if (!(s->flags & CU_STREAM_NON_BLOCKING) && c->legacy && c->legacy->last) {
        return sim_op_after(op, c->legacy->last);
    }
    return CUDA_SUCCESS;
}

static uint64_t last_number;

CUresult sim_enqueue(sim_stream *s, sim_op *op) {
    if (s->capture) {
        CUresult r = sim_capture_take(s);
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
    op->number = ++last_number;
    op->due = sim_now() + sim.latest / 5 + sim_random() % (sim.latest / 5 * 4 + 1);
    if (s->tail)
        s->tail->next = op;
    else
        s->head = op;
    s->tail = op;
    if (s->last) sim_op_drop(s->last);
    sim_op_retain(op);
    s->last = op;
    s->queries = 0;
    sim_managed_take();
    pthread_cond_broadcast(&sim.changed);
    return CUDA_SUCCESS;
}

static bool deps_done(const sim_op *op) {
    for (size_t i = 0; i < op->dep_count; i++)
        if (!op->deps[i]->done) return false;
    return true;
}

// "Host functions without a mandated order [...] may be serialized": they are.
static bool host_runs;

// queued reports that work lies behind older work of another stream. Nothing promises that streams
// run side by side: with one queue for all of a context, each waits for what was enqueued before.
static bool queued(const sim_op *op) {
    if (!sim.one_queue) return false;
    for (const sim_stream *s = op->ctx->streams; s; s = s->next)
        if (s->head && s->head->number < op->number) return true;
    return false;
}

// runnable is the first work of a stream if it may run now.
static sim_op *runnable(sim_stream *s) {
    sim_op *op = s->head;
    if (op == NULL || s->running || !deps_done(op) || (op->unlocked && host_runs) || queued(op))
        return NULL;
    if (op->ready && op->ctx->sticky == CUDA_SUCCESS && !op->ready(op)) return NULL;
    return op;
}

// run runs the first work of a stream. It lets go of the lock for host functions.
static void run(sim_stream *s) {
    sim_op *op = s->head;
    CUresult r = CUDA_SUCCESS;
    if (op->ctx->sticky == CUDA_SUCCESS || op->always) {
        if (op->unlocked) {
            s->running = host_runs = true;
            pthread_mutex_unlock(&sim.mu);
            sim_in_callback = true;
            r = op->run(op);
            sim_in_callback = false;
            pthread_mutex_lock(&sim.mu);
            s->running = host_runs = false;
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

static uint64_t searches;

static sim_stream *search(const sim_op *op) {
    sim_stream *s = op->stream;
    if (op->done || s == NULL || s->searched == searches) return NULL;
    s->searched = searches;
    if (runnable(s)) return s;
    if (s->running || s->head == NULL) return NULL;
    for (size_t i = 0; i < s->head->dep_count; i++) {
        sim_stream *found = search(s->head->deps[i]);
        if (found) return found;
    }
    return NULL;
}

// needed finds a stream whose work can run now and that op waits for, NULL where there is none.
static sim_stream *needed(const sim_op *op) {
    searches++;
    return search(op);
}

// anything is a stream with work that can run, drawn by lot among those due at a time.
static sim_stream *anything(uint64_t due) {
    sim_stream *chosen = NULL;
    unsigned n = 0;
    for (sim_context *c = sim.contexts; c; c = c->next)
        for (sim_stream *s = c->streams; s; s = s->next)
            if (s->head && s->head->due <= due && runnable(s) && sim_random() % ++n == 0)
                chosen = s;
    return chosen;
}

void sim_nap(long ns) {
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
        if (s == NULL) s = needed(op);
        // What it waits for may be a value that other work sets: nothing is held back then.
        if (s == NULL && (sim.hold || sim.one_queue)) s = anything(UINT64_MAX);
        if (s)
            run(s);
        else
            sim_nap(200000);
    }
    sim_managed_settle();
    return c ? c->sticky : CUDA_SUCCESS;
}

CUresult sim_wait_stream(sim_stream *s) {
    sim_context *c = s->ctx;
    sim_op *last = s->last;
    if (last == NULL || last->done) {
        sim_managed_settle();
        return c->sticky;
    }
    sim_op_retain(last);
    CUresult r = sim_wait(last);
    sim_op_drop(last);
    return r;
}

// older is a stream of the context with work that was enqueued up to a number, drawn by lot.
static sim_stream *older(sim_context *c, uint64_t number) {
    sim_stream *chosen = NULL;
    unsigned n = 0;
    for (sim_stream *s = c->streams; s; s = s->next)
        if (s->head && s->head->number <= number && sim_random() % ++n == 0) chosen = s;
    return chosen;
}

CUresult sim_wait_context(sim_context *c) {
    uint64_t newest = last_number;  // what others add meanwhile is not waited for
    for (sim_stream *s; (s = older(c, newest)) != NULL;) {
        sim_op *op = s->head;
        sim_op_retain(op);
        sim_wait(op);
        sim_op_drop(op);
    }
    sim_managed_settle();
    return c->sticky;
}

static void *worker(void *unused) {
    pthread_mutex_lock(&sim.mu);
    for (;;) {
        sim_stream *s = sim.hold ? NULL : anything(sim_now());
        if (s)
            run(s);
        else
            sim_nap((long)sim.latest / 5);
    }
    return unused;
}

void sim_start_worker(void) {
    sigset_t all, before;
    sigfillset(&all);  // signals are for the program's own threads
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, NULL) == 0) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool sim_progress(sim_stream *s, sim_op *op) {
    if (++s->queries % 4 || sim.hold) return false;
    sim_stream *next = needed(op);
    if (next == NULL || next->head->unlocked) return false;  // a query waits for no host function
    run(next);
    return true;
}
