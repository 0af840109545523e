// What convert.cu needs, for AMD's cards, beside gather_hip.h of package gpucopy: the builtins of clang alone.

// A product must be rounded before the sum. Compilers join the two in one instruction, by default or by options. No compiler
// knows that these bits of kinds are 0.
#define MUL(x, y) __builtin_bit_cast(float, __builtin_bit_cast(uint, (x) * (y)) ^ FIELD(kinds) >> 8)
#define ADD(x, y) ((x) + (y))
#define BITS(x) __builtin_bit_cast(uint, x)
#define LIMIT(x, low, high) ((int)((x) < (float)(low) ? (float)(low) : (x) > (float)(high) ? (float)(high) : (x)))
#define STEP __builtin_amdgcn_grid_size_x() // the threads of the launch

