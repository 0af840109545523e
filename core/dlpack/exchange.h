/* DLPackExchangeAPI, offered and used. */
#ifndef DLX_EXCHANGE_H
#define DLX_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "abi.h"

#pragma GCC visibility push(hidden) /* as in node.h */

/* Our own table. */
extern DLPackExchangeAPI dlx_exchange_api;

/* dlx_allocations is how many tensors of its allocator are not deleted yet. */
int64_t dlx_allocations(void);

/* What a foreign allocator said through SetError. */
struct dlx_error {
	char kind[64];
	char message[256];
};

/* dlx_allocate calls the allocator of a table. The result belongs to the caller;
 * NULL after a failure, which error then describes as far as the allocator did. */
uintptr_t dlx_allocate(uintptr_t api, DLDevice device, DLDataType dtype, int32_t ndim, int64_t *shape, struct dlx_error *error);

/* dlx_current_work_stream calls the function of that name of a table. */
int dlx_current_work_stream(uintptr_t api, DLDevice device, uintptr_t *stream);

#pragma GCC visibility pop

#endif
