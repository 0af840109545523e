//go:build cuda && linux && cgo

// The library is not open when the program starts. Until Load has opened it, the functions return
// CUDA_ERROR_NOT_INITIALIZED. Only cuInit succeeds, since the init function of gorgonia.org/cu ends the
// process if it fails.

#include "symbols.h"
#include "table.h"

static int dlx_cuda_not_opened(void);
static int dlx_cuda_not_there(void);
static int dlx_cuda_init_later(unsigned flags);

void *const dlx_cuda_missing = (void *)dlx_cuda_not_there;

#define DLX_POINTER(name, first) __attribute__((visibility("hidden"))) void *dlx_cuda_at_##name = (void *)first;
#define DLX_CLOSED(name) DLX_POINTER(name, dlx_cuda_not_opened)
DLX_POINTER(cuInit, dlx_cuda_init_later)
DLX_CUDA_SYMBOLS(DLX_CLOSED)

#define DLX_ENTRY(name) {#name, &dlx_cuda_at_##name},
const struct dlx_cuda_entry dlx_cuda_entries[] = {DLX_ENTRY(cuInit) DLX_CUDA_SYMBOLS(DLX_ENTRY)};
const int dlx_cuda_count = sizeof dlx_cuda_entries / sizeof *dlx_cuda_entries;

// Not earlier: its macros replace names of exported functions, such as cuDeviceGetUuid, by those of newer ones.
#include <cuda.h>

static int dlx_cuda_not_opened(void) { return CUDA_ERROR_NOT_INITIALIZED; }
static int dlx_cuda_not_there(void) { return CUDA_ERROR_NOT_SUPPORTED; }
static int dlx_cuda_init_later(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
