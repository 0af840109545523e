// capture.c: streams that are captured. A graph has no work, since none is launched.

#include "core.h"

#include <stdlib.h>

struct sim_capture {
    CUstreamCaptureMode mode;
    pthread_t thread;
    bool invalid;
    uint64_t id;
    struct sim_capture *next;
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

CUresult sim_capture_take(const sim_stream *s) {
    return s->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
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
    free(c);
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

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status) {
    ENTER(cuStreamIsCapturing, SIM_CONTEXT);
    CUresult error;
    if (status == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_find(&scope, stream, &error);
    if (s == NULL) return error;
    // "The blocking stream capture is not invalidated."
    if (sim_legacy_captures(s)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    *status = s->capture == NULL    ? CU_STREAM_CAPTURE_STATUS_NONE
              : s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                    : CU_STREAM_CAPTURE_STATUS_ACTIVE;
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
    bool invalid = c->invalid;
    sim_capture_abandon(s);
    if (invalid) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    static char graph;  // what the handles of all graphs lead to
    *out = sim_handle_new(SIM_GRAPHS, &graph);
    if (*out == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    sim_live(SIM_GRAPHS, 1);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph graph) {
    ENTER(cuGraphDestroy, SIM_INIT | SIM_RELEASE);
    if (sim_handle_get(SIM_GRAPHS, graph, scope.call) == NULL) return CUDA_ERROR_INVALID_VALUE;
    sim_handle_drop(graph);
    sim_live(SIM_GRAPHS, -1);
    return SIM_RESULT(CUDA_SUCCESS);
}
