// fill.c: memory that is filled with a pattern.

#include "copy.h"

#include <string.h>

// fill enqueues rows of n units of up to four bytes.
static CUresult fill(const sim_scope *scope, CUdeviceptr dst, size_t pitch, unsigned value,
                     size_t unit, size_t n, size_t rows, CUstream stream, bool wait) {
    struct box b = {.dst = {.at = dst, .pitch = pitch, .known = true},
                    .rows = rows,
                    .slices = 1,
                    .fill = true,
                    .unit = unit};
    if (dst % unit || __builtin_mul_overflow(n, unit, &b.row) ||
        (rows > 1 && (pitch < b.row || pitch % unit)))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(b.pattern, &value, unit);
    return sim_box_enqueue(scope, b, stream, wait);
}

#define FILL(bits, type)                                                                        \
    CUresult CUDAAPI cuMemsetD##bits(CUdeviceptr dst, type value, size_t n) {                   \
        ENTER(cuMemsetD##bits, SIM_CONTEXT | SIM_UNSAFE);                                       \
        return fill(&scope, dst, 0, value, sizeof value, n, 1, NULL, true);                     \
    }                                                                                           \
    CUresult CUDAAPI cuMemsetD##bits##Async(CUdeviceptr dst, type value, size_t n,              \
                                            CUstream stream) {                                  \
        ENTER(cuMemsetD##bits##Async, SIM_CONTEXT);                                             \
        return fill(&scope, dst, 0, value, sizeof value, n, 1, stream, false);                  \
    }                                                                                           \
    CUresult CUDAAPI cuMemsetD2D##bits(CUdeviceptr dst, size_t pitch, type value, size_t width, \
                                       size_t height) {                                         \
        ENTER(cuMemsetD2D##bits, SIM_CONTEXT | SIM_UNSAFE);                                     \
        return fill(&scope, dst, pitch, value, sizeof value, width, height, NULL, true);        \
    }                                                                                           \
    CUresult CUDAAPI cuMemsetD2D##bits##Async(CUdeviceptr dst, size_t pitch, type value,        \
                                              size_t width, size_t height, CUstream stream) {   \
        ENTER(cuMemsetD2D##bits##Async, SIM_CONTEXT);                                           \
        return fill(&scope, dst, pitch, value, sizeof value, width, height, stream, false);     \
    }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned int)
