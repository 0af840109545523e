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
    uint64_t id;
    struct sim_capture *next;
};

// sim_graph is a graph, or one that was made ready to be launched.
struct sim_graph {
    sim_op **ops;
    size_t count;
    sim_op *last;  // of the newest launch; retained
};

static sim_capture *captures;  // under way
static uint64_t last_id;
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
        if (own ||
            (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL && mode == CU_STREAM_CAPTURE_MODE_GLOBAL))
            forbids = c->invalid = true;
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

uint64_t sim_capture_id(const sim_stream *s) { return s->capture ? s->capture->id : 0; }

void sim_capture_abandon(sim_stream *s) {
    sim_capture *c = s->capture;
    if (c == NULL) return;
    for (sim_capture **p = &captures; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    s->capture = NULL;
    forget(c->ops, c->count);
    free(c);
}

static void graph_free(sim_graph *g) {
    forget(g->ops, g->count);
    if (g->last) sim_op_drop(g->last);
    free(g);
}

// graph_new makes a graph of its own references to the work.
static CUresult graph_new(sim_kind kind, sim_op **ops, size_t count, void **out) {
    sim_graph *g = calloc(1, sizeof *g);
    if (g == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = CUDA_SUCCESS;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) r = append(&g->ops, &g->count, ops[i]);
    void *handle = r == CUDA_SUCCESS ? sim_handle_new(kind, g) : NULL;
    if (handle == NULL) {
        graph_free(g);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sim_live(kind, 1);
    *out = handle;
    return CUDA_SUCCESS;
}

// graph_end destroys a graph by its handle. What was launched of it goes on.
static CUresult graph_end(const sim_scope *scope, sim_kind kind, const void *handle) {
    sim_graph *g = sim_handle_get(kind, handle, scope->call);
    if (g == NULL) return CUDA_ERROR_INVALID_VALUE;
    graph_free(g);
    sim_handle_drop(handle);
    sim_live(kind, -1);
    return CUDA_SUCCESS;
}

CUresult sim_capture_take(sim_stream *s, sim_op *op) {
    if (s->capture->invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
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
    *c = (sim_capture){.mode = how, .thread = pthread_self(), .id = ++last_id, .next = captures};
    captures = s->capture = c;
    return CUDA_SUCCESS;
}

static CUstreamCaptureStatus status_of(const sim_stream *s) {
    return s->capture == NULL    ? CU_STREAM_CAPTURE_STATUS_NONE
           : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    ENTER(cuStreamIsCapturing, SIM_CONTEXT);
    CUresult error;
    if (status == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_find(&scope, stream, &error);
    if (s == NULL) return error;
    // "The blocking stream capture is not invalidated."
    if (sim_legacy_captures(s)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = status_of(s);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph *out) {
    ENTER(cuStreamEndCapture, SIM_CONTEXT);
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    sim_capture *c = s->capture;
    if (c == NULL || out == NULL) return CUDA_ERROR_ILLEGAL_STATE;
    if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && !pthread_equal(c->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    *out = NULL;
    CUresult r = c->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                            : graph_new(SIM_GRAPHS, c->ops, c->count, (void **)out);
    sim_capture_abandon(s);
    return r;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
    ENTER(cuGraphDestroy, SIM_INIT | SIM_RELEASE);
    return SIM_RESULT(graph_end(&scope, SIM_GRAPHS, graph));
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *n) {
    ENTER(cuGraphGetNodes, SIM_INIT);
    sim_graph *g = sim_handle_get(SIM_GRAPHS, graph, scope.call);
    if (g == NULL || n == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (nodes) return CUDA_ERROR_NOT_SUPPORTED;  // only how many there are
    *n = g->count;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph,
                                             unsigned long long flags) {
    ENTER(cuGraphInstantiateWithFlags, SIM_CONTEXT);
    sim_graph *g = sim_handle_get(SIM_GRAPHS, graph, scope.call);
    if (g == NULL || out == NULL || flags) return CUDA_ERROR_INVALID_VALUE;
    return graph_new(SIM_GRAPH_EXECS, g->ops, g->count, (void **)out);
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec exec) {
    ENTER(cuGraphExecDestroy, SIM_INIT | SIM_RELEASE);
    return SIM_RESULT(graph_end(&scope, SIM_GRAPH_EXECS, exec));
}

// node_of is the work of a graph for which an op stands in a stream.
static sim_op *node_of(sim_op *op) { return *(sim_op **)op->payload; }

static CUresult run_node(sim_op *op) {
    sim_op *node = node_of(op);
    if (!op->unlocked) node->ctx = op->ctx;  // graphs may share it
    return node->run(node);
}

static bool ready_node(sim_op *op) { return node_of(op)->ready(node_of(op)); }

static void release_node(sim_op *op) { sim_op_drop(node_of(op)); }

// stand_in makes the op that stands for one of a graph's in a stream.
static sim_op *stand_in(const char *call, sim_op *node) {
    sim_op *op = sim_op_new(call, sizeof(sim_op *), run_node);
    if (op == NULL) return NULL;
    *(sim_op **)op->payload = node;
    sim_op_retain(node);
    op->release = release_node;
    op->unlocked = node->unlocked;
    op->always = node->always;
    op->node = node->node;
    if (node->ready) op->ready = ready_node;
    return op;
}

// "Each launch is ordered behind both any previous work in hStream and any previous launches of
// hGraphExec."
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
    ENTER(cuGraphLaunch, SIM_CONTEXT);
    CUresult r;
    sim_graph *x = sim_handle_get(SIM_GRAPH_EXECS, exec, scope.call);
    if (x == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(&scope, stream, &r);
    if (s == NULL) return r;
    for (size_t i = 0; i < x->count; i++) {
        sim_op *op = stand_in(scope.call, x->ops[i]);
        if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
        r = i == 0 && x->last && !s->capture ? sim_op_after(op, x->last) : CUDA_SUCCESS;
        if (r != CUDA_SUCCESS) {
            sim_op_drop(op);
            return r;
        }
        r = sim_enqueue(s, op);
        if (r != CUDA_SUCCESS) return r;
    }
    if (x->count == 0 || s->capture) return CUDA_SUCCESS;
    sim_op_retain(s->last);
    if (x->last) sim_op_drop(x->last);
    x->last = s->last;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status,
                                        cuuint64_t *id, CUgraph *graph,
                                        const CUgraphNode **dependencies, size_t *count) {
    ENTER(cuStreamGetCaptureInfo, SIM_CONTEXT);
    CUresult r;
    if (status == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_find(&scope, stream, &r);
    if (s == NULL) return r;
    if (sim_legacy_captures(s)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = status_of(s);
    if (s->capture == NULL) return CUDA_SUCCESS;
    if (graph || dependencies || count)
        return CUDA_ERROR_NOT_SUPPORTED;  // a graph is there only at its end
    if (id) *id = s->capture->id;
    return CUDA_SUCCESS;
}
