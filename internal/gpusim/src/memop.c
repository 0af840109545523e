// memop.c: streams that wait for values in memory, and write them ("Stream memory operations").

#include "core.h"

struct memop {
    uintptr_t address;
    uint64_t value;
    unsigned bytes, flags;
};

static bool reached(sim_op *op) {
    const struct memop *m = (const struct memop *)op->payload;
    const void *at = sim_translate_from(op->ctx, m->address, m->bytes, false);
    if (at == NULL) return true;  // it fails when it runs
    // The host, or another process, may write it at any time.
    uint64_t v = m->bytes == 4 ? __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE)
                               : __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE);
    switch (m->flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
        return m->bytes == 4 ? (int32_t)(uint32_t)(v - m->value) >= 0
                             : (int64_t)(v - m->value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ: return v == m->value;
    case CU_STREAM_WAIT_VALUE_AND: return (v & m->value) != 0;
    default: return m->bytes == 4 ? (uint32_t)~(v | m->value) != 0 : ~(v | m->value) != 0;
    }
}

static CUresult wait(sim_op *op) {
    const struct memop *m = (const struct memop *)op->payload;
    return sim_translate_from(op->ctx, m->address, m->bytes, false) ? CUDA_SUCCESS
                                                                    : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static CUresult write(sim_op *op) {
    const struct memop *m = (const struct memop *)op->payload;
    void *at = sim_translate_from(op->ctx, m->address, m->bytes, true);
    if (at == NULL) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (m->bytes == 4)
        __atomic_store_n((uint32_t *)at, (uint32_t)m->value, __ATOMIC_RELEASE);
    else
        __atomic_store_n((uint64_t *)at, m->value, __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

static CUresult enqueue(const sim_scope *scope, CUstream stream, struct memop m, bool waits) {
    CUresult error;
    sim_stream *s = sim_stream_get(scope, stream, &error);
    if (s == NULL) return error;
    if (m.address == 0 || m.address % m.bytes) return CUDA_ERROR_INVALID_VALUE;
    sim_range *r = sim_range_find(m.address);
    if (r == NULL) {
        sim_misuse(scope->call, "%p is no memory that CUDA knows", (void *)m.address);
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_op *op = sim_op_new(scope->call, sizeof m, waits ? wait : write);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    *(struct memop *)op->payload = m;
    op->node = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP;
    if (waits) op->ready = reached;
    return sim_enqueue(s, op);
}

// Flushing remote writes is not offered: CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES is 0.
#define MEMOP(bits)                                                                            \
    CUresult CUDAAPI cuStreamWaitValue##bits(CUstream stream, CUdeviceptr at,                  \
                                             cuuint##bits##_t value, unsigned flags) {         \
        ENTER(cuStreamWaitValue##bits, SIM_CONTEXT);                                           \
        if (flags & CU_STREAM_WAIT_VALUE_FLUSH) return CUDA_ERROR_NOT_SUPPORTED;               \
        if (flags > CU_STREAM_WAIT_VALUE_NOR) return CUDA_ERROR_INVALID_VALUE;                 \
        return enqueue(&scope, stream, (struct memop){at, value, sizeof value, flags}, true);  \
    }                                                                                          \
    CUresult CUDAAPI cuStreamWriteValue##bits(CUstream stream, CUdeviceptr at,                 \
                                              cuuint##bits##_t value, unsigned flags) {        \
        ENTER(cuStreamWriteValue##bits, SIM_CONTEXT);                                          \
        if (flags > CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) return CUDA_ERROR_INVALID_VALUE;  \
        return enqueue(&scope, stream, (struct memop){at, value, sizeof value, flags}, false); \
    }
MEMOP(32)
MEMOP(64)
