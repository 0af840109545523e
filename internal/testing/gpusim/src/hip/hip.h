// hip.h is what the files of the simulated libamdhip64 share. A function of HIP's does its work by the engine's
// functions, which are those of the CUDA driver: they keep the order, the memory and the objects. What differs is
// here: a device per thread, HIP's codes and its last error, and the structures of each version.
#ifndef DLX_GPUSIM_HIP_H
#define DLX_GPUSIM_HIP_H

#include "../copy.h"

#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

// HIP_API marks an exported function that the header of HIP 5.2 does not declare.
#define HIP_API __attribute__((visibility("default")))

// What an entry point needs before its body runs.
enum {
    HIP_ANYTIME = 0,      // nothing: works without a device
    HIP_INIT = 1,         // devices; they are looked for at the first call
    HIP_DEVICE = 2 | 1,   // the thread's device, without a sticky error (which is returned otherwise)
    HIP_RELEASE = 4,      // as SIM_RELEASE
};

// hip_scope is one call of an entry point. The lock is not held in it: the engine's calls take it.
typedef struct {
    hipError_t result;  // the body must not run unless this is hipSuccess
    CUresult late;      // a fault to report after the body ran (HIP_RELEASE)
    const char *call;
    const char *outer;  // the call that this one was made in: of a host function
    int device;         // the thread's, with HIP_DEVICE
} hip_scope;

hip_scope hip_enter(const char *call, unsigned needs);
void hip_leave(hip_scope *scope);

// hip_result turns a result of the engine into HIP's, and into the last error of the thread.
hipError_t hip_result(const hip_scope *scope, int code);

// HIP_ENTER begins the body of an entry point: counts the call, answers an injected fault, checks the needs. It
// declares `scope`. The body returns by HIP_RETURN.
#define HIP_ENTER(name, needs)                                                               \
    hip_scope scope __attribute__((cleanup(hip_leave), unused)) = hip_enter(#name, (needs)); \
    if (scope.result != hipSuccess) return hip_result(&scope, scope.result)
#define HIP_RETURN(code) return hip_result(&scope, (int)(code))

// HIP_ENGINE takes the engine's lock for the rest of a body that works on the engine's objects. It declares `in`.
#define HIP_ENGINE(needs)                                                                  \
    sim_scope in __attribute__((cleanup(sim_leave), unused)) = sim_enter(NULL, (needs));   \
    if (in.result != CUDA_SUCCESS) HIP_RETURN(in.result)

// HIP_SINCE exports a function that libraries since a version have: dlsym finds NULL in older ones. Its body is a
// static function of the same type. It is a function whose address the library computes when it is looked for.
#define HIP_SINCE(version, name, body)                                                     \
    static __typeof__(&body) resolve_##name(void) {                                        \
        return hip_version() >= (version) ? body : NULL;                                   \
    }                                                                                      \
    HIP_API __typeof__(body) name __attribute__((ifunc("resolve_" #name)))

// hip_version is the major version that the library plays: 5, 6 or 7 (DLX_GPUSIM_HIP_VERSION).
int hip_version(void);
// hip_runtime_version is what hipRuntimeGetVersion returns.
int hip_runtime_version(void);

// hip_context_of returns the context of a device, which it makes at first; NULL with *code set if there is none.
sim_context *hip_context_of(int device, CUresult *code);

// hip_stream_of is the engine's handle of a stream. hipStreamPerThread has the same number there; hipStreamLegacy, which
// is 1, came with 6.0. hip_gone is what a call returns for a stream that does not exist, whatever the engine says.
CUstream hip_stream_of(hipStream_t stream);
int hip_gone(CUresult result);

// hip_architecture is the gcnArchName of the devices (DLX_GPUSIM_HIP_ARCH).
const char *hip_architecture(void);

// hip_memory_type is the number of a kind of memory in this version: 0 is the host, 1 a device, 2 managed.
enum { HIP_TYPE_HOST, HIP_TYPE_DEVICE, HIP_TYPE_MANAGED };
int hip_memory_type(int kind);

#endif
