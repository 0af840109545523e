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

// has_version reports that a name ends in _v2 or the like: what is asked for is a "base name".
static bool has_version(const char *name) {
    size_t n = strlen(name);
    return n > 3 && name[n - 3] == '_' && name[n - 2] == 'v';
}

// Here is the newest version of each function, which every header since 12.0 means. "The API will
// return CUDA_SUCCESS and set the returned pfn to NULL" for what is not there.
CUresult CUDAAPI cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult *status) {
    ENTER(cuGetProcAddress, SIM_ANYTIME);
    if (name == NULL || out == NULL || version < 0 ||
        flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)
        return CUDA_ERROR_INVALID_VALUE;
    void *library = self(), *found = NULL;
    static const char *const versions[] = {"_v3", "_v2", ""};
    bool base = strncmp(name, "cu", 2) == 0 && !has_version(name);
    for (size_t i = 0; base && library && !found && i < sizeof versions / sizeof *versions; i++) {
        char symbol[128];
        int n = snprintf(symbol, sizeof symbol, "%s%s", name, versions[i]);
        if (n < (int)sizeof symbol) found = dlsym(library, symbol);
    }
    if (library) dlclose(library);
    bool old = version < 12000;
    *out = old ? NULL : found;
    if (status)
        *status = !found ? CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
                  : old  ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                         : CU_GET_PROC_ADDRESS_SUCCESS;
    return CUDA_SUCCESS;
}
