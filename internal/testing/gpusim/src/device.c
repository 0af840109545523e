// device.c: cuInit, the devices and what they say of themselves.

#include "copy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

long sim_environment(const char *name, long otherwise, long least, long most) {
    const char *text = getenv(name);
    if (text == NULL || *text == 0) return otherwise;
    char *end;
    long n = strtol(text, &end, 0);
    return *end || n < least || n > most ? otherwise : n;
}

// Address space is cheap: places are used again only when all of it was.
enum { ARENAS = 16 };

enum { ipc_events = 125 };  // CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, which older headers lack

static bool open_device(sim_device *d, int ordinal) {
    d->ordinal = ordinal;
    d->memory = (size_t)sim_environment("DLX_GPUSIM_MEMORY", 1L << 30, SIM_PAGE, 1L << 40);
    d->arena = d->memory * ARENAS;
    d->memory_fd = memfd_create("dlx-gpusim", MFD_CLOEXEC);
    if (d->memory_fd < 0 || ftruncate(d->memory_fd, (off_t)d->arena) != 0) return false;
    d->base = sim_reserve(d->arena, 2 << 20);
    void *work =
        mmap(NULL, d->arena, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, d->memory_fd, 0);
    d->work = work;
    return d->base != 0 && work != MAP_FAILED;
}

CUresult CUDAAPI cuInit(unsigned flags) {
    ENTER(cuInit, SIM_ANYTIME);
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    if (sim.initialised) return CUDA_SUCCESS;
    int n = (int)sim_environment("DLX_GPUSIM_DEVICES", 2, 0, SIM_MAX_DEVICES);
    if (n == 0) return CUDA_ERROR_NO_DEVICE;
    sim.random =
        (uint64_t)sim_environment("DLX_GPUSIM_SEED", (long)(sim_now() | 1), 1, 0x7fffffffffffffff);
    sim.concurrent = sim_environment("DLX_GPUSIM_CONCURRENT", 1, 0, 1);
    sim.reuse = sim_environment("DLX_GPUSIM_REUSE", 0, 0, 1);
    sim.lazy = sim_environment("DLX_GPUSIM_LAZY", 0, 0, 1);
    sim.read_only_host = sim_environment("DLX_GPUSIM_READ_ONLY_HOST", 0, 0, 1);
    sim.dma_buf = sim_environment("DLX_GPUSIM_DMA_BUF", 1, 0, 1);
    sim.one_queue = sim_environment("DLX_GPUSIM_ONE_QUEUE", 0, 0, 1);
    sim.latest = 1000 * (uint64_t)sim_environment("DLX_GPUSIM_LATEST", 5000, 5, 1000000);
    sim.drain_lock = sim_environment("DLX_GPUSIM_DRAIN_LOCK", 0, 0, 1);
    for (int i = 0; i < n; i++)
        if (!open_device(&sim.devices[i], i)) return CUDA_ERROR_OUT_OF_MEMORY;
    sim.device_count = n;
    sim.initialised = true;
    sim_start_worker();
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int *version) {
    ENTER(cuDriverGetVersion, SIM_ANYTIME);
    if (version == NULL) return CUDA_ERROR_INVALID_VALUE;
    *version = CUDA_VERSION;
    return CUDA_SUCCESS;
}

sim_device *sim_device_get(CUdevice ordinal) {
    return ordinal >= 0 && ordinal < sim.device_count ? &sim.devices[ordinal] : NULL;
}

CUresult CUDAAPI cuDeviceGetCount(int *count) {
    ENTER(cuDeviceGetCount, SIM_INIT);
    if (count == NULL) return CUDA_ERROR_INVALID_VALUE;
    *count = sim.device_count;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER(cuDeviceGet, SIM_INIT);
    if (device == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(ordinal) == NULL) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int room, CUdevice device) {
    ENTER(cuDeviceGetName, SIM_INIT);
    if (name == NULL || room < 1) return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(device) == NULL) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)room, "dlx simulated GPU");
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    ENTER(cuDeviceTotalMem, SIM_INIT);
    sim_device *d = sim_device_get(device);
    if (bytes == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (d == NULL) return CUDA_ERROR_INVALID_DEVICE;
    *bytes = d->memory;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *text, int room, CUdevice device) {
    ENTER(cuDeviceGetPCIBusId, SIM_INIT);
    if (text == NULL || room < 13) return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(device) == NULL) return CUDA_ERROR_INVALID_DEVICE;
    snprintf(text, (size_t)room, "0000:%02X:00.0", 0xF0 + device);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    ENTER(cuDeviceGetAttribute, SIM_INIT);
    if (value == NULL || attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(device) == NULL) return CUDA_ERROR_INVALID_DEVICE;
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = 9; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS: *value = sim.concurrent; break;
    case CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED:
        *value = sim.read_only_host;
        break;
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED: *value = sim.dma_buf; break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        *value = (int)sim_environment("DLX_GPUSIM_INTEGRATED", 0, 0, 1);
        break;
    case ipc_events: *value = (int)sim_environment("DLX_GPUSIM_IPC_EVENTS", 1, 0, 1); break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *value = 1; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *value = SIM_MAX_BLOCK_XY; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *value = SIM_MAX_BLOCK_Z; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *value = SIM_MAX_GRID_X; break;
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH: *value = SIM_MAX_PITCH; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *value = SIM_MAX_GRID_YZ; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *value = 32; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 2; break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID: *value = 0xF0 + device; break;
    default: *value = 0;
    }
    return CUDA_SUCCESS;
}

bool sim_device_reaches(const sim_device *d, const sim_device *other) {
    return d != other && sim_environment("DLX_GPUSIM_PEERS", 1, 0, 1);
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    ENTER(cuDeviceCanAccessPeer, SIM_INIT);
    if (can == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(device) == NULL || sim_device_get(peer) == NULL)
        return CUDA_ERROR_INVALID_DEVICE;
    *can = sim_device_reaches(sim_device_get(device), sim_device_get(peer));
    return CUDA_SUCCESS;
}

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define ERROR(code, text) {code, #code, text}
    ERROR(CUDA_SUCCESS, "no error"),
    ERROR(CUDA_ERROR_INVALID_VALUE, "invalid argument"),
    ERROR(CUDA_ERROR_OUT_OF_MEMORY, "out of memory"),
    ERROR(CUDA_ERROR_NOT_INITIALIZED, "initialization error"),
    ERROR(CUDA_ERROR_DEVICE_UNAVAILABLE, "device is busy or unavailable"),
    ERROR(CUDA_ERROR_NO_DEVICE, "no device is detected"),
    ERROR(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal"),
    ERROR(CUDA_ERROR_INVALID_CONTEXT, "invalid device context"),
    ERROR(CUDA_ERROR_MAP_FAILED, "mapping failed"),
    ERROR(CUDA_ERROR_ALREADY_MAPPED, "already mapped"),
    ERROR(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernel image is available for execution on the device"),
    ERROR(CUDA_ERROR_NOT_MAPPED, "not mapped"),
    ERROR(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported"),
    ERROR(CUDA_ERROR_INVALID_PTX, "a PTX compilation failed"),
    ERROR(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid graphics context"),
    ERROR(CUDA_ERROR_OPERATING_SYSTEM, "a call of the system failed"),
    ERROR(CUDA_ERROR_INVALID_HANDLE, "invalid resource handle"),
    ERROR(CUDA_ERROR_NOT_FOUND, "symbol not found"),
    ERROR(CUDA_ERROR_NOT_READY, "not ready"),
    ERROR(CUDA_ERROR_ILLEGAL_ADDRESS, "an illegal memory access was encountered"),
    ERROR(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already"),
    ERROR(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled"),
    ERROR(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is active"),
    ERROR(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is destroyed"),
    ERROR(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "memory is registered already"),
    ERROR(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "memory is not registered"),
    ERROR(CUDA_ERROR_LAUNCH_TIMEOUT, "a launch took too long"),
    ERROR(CUDA_ERROR_MISALIGNED_ADDRESS, "misaligned address"),
    ERROR(CUDA_ERROR_ILLEGAL_STATE, "illegal state for this call"),
    ERROR(CUDA_ERROR_ECC_UNCORRECTABLE, "uncorrectable ECC error encountered"),
    ERROR(CUDA_ERROR_ALREADY_ACQUIRED, "already acquired"),
    ERROR(CUDA_ERROR_ASSERT, "an assertion failed on the device"),
    ERROR(CUDA_ERROR_HARDWARE_STACK_ERROR, "hardware stack error"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began on another stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "the capture has work that was not joined"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
          "a capture cannot depend on work that is not captured"),
    ERROR(CUDA_ERROR_LAUNCH_FAILED, "a launch failed"),
    ERROR(CUDA_ERROR_NOT_PERMITTED, "operation not permitted"),
    ERROR(CUDA_ERROR_NOT_SUPPORTED, "operation not supported"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted while a stream is captured"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was invalidated"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
          "the legacy stream cannot depend on a capturing blocking stream"),
    ERROR(CUDA_ERROR_CAPTURED_EVENT,
          "not permitted on an event last recorded in a capturing stream"),
    ERROR(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "a capture of another thread"),
    ERROR(CUDA_ERROR_TIMEOUT, "timed out"),
    ERROR(CUDA_ERROR_UNKNOWN, "unknown error"),
#undef ERROR
};

static CUresult describe(CUresult code, const char **name, const char **text) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        if (errors[i].code != code) continue;
        if (name) *name = errors[i].name;
        if (text) *text = errors[i].text;
        return CUDA_SUCCESS;
    }
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorName(CUresult code, const char **name) {
    if (name) *name = NULL;
    return describe(code, name, NULL);
}

CUresult CUDAAPI cuGetErrorString(CUresult code, const char **text) {
    if (text) *text = NULL;
    return describe(code, NULL, text);
}

int sim_batch_version(void) { return (int)sim_environment("DLX_GPUSIM_BATCH", 13, 0, 13); }
