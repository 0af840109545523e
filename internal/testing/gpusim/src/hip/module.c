// module.c: kernels. A module is code that hiprtc.c compiled for the host, or a code object for AMD's processors: that
// is checked as a driver does, and the host's build of the kernels of dlx runs instead of it.

#include "kernel.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct module {
    void *library;  // what dlopen returned; NULL for the kernels that are built in
    const struct kernel_table *table;
    unsigned refs;  // the handle and what was launched
    hipModule_t handle;
    sim_context *ctx;
    struct function *functions;
};

struct function {
    struct module *module;
    const struct kernel *kernel;
    hipFunction_t handle;
    struct function *next;
};

// The kernels of gather.cu and convert.cu, which build.sh compiles for the host.
extern const struct kernel_table dlx_hip_gather;

static void drop(struct module *m) {
    if (--m->refs > 0) return;
    while (m->functions) {
        struct function *f = m->functions;
        m->functions = f->next;
        free(f);
    }
    if (m->library) dlclose(m->library);
    free(m);
}

// ---- Images ----------------------------------------------------------------------------

enum {
    AMDGPU = 224,  // EM_AMDGPU; elf.h may be older
#if defined(__x86_64__)
    HOST = EM_X86_64,
#else
    HOST = EM_AARCH64,
#endif
    LARGEST = 256 << 20,
};

size_t kernel_image_size(const void *image) {
    const Elf64_Ehdr *h = image;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64) return 0;
    size_t size = sizeof *h;
    if (h->e_shoff < LARGEST && h->e_shoff + (size_t)h->e_shnum * h->e_shentsize > size)
        size = h->e_shoff + (size_t)h->e_shnum * h->e_shentsize;
    const Elf64_Phdr *p = (const Elf64_Phdr *)((const uint8_t *)image + h->e_phoff);
    if (h->e_phoff >= LARGEST) return 0;
    for (unsigned i = 0; i < h->e_phnum; i++)
        if (p[i].p_offset < LARGEST && p[i].p_filesz < LARGEST && p[i].p_offset + p[i].p_filesz > size)
            size = p[i].p_offset + p[i].p_filesz;
    return size;
}

// The processors that AMD's cards of the last years have, and their numbers in e_flags (EF_AMDGPU_MACH, "User Guide for
// AMDGPU Backend").
static const struct {
    const char *name;
    unsigned number;
} processors[] = {
    {"gfx900", 0x2c},  {"gfx902", 0x2d},  {"gfx906", 0x2f},  {"gfx908", 0x30},  {"gfx90a", 0x3f},  {"gfx940", 0x40},
    {"gfx941", 0x4b},  {"gfx942", 0x4c},  {"gfx950", 0x4f},  {"gfx1010", 0x33}, {"gfx1011", 0x34}, {"gfx1012", 0x35},
    {"gfx1030", 0x36}, {"gfx1031", 0x37}, {"gfx1032", 0x38}, {"gfx1100", 0x41}, {"gfx1101", 0x46}, {"gfx1102", 0x47},
    {"gfx1150", 0x43}, {"gfx1151", 0x4a}, {"gfx1200", 0x48}, {"gfx1201", 0x4e},
};

// feature is how the code wants a feature to be: '+', '-', or 0 for either ("EF_AMDGPU_FEATURE_XNACK_V4" and
// "..._SRAMECC_V4": 1 for either, 2 for off, 3 for on).
static char feature(unsigned bits) { return bits == 2 ? '-' : bits == 3 ? '+' : 0; }

// target_of names what machine code is for, as hip_architecture names a device; false if it is not known.
static bool target_of(const Elf64_Ehdr *h, char *out, size_t room) {
    const char *name = NULL;
    for (size_t i = 0; i < sizeof processors / sizeof *processors; i++)
        if (processors[i].number == (h->e_flags & 0xff)) name = processors[i].name;
    if (name == NULL) return false;
    char xnack = feature(h->e_flags >> 8 & 3), ecc = feature(h->e_flags >> 10 & 3);
    snprintf(out, room, "%s%s%.1s%s%.1s", name, ecc ? ":sramecc" : "", ecc ? &ecc : "", xnack ? ":xnack" : "",
             xnack ? &xnack : "");
    return true;
}

// contradicts reports whether two targets name a feature with opposite signs.
static bool contradicts(const char *code, const char *device, const char *name) {
    const char *a = strstr(code, name), *b = strstr(device, name);
    return a && b && a[strlen(name)] != b[strlen(name)];
}

bool kernel_same_architecture(const char *code, const char *device) {
    size_t n = strcspn(code, ":");
    return n == strcspn(device, ":") && strncmp(code, device, n) == 0 && !contradicts(code, device, ":sramecc") &&
           !contradicts(code, device, ":xnack");
}

// open_host loads code for the host.
static CUresult open_host(const void *image, struct module *m) {
    size_t size = kernel_image_size(image);
    int fd = memfd_create("dlx simulated code", MFD_CLOEXEC);
    char path[48];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    m->library = fd >= 0 && write(fd, image, size) == (ssize_t)size ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (fd >= 0) close(fd);
    m->table = m->library ? dlsym(m->library, "dlx_hip_kernels") : NULL;
    return m->table ? CUDA_SUCCESS : (CUresult)hipErrorInvalidImage;
}

static CUresult open_image(const void *image, struct module *m) {
    const Elf64_Ehdr *h = image;
    char target[64];
    if (strncmp(image, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64) return (CUresult)hipErrorInvalidImage;
    if (h->e_machine == HOST) {
        CUresult r = open_host(image, m);
        if (r != CUDA_SUCCESS) return r;
        return kernel_same_architecture(m->table->architecture, hip_architecture()) ? r : CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    if (h->e_machine != AMDGPU) return (CUresult)hipErrorInvalidImage;
    if (!target_of(h, target, sizeof target) || !kernel_same_architecture(target, hip_architecture()))
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    m->table = &dlx_hip_gather;
    return CUDA_SUCCESS;
}

static CUresult load(const sim_scope *in, hipModule_t *out, const void *image) {
    if (out == NULL || image == NULL) return CUDA_ERROR_INVALID_VALUE;
    CUresult r = sim.lazy ? sim_wait_context(in->ctx) : CUDA_SUCCESS;
    if (r != CUDA_SUCCESS) return r;
    struct module *m = calloc(1, sizeof *m);
    if (m == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    m->refs = 1;
    m->ctx = in->ctx;
    r = open_image(image, m);
    m->handle = r == CUDA_SUCCESS ? sim_handle_new(SIM_MODULES, m) : NULL;
    if (m->handle == NULL) {
        drop(m);
        return r == CUDA_SUCCESS ? CUDA_ERROR_OUT_OF_MEMORY : r;
    }
    sim_live(SIM_MODULES, 1);
    *out = m->handle;
    return CUDA_SUCCESS;
}

hipError_t hipModuleLoadData(hipModule_t *out, const void *image) {
    HIP_ENTER(hipModuleLoadData, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT | SIM_UNSAFE);
    HIP_RETURN(load(&in, out, image));
}

hipError_t hipModuleUnload(hipModule_t module) {
    HIP_ENTER(hipModuleUnload, HIP_DEVICE | HIP_RELEASE);
    HIP_ENGINE(SIM_CONTEXT | SIM_RELEASE | SIM_UNSAFE);
    struct module *m = sim_handle_get(SIM_MODULES, module, in.call);
    if (m == NULL) HIP_RETURN(hipErrorInvalidHandle);
    for (struct function *f = m->functions; f; f = f->next) sim_handle_drop(f->handle);
    sim_handle_drop(m->handle);
    sim_live(SIM_MODULES, -1);
    drop(m);
    HIP_RETURN(sim_result(&in, CUDA_SUCCESS));
}

hipError_t hipModuleGetFunction(hipFunction_t *out, hipModule_t module, const char *name) {
    HIP_ENTER(hipModuleGetFunction, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    if (out == NULL || name == NULL || *name == 0) HIP_RETURN(hipErrorInvalidValue);
    struct module *m = sim_handle_get(SIM_MODULES, module, in.call);
    if (m == NULL) HIP_RETURN(hipErrorInvalidHandle);
    const struct kernel *k = m->table->kernels;
    while (k->name && strcmp(k->name, name) != 0) k++;
    if (k->name == NULL) HIP_RETURN(hipErrorNotFound);
    struct function *f = m->functions;
    while (f && f->kernel != k) f = f->next;
    if (f == NULL) {
        f = calloc(1, sizeof *f);
        void *handle = f ? sim_handle_new(SIM_FUNCTIONS, f) : NULL;
        if (handle == NULL) {
            free(f);
            HIP_RETURN(hipErrorOutOfMemory);
        }
        *f = (struct function){.module = m, .kernel = k, .handle = handle, .next = m->functions};
        m->functions = f;
    }
    *out = f->handle;
    HIP_RETURN(hipSuccess);
}

// ---- Launches --------------------------------------------------------------------------

struct launch {
    struct function *function;
    struct module *module;
    unsigned grid[3], block[3];
    void **arguments;
    size_t bytes;
};

static CUresult run(sim_op *op) {
    const struct launch *l = (const struct launch *)op->payload;
    return kernel_run(l->module->table, l->function->kernel, l->arguments, l->bytes, l->grid, l->block, op);
}

static void release(sim_op *op) {
    struct launch *l = (struct launch *)op->payload;
    free(l->arguments);
    drop(l->module);
}

// aligned is the next place for an argument.
static size_t aligned(size_t at, size_t align) { return (at + align - 1) / align * align; }

// arguments_new copies the arguments of a launch: from where params points, or from one piece (extra).
static CUresult arguments_new(const struct kernel *k, void **params, void **extra, struct launch *l) {
    const uint8_t *piece = NULL;
    size_t piece_size = 0, count = 0, end = 0, at = 0;
    for (; extra && *extra != HIP_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == HIP_LAUNCH_PARAM_BUFFER_POINTER) piece = extra[1];
        else if (*extra == HIP_LAUNCH_PARAM_BUFFER_SIZE) piece_size = *(size_t *)extra[1];
        else return CUDA_ERROR_INVALID_VALUE;
    }
    for (; k->arguments[count].size; count++) end = aligned(end, k->arguments[count].align) + k->arguments[count].size;
    if (count && (params == NULL) == (piece == NULL)) return CUDA_ERROR_INVALID_VALUE;
    if (piece && piece_size < end) return CUDA_ERROR_INVALID_VALUE;
    const size_t first = aligned(count * sizeof(void *), 64);
    l->bytes = first + end;
    l->arguments = calloc(1, l->bytes ? l->bytes : 1);
    if (l->arguments == NULL) return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct kernel_argument *a = &k->arguments[i];
        at = aligned(at, a->align);
        if (piece == NULL && params[i] == NULL) return CUDA_ERROR_INVALID_VALUE;
        l->arguments[i] = (uint8_t *)l->arguments + first + at;
        memcpy(l->arguments[i], piece ? piece + at : params[i], a->size);
        at += a->size;
    }
    return CUDA_SUCCESS;
}

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                 unsigned bz, unsigned shared, hipStream_t stream, void **params, void **extra) {
    HIP_ENTER(hipModuleLaunchKernel, HIP_DEVICE);
    HIP_ENGINE(SIM_CONTEXT);
    if (function == NULL) HIP_RETURN(hipErrorInvalidImage);
    struct function *f = sim_handle_get(SIM_FUNCTIONS, function, in.call);
    if (f == NULL) HIP_RETURN(hipErrorInvalidHandle);
    const uint64_t threads = (uint64_t)bx * by * bz, most = UINT32_MAX;
    if (shared) HIP_RETURN(hipErrorNotSupported);  // not simulated
    if (gx == 0 || gy == 0 || gz == 0) HIP_RETURN(hipErrorInvalidValue);
    if (threads == 0) HIP_RETURN(hipErrorInvalidConfiguration);
    // The packet of a launch has the threads on each axis in 32 bits.
    if (bx > SIM_MAX_BLOCK_XY || by > SIM_MAX_BLOCK_XY || bz > SIM_MAX_BLOCK_XY || threads > SIM_MAX_BLOCK_XY ||
        (uint64_t)gx * bx > most || (uint64_t)gy * by > most || (uint64_t)gz * bz > most || (params && extra))
        HIP_RETURN(hipErrorInvalidValue);
    CUresult error;
    sim_stream *s = sim_stream_get(&in, hip_stream_of(stream), &error);
    if (s == NULL) HIP_RETURN(hip_gone(error));
    if (s->ctx != f->module->ctx) HIP_RETURN(hipErrorInvalidDevice);
    sim_op *op = sim_op_new(in.call, sizeof(struct launch), run);
    if (op == NULL) HIP_RETURN(hipErrorOutOfMemory);
    struct launch *l = (struct launch *)op->payload;
    *l = (struct launch){.function = f, .module = f->module, .grid = {gx, gy, gz}, .block = {bx, by, bz}};
    f->module->refs++;
    op->release = release;
    CUresult r = arguments_new(f->kernel, params, extra, l);
    if (r != CUDA_SUCCESS) {
        sim_op_drop(op);
        HIP_RETURN(r);
    }
    HIP_RETURN(sim_enqueue(s, op));
}
