// capture.c: streams that are captured into graphs, and graphs that are launched. A graph
// is its work in the order in which it was captured.

#include "core.h"

#include <stdlib.h>

struct sim_capture {
    CUstreamCaptureMode mode;
    pthread_t thread;
    bool invalid;
    sim_op **ops;
    size_t count;
    sim_stream *stream;  // that the capture began on
    struct sim_capture *next;
};

struct sim_graph {
    sim_op **ops;
    size_t count;
};

static sim_capture *captures;  // under way
static _Thread_local CUstreamCaptureMode mode;  // CU_STREAM_CAPTURE_MODE_GLOBAL is 0

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *other) {
    ENTER(cuThreadExchangeStreamCaptureMode, SIM_INIT);
    if (other == NULL || *other > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
    CUstreamCaptureMode before = mode;
    mode = *other;
    *other = before;
    return CUDA_SUCCESS;
}

bool sim_capture_forbids(void) {
    if (mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    bool forbids = false;
    for (sim_capture *c = captures; c; c = c->next) {
        bool own = pthread_equal(c->thread, pthread_self());
        if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED) continue;
        if (own || (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) forbids = c->invalid = true;
    }
    return forbids;
}

bool sim_capture_refuses(sim_stream *s) {
    if (s->capture == NULL) return false;
    s->capture->invalid = true;
    return true;
}

static CUresult append(sim_op ***list, size_t *count, sim_op *op) {
    sim_op **more = realloc(*list, (*count + 1) * sizeof *more);
    if (more == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *list = more;
    more[(*count)++] = op;
    sim_op_retain(op);
    return CUDA_SUCCESS;
}

static void forget(sim_op **ops, size_t count) {
    for (size_t i = 0; i < count; i++) sim_op_drop(ops[i]);
    free(ops);
}

CUresult sim_capture_take(sim_stream *s, sim_op *op) {
    if (s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    op->ctx = s->ctx;
    return append(&s->capture->ops, &s->capture->count, op);
}

CUresult CUDAAPI cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode how) {
    ENTER(cuStreamBeginCapture, SIM_CONTEXT);
    CUresult error;
    if (stream == NULL || stream == CU_STREAM_LEGACY) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    if (s->capture || how > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_ILLEGAL_STATE;
    sim_capture *c = calloc(1, sizeof *c);
    if (c == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *c = (sim_capture){.mode = how, .thread = pthread_self(), .stream = s, .next = captures};
    captures = s->capture = c;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    ENTER(cuStreamIsCapturing, SIM_CONTEXT);
    CUresult error;
    if (status == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    *status = s->capture == NULL ? CU_STREAM_CAPTURE_STATUS_NONE : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *out) {
    ENTER(cuStreamEndCapture, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    sim_capture *c = s->capture;
    if (c == NULL || out == NULL) return CUDA_ERROR_ILLEGAL_STATE;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self())) return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    for (sim_capture **p = &captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    s->capture = NULL;
    *out = NULL;
    sim_graph *g = c->invalid ? NULL : calloc(1, sizeof *g);
    CUresult r = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (g) {
        *g = (sim_graph){c->ops, c->count};
        *out = sim_handle_new(SIM_GRAPHS, g);
        sim_live(SIM_GRAPHS, 1);
    } else {
        forget(c->ops, c->count);
    }
    free(c);
    return r;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
    ENTER(cuGraphDestroy, SIM_INIT | SIM_RELEASE);
    sim_graph *g = sim_handle_get(SIM_GRAPHS, graph, scope.call);
    if (g == NULL) return CUDA_ERROR_INVALID_VALUE;
    forget(g->ops, g->count);
    free(g);
    sim_handle_drop(graph);
    sim_live(SIM_GRAPHS, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
    ENTER(cuGraphGetNodes, SIM_INIT);
    sim_graph *g = sim_handle_get(SIM_GRAPHS, graph, scope.call);
    if (g == NULL || n == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (nodes) return CUDA_ERROR_NOT_SUPPORTED;  // only how many there are
    *n = g->count;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags) {
    ENTER(cuGraphInstantiateWithFlags, SIM_CONTEXT);
    sim_graph *g = sim_handle_get(SIM_GRAPHS, graph, scope.call);
    if (g == NULL || out == NULL || flags) return CUDA_ERROR_INVALID_VALUE;
    sim_graph *x = calloc(1, sizeof *x);
    if (x == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->count; i++) {
        if (append(&x->ops, &x->count, g->ops[i]) == CUDA_SUCCESS) continue;
        forget(x->ops, x->count);
        free(x);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *out = sim_handle_new(SIM_GRAPH_EXECS, x);
    sim_live(SIM_GRAPH_EXECS, 1);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
    ENTER(cuGraphExecDestroy, SIM_INIT | SIM_RELEASE);
    sim_graph *x = sim_handle_get(SIM_GRAPH_EXECS, exec, scope.call);
    if (x == NULL) return CUDA_ERROR_INVALID_VALUE;
    forget(x->ops, x->count);
    free(x);
    sim_handle_drop(exec);
    sim_live(SIM_GRAPH_EXECS, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}

// node stands in a stream for one of a graph's, which it runs.
static CUresult run_node(sim_op *op) {
    sim_op *node = *(sim_op **)op->payload;
    node->ctx = op->ctx;
    return node->run(node);
}

static void release_node(sim_op *op) { sim_op_drop(*(sim_op **)op->payload); }

CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    ENTER(cuGraphLaunch, SIM_CONTEXT);
    CUresult error;
    sim_graph *x = sim_handle_get(SIM_GRAPH_EXECS, exec, scope.call);
    if (x == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    for (size_t i = 0; i < x->count; i++) {
        sim_op *op = sim_op_new(scope.call, sizeof(sim_op *), run_node);
        if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        *(sim_op **)op->payload = x->ops[i];
        sim_op_retain(x->ops[i]);
        op->release = release_node;
        op->unlocked = x->ops[i]->unlocked;
        error = sim_enqueue(s, op);
        if (error != CUDA_SUCCESS) return error;
    }
    return CUDA_SUCCESS;
}
