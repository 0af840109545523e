// copy.h is what copies and fills have in common: a box of rows and slices.
#ifndef DLX_GPUSIM_COPY_H
#define DLX_GPUSIM_COPY_H

#include "core.h"

// side is where one side of a copy lies. With a staging buffer, at is not used.
struct side {
    uintptr_t at;
    size_t pitch, slice;  // bytes from row to row, from slice to slice
    bool known;           // must be memory that CUDA knows
    bool pageable;        // memory of the host that CUDA does not know; set by sim_box_enqueue
    uint8_t *staged;      // what pageable memory held when the call was made; set there too
};

struct box {
    struct side dst, src;
    size_t row, rows, slices;
    bool peer;  // between devices whose contexts the call names: access is not asked for
    bool late;  // pageable memory is used when the copy runs, not during the call
    bool fill;  // by a pattern; there is no src
    unsigned char pattern[4];
    size_t unit;  // bytes of it
};

// sim_box_enqueue enqueues a box on a stream. wait is for calls that are not asynchronous by
// their name.
CUresult sim_box_enqueue(const sim_scope *scope, struct box b, CUstream stream, bool wait);

// sim_batch_version is the newest version of CUDA whose cuMemcpyBatchAsync there is: 13, 12, or 0
// for none.
int sim_batch_version(void);

#endif
