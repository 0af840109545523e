// procaddress.c: functions of the driver by their names.

#include "core.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// self is this library, however it was opened.
static void *self(void) {
    Dl_info info;
    return dladdr((void *)self, &info) ? dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD) : NULL;
}

// The newest version is the one meant: every header since 12.0 asks for it.
CUresult CUDAAPI cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *status) {
    ENTER(cuGetProcAddress, SIM_ANYTIME);
    if (name == NULL || out == NULL || version < 0 || flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) return CUDA_ERROR_INVALID_VALUE;
    *out = NULL;
    void *library = self();
    static const char *const versions[] = {"_v3", "_v2", ""};
    for (size_t i = 0; library && *out == NULL && i < sizeof versions / sizeof *versions; i++) {
        char symbol[128];
        int n = snprintf(symbol, sizeof symbol, "%s%s", name, versions[i]);
        if (strncmp(name, "cu", 2) == 0 && n < (int)sizeof symbol) *out = dlsym(library, symbol);
    }
    if (library) dlclose(library);
    if (status) *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
