//go:build cuda && linux

// Each function jumps to where its pointer in table.c points. They are hidden: only
// the program's own objects see them, libraries that look for libcuda's find those.

#include "symbols.h"

#define DLX_JUMP(name) \
	.globl name; .hidden name; .type name, @function; \
	name: jmp *dlx_cuda_at_##name(%rip); \
	.size name, . - name;

	.text
DLX_JUMP(cuInit)
DLX_CUDA_SYMBOLS(DLX_JUMP)

	.section .note.GNU-stack, "", @progbits
