// memop.c: streams that wait for values in memory ("Stream memory operations").

#include "core.h"

struct memop {
    uintptr_t address;
    uint32_t value;
    unsigned flags;
};

static const void *place(const sim_op *op) {
    const struct memop *m = (const struct memop *)op->payload;
    return sim_translate_from(op->ctx, m->address, sizeof m->value, false);
}

static bool reached(sim_op *op) {
    const struct memop *m = (const struct memop *)op->payload;
    const uint32_t *at = place(op);
    if (at == NULL) return true;  // it fails when it runs
    // The host, or another process, may write it at any time.
    uint32_t v = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    switch (m->flags) {
    case CU_STREAM_WAIT_VALUE_GEQ: return (int32_t)(v - m->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return v == m->value;
    case CU_STREAM_WAIT_VALUE_AND: return (v & m->value) != 0;
    default: return ~(v | m->value) != 0;
    }
}

static CUresult wait(sim_op *op) { return place(op) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS; }

// Flushing remote writes is not offered: CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES is 0.
CUresult CUDAAPI cuStreamWaitValue32(CUstream stream, CUdeviceptr at, cuuint32_t value,
                                     unsigned flags) {
    ENTER(cuStreamWaitValue32, SIM_CONTEXT);
    CUresult error;
    if (flags & CU_STREAM_WAIT_VALUE_FLUSH) return CUDA_ERROR_NOT_SUPPORTED;
    if (flags > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    if (at == 0 || at % sizeof value) return CUDA_ERROR_INVALID_VALUE;
    if (sim_range_find(at) == NULL) {
        sim_misuse(scope.call, "%p is no memory that CUDA knows", (void *)at);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_op *op = sim_op_new(scope.call, sizeof(struct memop), wait);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *(struct memop *)op->payload = (struct memop){at, value, flags};
    op->ready = reached;
    return sim_enqueue(s, op);
}
