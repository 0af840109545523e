// semaphore.c: "External Resource Interoperability", semaphores: timelines of another driver,
// raised and waited for in the order of a stream. Those are all: no driver for the CPU exports
// binary semaphores, so nothing could be tested by them.

#include "sharing.h"

#include <stdlib.h>
#include <unistd.h>

// semaphore lives until it is destroyed and no work knows it any more.
typedef struct {
    unsigned refs;
    bool destroyed;
    sim_timeline *timeline;
} semaphore;

static void semaphore_drop(semaphore *s) {
    if (--s->refs != 0) return;
    sim_timeline_unmap(s->timeline);
    free(s);
}

CUresult CUDAAPI cuImportExternalSemaphore(CUexternalSemaphore *out,
                                           const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc) {
    ENTER(cuImportExternalSemaphore, SIM_CONTEXT);
    if (out == NULL || desc == NULL || desc->flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (desc->type < CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ||
        desc->type > CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD)
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_timeline *timeline;
    CUresult r = sim_timeline_map(desc->handle.fd, &timeline);
    if (r != CUDA_SUCCESS) return r;
    semaphore *s = malloc(sizeof *s);
    void *handle = s ? sim_handle_new(SIM_EXTERNAL_SEMAPHORES, s) : NULL;
    if (handle == NULL) {
        free(s);
        sim_timeline_unmap(timeline);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    close(desc->handle.fd);  // the driver's from here on, and not needed
    *s = (semaphore){.refs = 1, .timeline = timeline};
    sim_live(SIM_EXTERNAL_SEMAPHORES, +1);
    *out = handle;
    return CUDA_SUCCESS;
}

// "Any outstanding signals or waits must have completed": work that finds its semaphore
// destroyed tells.
CUresult CUDAAPI cuDestroyExternalSemaphore(CUexternalSemaphore handle) {
    ENTER(cuDestroyExternalSemaphore, SIM_INIT | SIM_RELEASE);
    semaphore *s = sim_handle_get(SIM_EXTERNAL_SEMAPHORES, handle, "cuDestroyExternalSemaphore");
    if (s == NULL) return CUDA_ERROR_INVALID_HANDLE;
    s->destroyed = true;
    semaphore_drop(s);
    sim_handle_drop(handle);
    sim_live(SIM_EXTERNAL_SEMAPHORES, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}

// ---- Work ------------------------------------------------------------------------------

// points are the payload of an op: values on timelines.
typedef struct {
    size_t count;
    struct point {
        semaphore *semaphore;
        uint64_t value;
    } at[];
} points;

static points *points_of(sim_op *op) { return (points *)op->payload; }

static void points_release(sim_op *op) {
    points *p = points_of(op);
    for (size_t i = 0; i < p->count; i++) semaphore_drop(p->at[i].semaphore);
}

static void check_alive(const sim_op *op, const semaphore *s) {
    if (s->destroyed)
        sim_misuse(op->call,
                   "the semaphore was destroyed before this was done: wait for the stream first");
}

static CUresult signal_run(sim_op *op) {
    const points *p = points_of(op);
    for (size_t i = 0; i < p->count; i++) {
        semaphore *s = p->at[i].semaphore;
        check_alive(op, s);
        if (!sim_timeline_raise(s->timeline, p->at[i].value))
            sim_misuse(op->call,
                       "value %llu is not larger than the semaphore's, %llu: values only grow",
                       (unsigned long long)p->at[i].value,
                       (unsigned long long)sim_timeline_value(s->timeline));
    }
    return CUDA_SUCCESS;
}

static bool wait_ready(sim_op *op) {
    const points *p = points_of(op);
    for (size_t i = 0; i < p->count; i++)
        if (sim_timeline_value(p->at[i].semaphore->timeline) < p->at[i].value) return false;
    return true;
}

static CUresult wait_run(sim_op *op) {
    const points *p = points_of(op);
    for (size_t i = 0; i < p->count; i++) check_alive(op, p->at[i].semaphore);
    return CUDA_SUCCESS;
}

// new_op makes an op that knows the semaphores, and finds its stream; the caller fills in
// the values.
static CUresult new_op(const sim_scope *scope, const CUexternalSemaphore *handles, unsigned count,
                       CUstream hstream, CUresult (*run)(sim_op *), sim_stream **stream,
                       sim_op **out) {
    CUresult error = CUDA_SUCCESS;
    *stream = sim_stream_get(scope, hstream, &error);
    if (*stream == NULL) return error;
    if (handles == NULL || count == 0) return CUDA_ERROR_INVALID_VALUE;
    sim_op *op = sim_op_new(scope->call, sizeof(points) + count * sizeof(struct point), run);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    op->release = points_release;
    points *p = points_of(op);
    for (; p->count < count; p->count++) {
        semaphore *s = sim_handle_get(SIM_EXTERNAL_SEMAPHORES, handles[p->count], scope->call);
        if (s == NULL) {
            sim_op_drop(op);
            return CUDA_ERROR_INVALID_HANDLE;
        }
        s->refs++;
        p->at[p->count].semaphore = s;
    }
    *out = op;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuSignalExternalSemaphoresAsync(
    const CUexternalSemaphore *handles, const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
    unsigned int count, CUstream hstream) {
    ENTER(cuSignalExternalSemaphoresAsync, SIM_CONTEXT);
    for (unsigned i = 0; i < count; i++)
        if (params == NULL || params[i].flags != 0) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *stream;
    sim_op *op;
    CUresult r = new_op(&scope, handles, count, hstream, signal_run, &stream, &op);
    if (r != CUDA_SUCCESS) return r;
    for (unsigned i = 0; i < count; i++) points_of(op)->at[i].value = params[i].params.fence.value;
    return sim_enqueue(stream, op);
}

CUresult CUDAAPI cuWaitExternalSemaphoresAsync(const CUexternalSemaphore *handles,
                                               const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
                                               unsigned int count, CUstream hstream) {
    ENTER(cuWaitExternalSemaphoresAsync, SIM_CONTEXT);
    for (unsigned i = 0; i < count; i++)
        if (params == NULL || params[i].flags != 0) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *stream;
    sim_op *op;
    CUresult r = new_op(&scope, handles, count, hstream, wait_run, &stream, &op);
    if (r != CUDA_SUCCESS) return r;
    for (unsigned i = 0; i < count; i++) points_of(op)->at[i].value = params[i].params.fence.value;
    op->ready = wait_ready;
    return sim_enqueue(stream, op);
}
