/* dlx's own DLPackExchangeAPI, and calls of those of other libraries. */
#ifndef DLX_EXCHANGE_H
#define DLX_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

#pragma GCC visibility push(hidden) /* as in node.h */

/* The table of dlx. */
extern DLPackExchangeAPI dlx_exchange_api;

/* dlx_allocations returns the number of tensors of its allocator that are not deleted. */
int64_t dlx_allocations(void);

/* The error that the allocator of another library reported through SetError. */
struct dlx_error {
	char kind[64];
	char message[256];
};

/* dlx_allocate calls the allocator of a table. The caller owns the result. It returns NULL on
 * failure; error then has the text that the allocator reported, if any. */
uintptr_t dlx_allocate(uintptr_t api, DLDevice device, DLDataType dtype, int32_t ndim, int64_t *shape, struct dlx_error *error);

/* dlx_current_work_stream calls current_work_stream of a table. */
int dlx_current_work_stream(uintptr_t api, DLDevice device, uintptr_t *stream);

#pragma GCC visibility pop

#endif
