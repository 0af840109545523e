// The functions, and where their jumps lead.
#ifndef DLX_CUDA_TABLE_H
#define DLX_CUDA_TABLE_H

#include <stdint.h>

// An entry is the name of a function and its pointer in table.c.
struct dlx_cuda_entry {
	const char *name;
	void **at;
};

extern const struct dlx_cuda_entry dlx_cuda_entries[];
extern const int dlx_cuda_count;

// dlx_cuda_missing stands for the functions that the library lacks.
extern void *const dlx_cuda_missing;

#endif
