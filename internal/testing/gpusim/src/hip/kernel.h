// kernel.h is what runs kernels: code for the host, which hiprtc.c compiled. The structures are those of prelude.h and
// tail.h.
#ifndef DLX_GPUSIM_KERNEL_H
#define DLX_GPUSIM_KERNEL_H

#include "hip.h"

// kernel_state is what a kernel asks for: dlx_hip_state.
struct kernel_state {
    unsigned thread[3], block[3], threads[3], blocks[3];
    void (*barrier)(void);
    void (*access)(unsigned long at, unsigned long bytes, int write);
};

struct kernel_argument {
    unsigned size, align, pointer;
};

// kernel is dlx_hip_kernel.
struct kernel {
    const char *name;
    void (*run)(void **arguments);
    const struct kernel_argument *arguments;  // the last one has size 0
};

// kernel_table is dlx_hip_table.
struct kernel_table {
    const char *architecture;
    const struct kernel *kernels;  // the last one has no name
    char *begin, *end;
    struct kernel_state **now;
};

// kernel_run runs all threads of a launch. It expects the lock, and keeps it. arguments begins with a pointer to each
// argument, which lie behind them in the same bytes.
CUresult kernel_run(const struct kernel_table *table, const struct kernel *kernel, void **arguments, size_t bytes,
                    const unsigned grid[3], const unsigned block[3], const sim_op *op);

// kernel_image_size is how many bytes an ELF file has by its own headers, 0 if it is none for this machine's words.
size_t kernel_image_size(const void *image);

// kernel_same_architecture reports whether code for one architecture runs on another one: the processor is the same,
// and so is each feature that the code names ("Target ID", User Guide for AMDGPU Backend).
bool kernel_same_architecture(const char *code, const char *device);

#endif
