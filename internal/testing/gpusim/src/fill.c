// fill.c: memory that is filled with a pattern.

#include "copy.h"

#include <string.h>

// fill enqueues n units of up to four bytes.
static CUresult fill(const sim_scope *scope, CUdeviceptr dst, unsigned value, size_t unit, size_t n,
                     CUstream stream) {
    struct box b = {
        .dst = {.at = dst, .known = true}, .rows = 1, .slices = 1, .fill = true, .unit = unit};
    if (dst % unit || __builtin_mul_overflow(n, unit, &b.row)) return CUDA_ERROR_INVALID_VALUE;
    memcpy(b.pattern, &value, unit);
    return sim_box_enqueue(scope, b, stream, false);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t n, CUstream stream) {
    ENTER(cuMemsetD8Async, SIM_CONTEXT);
    return fill(&scope, dst, value, sizeof value, n, stream);
}

CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t n, CUstream stream) {
    ENTER(cuMemsetD32Async, SIM_CONTEXT);
    return fill(&scope, dst, value, sizeof value, n, stream);
}
