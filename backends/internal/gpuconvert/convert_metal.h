// What comes before the kernel for Apple's GPUs, which is MSL 2.3 or later.

#include <metal_stdlib>

using namespace metal;

#define GLOBAL device
// A product must be rounded before the sum. The compiler joins the two in one instruction, unless options forbid it. No compiler
// knows that these bits of kinds are 0.
#define MUL(x, y) as_type<float>(as_type<uint>((x) * (y)) ^ FIELD(kinds) >> 8)
#define ADD(x, y) ((x) + (y))
#define BITS(x) as_type<uint>(x)
#define LIMIT(x, low, high) ((int)clamp(x, (float)(low), (float)(high)))
#define FIRST (block.x * 64u + index.x)
#define STEP (grid.x * 64u)
