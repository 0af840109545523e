// ptx.h runs kernels in PTX, the text that the CUDA driver compiles, on the host: the
// simulated driver runs what a card would. It covers the integer part of PTX ISA 6 to 8:
// integers and predicates, branches, barriers, and the spaces param, global and shared. Of float32
// it covers what a conversion of integers needs. Whatever else a text has is an error of ptx_load,
// never ignored.
//
// A module does not change once it is loaded: any number of threads may run its
// functions at the same time.
#ifndef DLX_PTX_H
#define DLX_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ptx_module ptx_module;
typedef struct ptx_function ptx_function;

// How a launch ends. A real driver reports those after PTX_OK as CUDA_ERROR_INVALID_VALUE,
// _ILLEGAL_ADDRESS, _MISALIGNED_ADDRESS, _LAUNCH_FAILED, _LAUNCH_TIMEOUT and _OUT_OF_MEMORY.
typedef enum {
    PTX_OK,
    PTX_BAD_LAUNCH,  // a block of no or too many threads, an empty grid: nothing ran
    PTX_BAD_ACCESS,  // of an address where there is no memory
    PTX_MISALIGNED,  // an address that is no multiple of the size of the access
    PTX_FAILED,      // a trap, or a barrier that not all threads of the block reach
    PTX_ENDLESS,     // a thread that took more branches than ptx_set_patience allows
    PTX_NO_MEMORY,   // of the host: nothing ran
} ptx_status;

// ptx_load reads a text; the caller unloads the module. NULL with a message in log, of at most
// room bytes with its end, where the text is wrong, has what is not covered, or memory is out.
ptx_module *ptx_load(const char *text, char *log, size_t room);
void ptx_unload(ptx_module *module);  // and all its functions; NULL is allowed

// ptx_find returns an entry, which belongs to the module, or NULL.
ptx_function *ptx_find(ptx_module *module, const char *name);

size_t ptx_param_size(const ptx_function *function,
                      int i);                            // bytes of parameter i, 0 past the last
unsigned ptx_max_threads(const ptx_function *function);  // of a block
size_t ptx_shared_size(const ptx_function *function);    // bytes for each block

// ptx_set_patience changes how many branches a thread may take, 2^28 at first. Not while
// a function of the module runs.
void ptx_set_patience(ptx_module *module, uint64_t branches);

// An access of a thread to global or shared memory.
typedef struct {
    uint64_t address;        // in shared memory from its start
    unsigned block, thread;  // in the order of their numbers, x first
    unsigned line;           // of the text: the instruction
    unsigned bytes;
    bool write, shared;
} ptx_access;

// ptx_set_trace has each access told before it is made, with the ctx of ptx_run; NULL ends that.
// Not while a function of the module runs.
typedef void ptx_trace(void *ctx, const ptx_access *access);
void ptx_set_trace(ptx_module *module, ptx_trace *trace);

// ptx_translate returns where the host finds `bytes` bytes of device memory, or NULL where
// there is none, or none that can be written. It is called for each access.
typedef void *ptx_translate(void *ctx, uint64_t address, size_t bytes, int write);

// ptx_run launches a function: params[i] points to ptx_param_size(i) bytes. It returns when
// all threads have ended, or at the first fault, with a message in log.
//
// The order is adverse, and the same each time: blocks run one after the other from the last to
// the first; the threads of a block run one after the other, shuffled anew after each barrier.
// Registers and shared memory begin with rubbish.
int ptx_run(const ptx_function *function, void *const *params, const unsigned grid[3],
            const unsigned block[3], ptx_translate *translate, void *ctx, char *log, size_t room);

#endif
