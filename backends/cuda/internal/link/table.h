// Where the jumps go.
#ifndef DLX_CUDA_TABLE_H
#define DLX_CUDA_TABLE_H

#include <stdint.h>

// An entry is a function and where its address stands.
struct dlx_cuda_entry {
	const char *name;
	void **at;
};

extern const struct dlx_cuda_entry dlx_cuda_entries[];
extern const int dlx_cuda_count;

// dlx_cuda_missing is what a function does that the library lacks.
extern void *const dlx_cuda_missing;

#endif
