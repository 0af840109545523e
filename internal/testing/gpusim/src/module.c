// module.c: kernels, from PTX text.

#include "core.h"

#include <stdlib.h>
#include <string.h>

#include "ptx.h"

struct module {
    ptx_module *ptx;
    unsigned refs;  // the handle and what was launched
    CUmodule handle;
    sim_context *ctx;
    struct module *next;  // of all that are loaded
    struct function *functions;
};

struct function {
    struct module *module;
    ptx_function *ptx;
    CUfunction handle;
    bool loaded;
    struct function *next;
};

// settle is what loading may take: "Loading kernels might require context synchronization" ("Lazy
// Loading"). It lets go of the lock.
static CUresult settle(sim_context *ctx) { return sim.lazy ? sim_wait_context(ctx) : CUDA_SUCCESS; }

// is_binary reports an image of machine code, an ELF file or a fat binary: kernels are PTX here.
static bool is_binary(const void *image) {
    static const unsigned char fat[] = {0x50, 0xed, 0x55, 0xba};
    return memcmp(image, "\177ELF", 4) == 0 || memcmp(image, fat, sizeof fat) == 0;
}

static void drop(struct module *m) {
    if (--m->refs > 0) return;
    while (m->functions) {
        struct function *f = m->functions;
        m->functions = f->next;
        free(f);
    }
    ptx_unload(m->ptx);
    free(m);
}

static struct module *loaded;

static void unload(struct module *m) {
    for (struct module **p = &loaded; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    for (struct function *f = m->functions; f; f = f->next) sim_handle_drop(f->handle);
    sim_handle_drop(m->handle);
    sim_live(SIM_MODULES, -1);
    drop(m);
}

void sim_forget_modules(sim_context *c) {
    for (struct module *m = loaded, *next; m; m = next) {
        next = m->next;
        if (m->ctx != c) continue;
        sim_live(SIM_ABANDONED, 1);
        unload(m);
    }
}

static CUresult load(sim_context *ctx, CUmodule *out, const void *image) {
    char log[512];
    if (out == NULL || image == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (strnlen(image, 4) == 4 && is_binary(image)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    CUresult r = settle(ctx);
    if (r != CUDA_SUCCESS) return r;
    struct module *m = calloc(1, sizeof *m);
    if (m == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    m->refs = 1;
    m->ptx = ptx_load(image, log, sizeof log);
    if (m->ptx == NULL) {
        sim_misuse("cuModuleLoadData", "%s", log);
        free(m);
        return CUDA_ERROR_INVALID_PTX;
    }
    m->handle = sim_handle_new(SIM_MODULES, m);
    if (m->handle == NULL) {
        drop(m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    m->ctx = ctx;
    m->next = loaded;
    loaded = m;
    sim_live(SIM_MODULES, 1);
    *out = m->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *out, const void *image) {
    ENTER(cuModuleLoadData, SIM_CONTEXT | SIM_UNSAFE);
    return load(scope.ctx, out, image);
}

// known returns the function of a module that was given out before, or NULL.
static struct function *known(const struct module *m, const ptx_function *p) {
    for (struct function *f = m->functions; f; f = f->next)
        if (f->ptx == p) return f;
    return NULL;
}

// With DLX_GPUSIM_LAZY a function is not loaded completely yet when it is found: "CUDA APIs may
// load the function automatically when called with partially loaded function handle".
CUresult CUDAAPI cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
    ENTER(cuModuleGetFunction, SIM_CONTEXT);
    struct module *m = sim_handle_get(SIM_MODULES, module, scope.call);
    if (m == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (out == NULL || name == NULL) return CUDA_ERROR_INVALID_VALUE;
    ptx_function *p = ptx_find(m->ptx, name);
    if (p == NULL) return CUDA_ERROR_NOT_FOUND;
    struct function *f = known(m, p);
    if (f == NULL) {
        CUresult r = settle(scope.ctx);
        if (r != CUDA_SUCCESS) return r;
        if (sim_handle_get(SIM_MODULES, module, scope.call) != m) return CUDA_ERROR_INVALID_HANDLE;
        f = known(m, p);
    }
    if (f != NULL) {
        *out = f->handle;
        return CUDA_SUCCESS;
    }
    f = calloc(1, sizeof *f);
    void *handle = f ? sim_handle_new(SIM_FUNCTIONS, f) : NULL;
    if (handle == NULL) {
        free(f);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *f = (struct function){
        .module = m, .ptx = p, .handle = handle, .loaded = !sim.lazy, .next = m->functions};
    m->functions = f;
    *out = f->handle;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleUnload(CUmodule module) {
    ENTER(cuModuleUnload, SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE);
    struct module *m = sim_handle_get(SIM_MODULES, module, scope.call);
    if (m == NULL) return CUDA_ERROR_INVALID_HANDLE;
    unload(m);
    return SIM_RESULT(CUDA_SUCCESS);
}

// function_get finds a function and completes its loading.
static CUresult function_get(const sim_scope *scope, CUfunction handle, struct function **out) {
    struct function *f = sim_handle_get(SIM_FUNCTIONS, handle, scope->call);
    if (f == NULL) return CUDA_ERROR_INVALID_HANDLE;
    if (!f->loaded) {
        CUresult r = settle(scope->ctx);
        if (r != CUDA_SUCCESS) return r;
        f = sim_handle_get(SIM_FUNCTIONS, handle, scope->call);
        if (f == NULL) return CUDA_ERROR_INVALID_HANDLE;
        f->loaded = true;
    }
    *out = f;
    return CUDA_SUCCESS;
}

// Headers have it since CUDA 12.4.
SIM_API CUresult CUDAAPI cuFuncLoad(CUfunction function) {
    ENTER(cuFuncLoad, SIM_CONTEXT);
    struct function *f;
    return function_get(&scope, function, &f);
}

enum { MAX_PARAMS = 16 };

struct launch {
    struct function *function;
    struct module *module;
    unsigned grid[3], block[3];
    void *params[MAX_PARAMS];
};

static void *translate(void *ctx, uint64_t address, size_t bytes, int write) {
    return sim_translate_from(ctx, address, bytes, write != 0);
}

static CUresult run(sim_op *op) {
    struct launch *l = (struct launch *)op->payload;
    char log[512] = "";
    switch (ptx_run(l->function->ptx, l->params, l->grid, l->block, translate, op->ctx, log,
                    sizeof log)) {
    case PTX_OK: return CUDA_SUCCESS;
    case PTX_BAD_ACCESS: return CUDA_ERROR_ILLEGAL_ADDRESS;
    case PTX_MISALIGNED: return CUDA_ERROR_MISALIGNED_ADDRESS;
    case PTX_ENDLESS: return CUDA_ERROR_LAUNCH_TIMEOUT;
    case PTX_NO_MEMORY: return CUDA_ERROR_OUT_OF_MEMORY;
    default: return CUDA_ERROR_LAUNCH_FAILED;
    }
}

static void release(sim_op *op) {
    struct launch *l = (struct launch *)op->payload;
    for (int i = 0; i < MAX_PARAMS; i++) free(l->params[i]);
    if (l->module) drop(l->module);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz,
                                unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                CUstream stream, void **params, void **extra) {
    ENTER(cuLaunchKernel, SIM_CONTEXT);
    struct function *f;
    CUresult r = function_get(&scope, function, &f);
    if (r != CUDA_SUCCESS) return r;
    uint64_t threads = (uint64_t)bx * by * bz;
    if (extra || shared || gx == 0 || gy == 0 || gz == 0 || gx > SIM_MAX_GRID_X ||
        gy > SIM_MAX_GRID_YZ || gz > SIM_MAX_GRID_YZ || bx > SIM_MAX_BLOCK_XY ||
        by > SIM_MAX_BLOCK_XY || bz > SIM_MAX_BLOCK_Z || threads == 0 ||
        threads > ptx_max_threads(f->ptx))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult error;
    sim_stream *s = sim_stream_get(&scope, stream, &error);
    if (s == NULL) return error;
    if (s->ctx != f->module->ctx) return CUDA_ERROR_INVALID_HANDLE;
    sim_op *op = sim_op_new(scope.call, sizeof(struct launch), run);
    if (op == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    struct launch *l = (struct launch *)op->payload;
    *l = (struct launch){
        .function = f, .module = f->module, .grid = {gx, gy, gz}, .block = {bx, by, bz}};
    f->module->refs++;
    op->release = release;
    for (int i = 0;; i++) {
        size_t n = ptx_param_size(f->ptx, i);
        if (n == 0) break;
        if (i == MAX_PARAMS || params == NULL || params[i] == NULL) {
            sim_op_drop(op);
            return CUDA_ERROR_INVALID_VALUE;
        }
        if ((l->params[i] = malloc(n)) == NULL) {
            sim_op_drop(op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        memcpy(l->params[i], params[i], n);
    }
    return sim_enqueue(s, op);
}
