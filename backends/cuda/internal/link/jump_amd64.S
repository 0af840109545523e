//go:build cuda && linux

// Each function jumps to the address in its pointer in table.c. The functions are hidden: only objects of the
// program see them. Libraries find those of libcuda.

#include "symbols.h"

#define DLX_JUMP(name) \
	.globl name; .hidden name; .type name, @function; \
	name: jmp *dlx_cuda_at_##name(%rip); \
	.size name, . - name;

	.text
DLX_JUMP(cuInit)
DLX_CUDA_SYMBOLS(DLX_JUMP)

	.section .note.GNU-stack, "", @progbits
