/* The C part of libdlx that Go calls. */
#ifndef DLX_ENTRY_H
#define DLX_ENTRY_H

#include "dlx.h"

/* dlx_call_release calls a function that a program passed to dlx_tensor_wrap. */
void dlx_call_release(uintptr_t release, uintptr_t context);

/* dlx_call_progress calls the function progress of the options. */
int32_t dlx_call_progress(const dlx_load_options *options, int64_t done, int64_t total);

/* dlx_call_poll calls a dlx_poll of a program. */
int32_t dlx_call_poll(uintptr_t poll, uintptr_t context);

#endif
