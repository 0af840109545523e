// hostfunc.c: functions of the host in the order of a stream.

#include "core.h"

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
    return sim_enqueue(s, op);
}

struct callback {
    CUstreamCallback function;
    CUstream stream;
    void *data;
};

static CUresult run_callback(sim_op *op) {
    struct callback *c = (struct callback *)op->payload;
    pthread_mutex_lock(&sim.mu);
    CUresult sticky = op->ctx->sticky;
    pthread_mutex_unlock(&sim.mu);
    c->function(c->stream, sticky, c->data);
    return CUDA_SUCCESS;
}

// Unlike a host function it is called, with the error, where the context has failed; and it is
// not captured.
CUresult CUDAAPI cuStreamAddCallback(CUstream stream, CUstreamCallback function, void *data,
                                     unsigned flags) {
    ENTER(cuStreamAddCallback, SIM_CONTEXT);
    CUresult error;
    if (function == NULL || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    if (sim_capture_refuses(s)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    sim_op *op = sim_op_new(scope.call, sizeof(struct callback), run_callback);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *(struct callback *)op->payload = (struct callback){function, stream, data};
    op->unlocked = true;
    op->always = true;
    return sim_enqueue(s, op);
}
