/* Tensors of another library, for programs of package soak. */
#ifndef DLX_SOAK_FOREIGN_H
#define DLX_SOAK_FOREIGN_H

#include <stdint.h>

#include "abi.h"

/* new_managed returns a managed tensor whose deleter frees it and memory, which came from
 * malloc. dims are ndim extents, then as many strides. It returns NULL if there is no memory;
 * memory is then the caller's still. */
void *new_managed(int legacy, void *memory, const int64_t *dims, int ndim, int strided);

/* live_managed is how many were not deleted. */
int64_t live_managed(void);

#endif
