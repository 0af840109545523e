// sharing.h is what the files about memory and order that others share have in common.
#ifndef DLX_GPUSIM_SHARING_H
#define DLX_GPUSIM_SHARING_H

#include "sim.h"

// SIM_BRAND is in what tells a handle or a file of this library from those of another one: the libraries of two vendors
// take nothing of each other.
#ifdef DLX_GPUSIM_HIP
#define SIM_BRAND "h"
#else
#define SIM_BRAND "c"
#endif

// ---- Memory files ----------------------------------------------------------------------

// A memory file stands for memory that drivers share by an opaque descriptor: a memfd in the layout of the Vulkan driver
// whose device is device 0, so that the driver imports it.
typedef struct {
    uint64_t begin;  // where the data begins in the file
    uint64_t size;   // bytes of data
    int device;      // the ordinal of the device that has it; 0 for a Vulkan driver's
    bool ours;       // cuMemCreate of this library made it: only cuMemImportFromShareableHandle takes it
} sim_memory_file;

// sim_files_are_plain reports whether the layout is SwiftShader's, which has no header, instead of Mesa's.
bool sim_files_are_plain(void);

// sim_memory_file_new makes one for size bytes (whole pages) and returns its descriptor,
// -1 with errno set on failure.
int sim_memory_file_new(size_t size, int device, sim_memory_file *out);

// sim_dma_buf_new is sim_memory_file_new for a file of the data alone, which stands for a dma-buf: that has its
// size and can be mapped from its start on.
int sim_dma_buf_new(size_t size, int device, sim_memory_file *out);

// sim_memory_file_read describes the memory of a descriptor. CUDA_ERROR_INVALID_VALUE: it
// is not open; CUDA_ERROR_OPERATING_SYSTEM: it is of another kind.
CUresult sim_memory_file_read(int fd, sim_memory_file *out);

// ---- Timelines -------------------------------------------------------------------------

// A timeline stands for a timeline semaphore that a Vulkan driver exported: a counter in
// a memfd that any process may map. No driver for the CPU exports real ones.
typedef struct sim_timeline sim_timeline;

// sim_timeline_map maps the counter behind a descriptor, which stays the caller's. The
// results are those of sim_memory_file_read, and CUDA_ERROR_OUT_OF_MEMORY.
CUresult sim_timeline_map(int fd, sim_timeline **out);
void sim_timeline_unmap(sim_timeline *timeline);
uint64_t sim_timeline_value(const sim_timeline *timeline);
// sim_timeline_raise sets a value that is larger than the present one; false, and nothing
// done, for any other.
bool sim_timeline_raise(sim_timeline *timeline, uint64_t value);

#endif
