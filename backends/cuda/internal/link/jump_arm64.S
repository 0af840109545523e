//go:build cuda && linux

// See jump_amd64.S. x16 is a register that a call need not preserve (IP0 in the procedure call standard).

#include "symbols.h"

#define DLX_JUMP(name) \
	.globl name; .hidden name; .type name, %function; \
	name: adrp x16, dlx_cuda_at_##name; ldr x16, [x16, :lo12:dlx_cuda_at_##name]; br x16; \
	.size name, . - name;

	.text
DLX_JUMP(cuInit)
DLX_CUDA_SYMBOLS(DLX_JUMP)

	.section .note.GNU-stack, "", %progbits
