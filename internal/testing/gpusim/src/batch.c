// batch.c: many copies in one call (cuMemcpyBatchAsync).

#include <stdlib.h>

#include "copy.h"

// attributes is CUmemcpyAttributes, which headers have since CUDA 12.8.
struct attributes {
    int order;  // CUmemcpySrcAccessOrder
    int source_hint[2], destination_hint[2];
    unsigned flags;
};

#if CUDA_VERSION >= 12080
_Static_assert(sizeof(struct attributes) == sizeof(CUmemcpyAttributes), "the header's struct");
#endif

enum { STREAM = 1, DURING_CALL = 2, ANY = 3, OVERLAP = 1 };

// batch are the arguments of both versions.
struct batch {
    const CUdeviceptr *dsts, *srcs;
    const size_t *sizes;
    size_t count;
    const struct attributes *attributes;
    const size_t *first;  // the copy that each of the attributes begins with
    size_t number;        // of attributes
};

// valid checks the lists: "the first entry in attrsIdxs must always be 0. Also, each entry must be
// greater than the previous entry and the last entry should be less than count."
static bool valid(const struct batch *b) {
    if (!b->dsts || !b->srcs || !b->sizes || !b->attributes || !b->first || b->number == 0 ||
        b->number > b->count || b->first[0] != 0)
        return false;
    for (size_t i = 0; i < b->number; i++) {
        const struct attributes *a = &b->attributes[i];
        if (a->order < STREAM || a->order > ANY || a->flags > OVERLAP ||
            (i > 0 && b->first[i] <= b->first[i - 1]) || b->first[i] >= b->count)
            return false;
    }
    return true;
}

// dependent reports whether a copy writes what another one reads or writes: "specifying any
// dependent copies within a batch will result in undefined behavior".
static bool dependent(const struct batch *b) {
    for (size_t i = 0; i < b->count; i++)
        for (size_t k = 0; k < b->count; k++) {
            uintptr_t end = b->dsts[i] + b->sizes[i];
            bool writes = k != i && b->dsts[i] < b->dsts[k] + b->sizes[k] && b->dsts[k] < end;
            bool reads = b->dsts[i] < b->srcs[k] + b->sizes[k] && b->srcs[k] < end;
            if (writes || reads) return true;
        }
    return false;
}

// "copies within a batch are not guaranteed to execute in any specific order"; a batch that fails
// may have begun.
static CUresult enqueue(const sim_scope *scope, const struct batch *b, CUstream stream,
                        size_t *failed) {
    *failed = SIZE_MAX;
    if (stream == NULL || stream == CU_STREAM_LEGACY) return CUDA_ERROR_INVALID_VALUE;
    if (!valid(b)) return CUDA_ERROR_INVALID_VALUE;
    if (dependent(b)) sim_misuse(scope->call, "the copies depend on each other");
    size_t *order = malloc(b->count * sizeof *order);
    if (order == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < b->count; i++) {
        size_t k = sim_random() % (i + 1);
        order[i] = order[k];
        order[k] = i;
    }
    CUresult r = CUDA_SUCCESS;
    for (size_t n = 0; n < b->count && r == CUDA_SUCCESS; n++) {
        size_t i = order[n], a = b->number - 1;
        while (b->first[a] > i) a--;
        struct box box = {
            .dst = {.at = b->dsts[i]}, .src = {.at = b->srcs[i]}, .row = b->sizes[i],
            .rows = 1, .slices = 1, .late = b->attributes[a].order != DURING_CALL};
        r = sim_box_enqueue(scope, box, stream, false);
        if (r != CUDA_SUCCESS) *failed = i;
    }
    free(order);
    return r;
}

// The names are those of the library; the header's cuMemcpyBatchAsync is the newer function since
// CUDA 13.
SIM_API CUresult CUDAAPI sim_batch_12(const CUdeviceptr *, const CUdeviceptr *, const size_t *,
                                      size_t, const struct attributes *, const size_t *, size_t,
                                      size_t *, CUstream) __asm__("cuMemcpyBatchAsync");
SIM_API CUresult CUDAAPI sim_batch_13(const CUdeviceptr *, const CUdeviceptr *, const size_t *,
                                      size_t, const struct attributes *, const size_t *, size_t,
                                      CUstream) __asm__("cuMemcpyBatchAsync_v2");

CUresult CUDAAPI sim_batch_12(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                              const size_t *sizes, size_t count, const struct attributes *a,
                              const size_t *first, size_t number, size_t *fail,
                              CUstream stream) {
    if (sim_batch_version() < 12) return CUDA_ERROR_NOT_SUPPORTED;
    ENTER(cuMemcpyBatchAsync, SIM_CONTEXT);
    struct batch b = {dsts, srcs, sizes, count, a, first, number};
    size_t failed;
    CUresult r = enqueue(&scope, &b, stream, &failed);
    if (fail) *fail = failed;
    return r;
}

CUresult CUDAAPI sim_batch_13(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                              const size_t *sizes, size_t count, const struct attributes *a,
                              const size_t *first, size_t number, CUstream stream) {
    if (sim_batch_version() < 13) return CUDA_ERROR_NOT_SUPPORTED;
    ENTER(cuMemcpyBatchAsync, SIM_CONTEXT);
    struct batch b = {dsts, srcs, sizes, count, a, first, number};
    size_t failed;
    return enqueue(&scope, &b, stream, &failed);
}
