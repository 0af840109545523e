#ifndef DLX_FOREIGN_H
#define DLX_FOREIGN_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

void foreign_empty(void);

/* foreign_consume reads the extents of a managed tensor and calls its deleter. */
void foreign_consume(uintptr_t managed);

/* foreign_delete_all calls the deleters of n managed tensors. */
void foreign_delete_all(DLManagedTensorVersioned **managed, size_t n);

/* foreign_produce is a float32 tensor of shape 2x3x4 in static memory. Its
 * deleter counts and frees nothing, so it may be taken again and again. */
DLManagedTensorVersioned *foreign_produce(void);
int64_t foreign_deleted(void);

#endif
