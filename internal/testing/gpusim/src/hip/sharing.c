// sharing.c: memory, events and semaphores of other processes and other APIs.

#include "hip.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- Other processes -------------------------------------------------------------------

_Static_assert(sizeof(hipIpcMemHandle_t) == sizeof(CUipcMemHandle) && sizeof(hipIpcEventHandle_t) == sizeof(CUipcEventHandle),
               "handles have 64 bytes");

hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *out, void *p) {
    HIP_ENTER(hipIpcGetMemHandle, HIP_DEVICE);
    HIP_RETURN(cuIpcGetMemHandle((CUipcMemHandle *)out, (CUdeviceptr)p));
}

// What cannot be attached is hipErrorInvalidDevicePointer. The only flag, hipIpcMemLazyEnablePeerAccess, is 1 since 6.0.
hipError_t hipIpcOpenMemHandle(void **out, hipIpcMemHandle_t handle, unsigned flags) {
    HIP_ENTER(hipIpcOpenMemHandle, HIP_DEVICE);
    CUipcMemHandle h;
    memcpy(&h, &handle, sizeof h);
    if (out == NULL || flags != (hip_version() < 6 ? 0 : 1)) HIP_RETURN(hipErrorInvalidValue);
    CUresult r = cuIpcOpenMemHandle((CUdeviceptr *)out, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
    HIP_RETURN(r == CUDA_ERROR_MAP_FAILED ? (int)hipErrorInvalidDevicePointer : (int)r);
}

// It waits for all work of the device.
hipError_t hipIpcCloseMemHandle(void *p) {
    HIP_ENTER(hipIpcCloseMemHandle, HIP_DEVICE | HIP_RELEASE);
    cuCtxSynchronize();
    HIP_RETURN(cuIpcCloseMemHandle((CUdeviceptr)p));
}

hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t *out, hipEvent_t event) {
    HIP_ENTER(hipIpcGetEventHandle, HIP_DEVICE);
    HIP_RETURN(cuIpcGetEventHandle((CUipcEventHandle *)out, (CUevent)event));
}

hipError_t hipIpcOpenEventHandle(hipEvent_t *out, hipIpcEventHandle_t handle) {
    HIP_ENTER(hipIpcOpenEventHandle, HIP_DEVICE);
    CUipcEventHandle h;
    memcpy(&h, &handle, sizeof h);
    HIP_RETURN(cuIpcOpenEventHandle((CUevent *)out, h));
}

// ---- Other APIs: memory ----------------------------------------------------------------

// The descriptor stays the caller's, unlike CUDA's: AMD's runtime maps what it refers to and does not close it. What
// cannot be mapped is hipErrorOutOfMemory there.
hipError_t hipImportExternalMemory(hipExternalMemory_t *out, const hipExternalMemoryHandleDesc *desc) {
    HIP_ENTER(hipImportExternalMemory, HIP_DEVICE);
    if (out == NULL || desc == NULL || desc->size == 0 || desc->flags & ~1u || (int)desc->type < 1 || (int)desc->type > 7)
        HIP_RETURN(hipErrorInvalidValue);
    if (desc->type != hipExternalMemoryHandleTypeOpaqueFd) HIP_RETURN(hipErrorOutOfMemory);
    CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = {
        .type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, .size = desc->size, .flags = desc->flags};
    d.handle.fd = fcntl(desc->handle.fd, F_DUPFD_CLOEXEC, 0);
    CUresult r = d.handle.fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : cuImportExternalMemory((CUexternalMemory *)out, &d);
    if (r != CUDA_SUCCESS && d.handle.fd >= 0) close(d.handle.fd);
    bool refused = r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_OPERATING_SYSTEM || r == CUDA_ERROR_INVALID_DEVICE;
    HIP_RETURN(refused ? CUDA_ERROR_OUT_OF_MEMORY : r);
}

// The buffer is freed by hipFree.
hipError_t hipExternalMemoryGetMappedBuffer(void **out, hipExternalMemory_t memory, const hipExternalMemoryBufferDesc *desc) {
    HIP_ENTER(hipExternalMemoryGetMappedBuffer, HIP_DEVICE);
    if (out == NULL || memory == NULL || desc == NULL) HIP_RETURN(hipErrorInvalidValue);
    const CUDA_EXTERNAL_MEMORY_BUFFER_DESC d = {.offset = desc->offset, .size = desc->size, .flags = desc->flags};
    HIP_RETURN(cuExternalMemoryGetMappedBuffer((CUdeviceptr *)out, (CUexternalMemory)memory, &d));
}

hipError_t hipDestroyExternalMemory(hipExternalMemory_t memory) {
    HIP_ENTER(hipDestroyExternalMemory, HIP_DEVICE | HIP_RELEASE);
    if (memory == NULL) HIP_RETURN(hipErrorInvalidValue);
    HIP_RETURN(cuDestroyExternalMemory((CUexternalMemory)memory));
}

// ---- Other APIs: semaphores ------------------------------------------------------------

// On Linux AMD's runtime imports no semaphores; with DLX_GPUSIM_HIP_SEMAPHORES=1 this one imports timelines, whose
// descriptor stays the caller's.
hipError_t hipImportExternalSemaphore(hipExternalSemaphore_t *out, const hipExternalSemaphoreHandleDesc *desc) {
    HIP_ENTER(hipImportExternalSemaphore, HIP_DEVICE);
    const int timeline = 9;  // hipExternalSemaphoreHandleTypeTimelineSemaphoreFd, since 6.0
    const bool offered = sim_environment("DLX_GPUSIM_HIP_SEMAPHORES", 0, 0, 1);
    if (out == NULL || desc == NULL) HIP_RETURN(hipErrorInvalidValue);
    const int type = (int)desc->type;
    if (type < 1 || (type > 4 && !(offered && type == timeline))) HIP_RETURN(hipErrorInvalidValue);
    if (!offered || type != timeline) HIP_RETURN(hipErrorNotSupported);
    CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d = {.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD};
    d.handle.fd = fcntl(desc->handle.fd, F_DUPFD_CLOEXEC, 0);
    CUresult r = d.handle.fd < 0 ? CUDA_ERROR_INVALID_VALUE : cuImportExternalSemaphore((CUexternalSemaphore *)out, &d);
    if (r != CUDA_SUCCESS && d.handle.fd >= 0) close(d.handle.fd);
    HIP_RETURN(r);
}

hipError_t hipDestroyExternalSemaphore(hipExternalSemaphore_t semaphore) {
    HIP_ENTER(hipDestroyExternalSemaphore, HIP_DEVICE | HIP_RELEASE);
    if (semaphore == NULL) HIP_RETURN(hipErrorInvalidValue);
    HIP_RETURN(cuDestroyExternalSemaphore((CUexternalSemaphore)semaphore));
}

// The parameters begin with the value in every version, and are as long as CUDA's.
_Static_assert(sizeof(hipExternalSemaphoreSignalParams) <= sizeof(CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS), "144 bytes");

hipError_t hipSignalExternalSemaphoresAsync(const hipExternalSemaphore_t *semaphores,
                                            const hipExternalSemaphoreSignalParams *params, unsigned n, hipStream_t stream) {
    HIP_ENTER(hipSignalExternalSemaphoresAsync, HIP_DEVICE);
    if (semaphores == NULL || params == NULL || n != 1) HIP_RETURN(n > 1 ? hipErrorNotSupported : hipErrorInvalidValue);
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p = {.params.fence.value = params->params.fence.value};
    HIP_RETURN(cuSignalExternalSemaphoresAsync((CUexternalSemaphore *)semaphores, &p, 1, hip_stream_of(stream)));
}

hipError_t hipWaitExternalSemaphoresAsync(const hipExternalSemaphore_t *semaphores,
                                          const hipExternalSemaphoreWaitParams *params, unsigned n, hipStream_t stream) {
    HIP_ENTER(hipWaitExternalSemaphoresAsync, HIP_DEVICE);
    if (semaphores == NULL || params == NULL || n != 1) HIP_RETURN(n > 1 ? hipErrorNotSupported : hipErrorInvalidValue);
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS p = {.params.fence.value = params->params.fence.value};
    HIP_RETURN(cuWaitExternalSemaphoresAsync((CUexternalSemaphore *)semaphores, &p, 1, hip_stream_of(stream)));
}
