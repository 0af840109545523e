/* The C part of libdlx that Go calls. */
#ifndef DLX_ENTRY_H
#define DLX_ENTRY_H

#include <stdint.h>

/* dlx_call_release calls a function that a program passed to dlx_tensor_wrap. */
void dlx_call_release(uintptr_t release, uintptr_t context);

#endif
