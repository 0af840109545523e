// The kernel for CUDA, and, with convert_hip.h before it, for HIP.

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned uint;

#ifndef GLOBAL
#define GLOBAL
#endif
// Parameters have no address that a variable could index: each number of a channel has a condition.
#define CHANNEL(name, c) ((c) < 2u ? (c) == 0u ? constants.name[0] : constants.name[1] : (c) == 2u ? constants.name[2] : constants.name[3])
#ifndef MUL
#define MUL(x, y) __fmul_rn(x, y)
#define ADD(x, y) __fadd_rn(x, y)
#define FLOAT(x) __int2float_rn(x)
#define BITS(x) __float_as_uint(x)
#define LIMIT(x, low, high) __float2int_rz(fminf(fmaxf(x, (float)(low)), (float)(high)))
#endif
#define FIRST (blockIdx.x * 64u + threadIdx.x)
#ifndef STEP
#define STEP (gridDim.x * 64u)
#endif

#include "convert.h"

extern "C" __global__ void __launch_bounds__(64, 16) convert(void *__restrict__ dst, const void *__restrict__ src, const Conversion constants)
{
#include "convert.inc"
}
