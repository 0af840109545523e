// control.c: what every entry point passes through, and what tests see and steer.

#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

sim_state sim = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

uint64_t sim_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// xorshift64*
uint64_t sim_random(void) {
    uint64_t x = sim.random;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    return (sim.random = x) * 0x2545F4914F6CDD1Du;
}

// ---- Calls and faults ------------------------------------------------------------------

enum { CALLS = 512 };

static struct call {
    const char *name;
    long count;
    int fail_in;  // calls until one fails, 0 for none
    CUresult code;
} calls[CALLS];

// call_of finds an entry point by its name, with its version or without.
static struct call *call_of(const char *name) {
    size_t n = strlen(name);
    if (n > 3 && name[n - 3] == '_' && name[n - 2] == 'v') n -= 3;
    for (struct call *c = calls; c < calls + CALLS; c++) {
        if (c->name == NULL) c->name = strndup(name, n);
        if (strncmp(c->name, name, n) == 0 && c->name[n] == 0) return c;
    }
    abort();  // more entry points than the API has
}

// ends_context reports that a code "leaves the process in an inconsistent state and any further
// CUDA work will return the same error" (CUresult).
static bool ends_context(CUresult code) {
    switch ((int)code) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE: return true;
    default: return false;
    }
}

// end_contexts fails the current context, where a call is told of what happened in it; all of
// them where none is.
static void end_contexts(CUresult code) {
    sim_context *current = sim_current_context();
    for (sim_context *c = sim.contexts; c; c = c->next)
        if (current == NULL || c == current) sim_fail_context(c, code);
}

_Thread_local bool sim_in_callback;

// drain waits for the work of every context. Calls of other threads wait until it is done.
static void drain(void) {
    sim.draining = true;
    for (sim_context *c = sim.contexts; c; c = c->next) sim_wait_context(c);
    sim.draining = false;
    pthread_cond_broadcast(&sim.changed);
}

_Thread_local const char *sim_outer;

// count counts a call, and returns the fault that is injected into it.
static CUresult count(const char *name, const char **known) {
    struct call *c = call_of(name);
    *known = c->name;
    c->count++;
    if (c->fail_in == 0 || --c->fail_in > 0) return CUDA_SUCCESS;
    if (ends_context(c->code)) end_contexts(c->code);
    return c->code;
}

CUresult sim_count_outer(const char *name, const char **known) {
    while (sim.draining && !sim_in_callback) pthread_cond_wait(&sim.changed, &sim.mu);
    return count(name, known);
}

sim_scope sim_enter(const char *name, unsigned needs) {
    pthread_mutex_lock(&sim.mu);
    while (sim.draining && !sim_in_callback) pthread_cond_wait(&sim.changed, &sim.mu);
    sim_scope scope = {.call = sim_outer};
    CUresult code = sim_outer ? CUDA_SUCCESS : count(name, &scope.call);
    if ((needs & SIM_INIT) && !sim.initialised) {
        scope.result = CUDA_ERROR_NOT_INITIALIZED;
        return scope;
    }
    if (sim_in_callback) {
        sim_misuse(scope.call, "called from a host function, which must not call the driver");
        scope.result = CUDA_ERROR_NOT_PERMITTED;
        return scope;
    }
    if ((needs & SIM_CONTEXT) == SIM_CONTEXT) {
        scope.ctx = sim_current_context();
        if (scope.ctx == NULL) {
            // "If ctx is current to other threads, then ctx will remain current to those threads".
            scope.result = sim_context_is_gone() ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                                 : CUDA_ERROR_INVALID_CONTEXT;
            return scope;
        }
        if (code == CUDA_SUCCESS) code = scope.ctx->sticky;
    }
    if (needs & SIM_RELEASE)
        scope.late = code;
    else
        scope.result = code;
    if (scope.result == CUDA_SUCCESS && (needs & SIM_UNSAFE) && sim_capture_forbids())
        scope.result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (scope.result == CUDA_SUCCESS && (needs & SIM_DRAINS) && sim.drain_lock) drain();
    return scope;
}

void sim_leave(sim_scope *scope) {
    (void)scope;
    pthread_mutex_unlock(&sim.mu);
}

CUresult sim_result(const sim_scope *scope, CUresult result) {
    return result != CUDA_SUCCESS ? result : scope->late;
}

// ---- Live objects and misuse -----------------------------------------------------------

static const char *const kinds[SIM_KINDS] = {
#ifndef DLX_GPUSIM_HIP  // where the library makes them, for good
    [SIM_CONTEXTS] = "contexts",
#endif
    [SIM_STREAMS] = "streams",
    [SIM_EVENTS] = "events",
    [SIM_ALLOCATIONS] = "allocations",
    [SIM_ASYNC_ALLOCATIONS] = "async_allocations",
    [SIM_HOST_ALLOCATIONS] = "host_allocations",
    [SIM_HOST_BYTES] = "host_bytes",
    [SIM_MANAGED_ALLOCATIONS] = "managed_allocations",
    [SIM_REGISTERED_RANGES] = "registered_ranges",
    [SIM_MODULES] = "modules",
    [SIM_GRAPHS] = "graphs",
    [SIM_VMM_HANDLES] = "vmm_handles",
    [SIM_RESERVATIONS] = "reservations",
    [SIM_MAPPINGS] = "mappings",
    [SIM_EXTERNAL_MEMORIES] = "external_memories",
    [SIM_EXTERNAL_BUFFERS] = "external_buffers",
    [SIM_EXTERNAL_SEMAPHORES] = "external_semaphores",
    [SIM_IPC_MAPPINGS] = "ipc_mappings",
    [SIM_GRAPHICS_RESOURCES] = "graphics_resources",
    [SIM_PROGRAMS] = "programs",
    [SIM_ABANDONED] = "abandoned",
};

static long live[SIM_KINDS];

void sim_live(sim_kind kind, long change) { live[kind] += change; }

static struct {
    int count;
    size_t used;
    char text[1 << 16];
} misuse;

void sim_misuse(const char *call, const char *format, ...) {
    misuse.count++;
    size_t room = sizeof misuse.text - misuse.used;
    int n = snprintf(misuse.text + misuse.used, room, "%s: ", call);
    if (n < 0 || (size_t)n >= room) return;
    va_list arguments;
    va_start(arguments, format);
    int m = vsnprintf(misuse.text + misuse.used + n, room - n, format, arguments);
    va_end(arguments);
    if (m < 0 || (size_t)(n + m) + 1 >= room) return;
    misuse.used += n + m;
    misuse.text[misuse.used++] = '\n';
    misuse.text[misuse.used] = 0;
}

// ---- What tests call -------------------------------------------------------------------

SIM_API void dlx_gpusim_fail(const char *name, int nth, int code) {
    pthread_mutex_lock(&sim.mu);
    struct call *c = call_of(name);
    c->fail_in = nth;
    c->code = code ? (CUresult)code : CUDA_ERROR_UNKNOWN;
    pthread_mutex_unlock(&sim.mu);
}

SIM_API long dlx_gpusim_count(const char *name) {
    pthread_mutex_lock(&sim.mu);
    long n = call_of(name)->count;
    pthread_mutex_unlock(&sim.mu);
    return n;
}

// line writes a line "name number" behind what is used, and returns how much is used then.
static int line(char *out, size_t room, int used, const char *name, long n) {
    int m = snprintf((size_t)used < room ? out + used : NULL, (size_t)used < room ? room - used : 0,
                     "%s %ld\n", name, n);
    return used + m;
}

SIM_API int dlx_gpusim_calls(char *out, size_t room) {
    pthread_mutex_lock(&sim.mu);
    int used = 0;
    if (room) *out = 0;
    for (struct call *c = calls; c < calls + CALLS && c->name; c++)
        if (c->count) used = line(out, room, used, c->name, c->count);
    pthread_mutex_unlock(&sim.mu);
    return used;
}

SIM_API int dlx_gpusim_live(char *out, size_t room) {
    pthread_mutex_lock(&sim.mu);
    int used = 0;
    if (room) *out = 0;
    for (int k = 0; k < SIM_KINDS; k++)
        if (live[k] && kinds[k]) used = line(out, room, used, kinds[k], live[k]);
    pthread_mutex_unlock(&sim.mu);
    return used;
}

SIM_API int dlx_gpusim_misuse(char *out, size_t room) {
    pthread_mutex_lock(&sim.mu);
    if (room) snprintf(out, room, "%s", misuse.text);
    int n = misuse.count;
    pthread_mutex_unlock(&sim.mu);
    return n;
}

SIM_API void dlx_gpusim_clear_misuse(void) {
    pthread_mutex_lock(&sim.mu);
    misuse.count = 0;
    misuse.used = 0;
    misuse.text[0] = 0;
    pthread_mutex_unlock(&sim.mu);
}

SIM_API void dlx_gpusim_hold(int on) {
    pthread_mutex_lock(&sim.mu);
    sim.hold = on != 0;
    pthread_cond_broadcast(&sim.changed);
    pthread_mutex_unlock(&sim.mu);
}

SIM_API void dlx_gpusim_lose(int device) {
    pthread_mutex_lock(&sim.mu);
    for (sim_context *c = sim.contexts; c; c = c->next)
        if (c->device->ordinal == device) sim_fail_context(c, CUDA_ERROR_ILLEGAL_ADDRESS);
    pthread_mutex_unlock(&sim.mu);
}
