// device.c: the devices and what they say of themselves.

#include "hip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

hipError_t hipInit(unsigned flags) {
    HIP_ENTER(hipInit, HIP_INIT);
    HIP_RETURN(flags ? hipErrorInvalidValue : hipSuccess);
}

hipError_t hipRuntimeGetVersion(int *version) {
    HIP_ENTER(hipRuntimeGetVersion, HIP_ANYTIME);
    if (version == NULL) HIP_RETURN(hipErrorInvalidValue);
    *version = hip_runtime_version();
    HIP_RETURN(hipSuccess);
}

// "hipErrorNoDevice" if there is none, also in versions whose other calls return hipErrorInvalidDevice then.
hipError_t hipGetDeviceCount(int *count) {
    HIP_ENTER(hipGetDeviceCount, HIP_ANYTIME);
    if (count == NULL) HIP_RETURN(hipErrorInvalidValue);
    *count = sim.device_count;
    HIP_RETURN(sim.device_count == 0 ? hipErrorNoDevice : hipSuccess);
}

hipError_t hipDeviceGetName(char *name, int room, hipDevice_t ordinal) {
    HIP_ENTER(hipDeviceGetName, HIP_INIT);
    HIP_RETURN(cuDeviceGetName(name, room, ordinal));
}

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t ordinal) {
    HIP_ENTER(hipDeviceTotalMem, HIP_INIT);
    HIP_RETURN(cuDeviceTotalMem(bytes, ordinal));
}

// ---- Where it is -----------------------------------------------------------------------

enum { BUS = 0xc3 };  // of device 0

hipError_t hipDeviceGetPCIBusId(char *out, int room, int ordinal) {
    HIP_ENTER(hipDeviceGetPCIBusId, HIP_INIT);
    if (sim_device_get(ordinal) == NULL) HIP_RETURN(hipErrorInvalidDevice);
    char text[13];
    snprintf(text, sizeof text, "0000:%02x:00.0", (unsigned char)(BUS + ordinal));
    if (out == NULL || room <= 0) HIP_RETURN(hipErrorInvalidValue);
    snprintf(out, (size_t)room, "%s", text);  // also where it has no room, which then fails
    HIP_RETURN(room < (int)sizeof text ? hipErrorInvalidValue : hipSuccess);
}

// uuid_of is the identity of a device. On AMD's cards it is the 16 hexadecimal digits of the serial number
// (DLX_GPUSIM_HIP_UUID=serial), which no other API knows. By default it is that of the CPU under Vulkan, so that the
// two can be paired.
static CUresult uuid_of(hipUUID *out, int ordinal) {
    const char *kind = getenv("DLX_GPUSIM_HIP_UUID");
    if (kind == NULL || strcmp(kind, "serial") != 0) return cuDeviceGetUuid((CUuuid *)out, ordinal);
    if (out == NULL) return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_get(ordinal) == NULL) return CUDA_ERROR_INVALID_DEVICE;
    char digits[17];
    snprintf(digits, sizeof digits, "%016x", 0xd1c0de00 + ordinal);
    memcpy(out->bytes, digits, sizeof out->bytes);
    return CUDA_SUCCESS;
}

hipError_t hipDeviceGetUuid(hipUUID *out, hipDevice_t ordinal) {
    HIP_ENTER(hipDeviceGetUuid, HIP_INIT);
    HIP_RETURN(uuid_of(out, ordinal));
}

// ---- What it can do --------------------------------------------------------------------

const char *hip_architecture(void) {
    const char *name = getenv("DLX_GPUSIM_HIP_ARCH");
    return name && *name ? name : "gfx90a:sramecc+:xnack-";
}

enum {
    WAVE = 64,
    UNITS = 2,
    MEMORY_MANAGEMENT = 89,  // hipDeviceAttributeVirtualMemoryManagementSupported, since 5.4
    HOST_REGISTER = 90,      // hipDeviceAttributeHostRegisterSupported
    DMA_BUF = 93,            // hipDeviceAttributeDmaBufSupported, since 7.1
};

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int ordinal) {
    HIP_ENTER(hipDeviceGetAttribute, HIP_INIT);
    if (value == NULL) HIP_RETURN(hipErrorInvalidValue);
    if (sim_device_get(ordinal) == NULL) HIP_RETURN(hipErrorInvalidDevice);
    switch ((int)attribute) {
    case hipDeviceAttributeComputeCapabilityMajor: *value = 9; break;
    case hipDeviceAttributeComputeCapabilityMinor: *value = 0; break;
    case hipDeviceAttributeConcurrentManagedAccess: *value = sim.concurrent; break;
    case hipDeviceAttributeIntegrated: *value = (int)sim_environment("DLX_GPUSIM_INTEGRATED", 0, 0, 1); break;
    case hipDeviceAttributeMultiprocessorCount:
    case hipDeviceAttributePhysicalMultiProcessorCount: *value = UNITS; break;
    case hipDeviceAttributeWarpSize: *value = WAVE; break;
    case hipDeviceAttributeMaxThreadsPerBlock:
    case hipDeviceAttributeMaxBlockDimX:
    case hipDeviceAttributeMaxBlockDimY:
    case hipDeviceAttributeMaxBlockDimZ: *value = SIM_MAX_BLOCK_XY; break;
    case hipDeviceAttributeMaxGridDimX:
    case hipDeviceAttributeMaxGridDimY:
    case hipDeviceAttributeMaxGridDimZ: *value = SIM_MAX_GRID_X; break;
    case hipDeviceAttributeMaxPitch: *value = SIM_MAX_PITCH; break;
    case hipDeviceAttributeMaxSharedMemoryPerBlock: *value = 64 << 10; break;
    case hipDeviceAttributePciBusId: *value = BUS + ordinal; break;
    case hipDeviceAttributePciDeviceId:
    case hipDeviceAttributePciDomainID: *value = 0; break;
    case hipDeviceAttributeCanMapHostMemory:
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeUnifiedAddressing:
    case hipDeviceAttributeMemoryPoolsSupported:
    case hipDeviceAttributeFineGrainSupport:
    case hipDeviceAttributeIsLargeBar: *value = 1; break;
    case MEMORY_MANAGEMENT:
        if (hip_version() < 6) HIP_RETURN(hipErrorInvalidValue);
        *value = (int)sim_environment("DLX_GPUSIM_HIP_VMM", 1, 0, 1);
        break;
    case HOST_REGISTER:
        if (hip_version() < 6) HIP_RETURN(hipErrorInvalidValue);
        *value = 1;
        break;
    case DMA_BUF:
        if (hip_version() < 7) HIP_RETURN(hipErrorInvalidValue);
        *value = sim.dma_buf;
        break;
    default:
        if ((int)attribute < 0 || ((int)attribute > DMA_BUF && attribute < hipDeviceAttributeAmdSpecificBegin) ||
            (int)attribute > hipDeviceAttributeFineGrainSupport + 4)
            HIP_RETURN(hipErrorInvalidValue);
        *value = 0;
    }
    HIP_RETURN(hipSuccess);
}

// properties_6 is hipDeviceProp_tR0600, of libraries since 6.0. What is not named here is left zero.
struct properties_6 {
    char name[256];
    hipUUID uuid;
    char luid[8];
    unsigned luid_mask;
    size_t total_memory, shared_per_block;
    int registers_per_block, warp;
    size_t pitch;
    int threads_per_block, threads_dim[3], grid_size[3], clock;
    size_t constant_memory;
    int major, minor;
    size_t texture_alignment, texture_pitch;
    int overlap, units, timeout, integrated, map_host, compute_mode;
    int textures_and_surfaces[40];
    size_t surface_alignment;
    int concurrent, ecc, bus, slot, domain, tcc, engines, unified, memory_clock, bus_width, l2, persisting_l2;
    int threads_per_unit, priorities, l1_global, l1_local;
    size_t shared_per_unit;
    int registers_per_unit, managed, multi_board, board_group, host_atomics, single_to_double, pageable;
    int concurrent_managed, preemption, host_pointer, cooperative, cooperative_multi;
    size_t shared_opt_in;
    int host_tables, direct_managed, blocks_per_unit, window;
    size_t reserved_shared;
    int host_register, sparse, read_only_register, timelines, pools, rdma;
    unsigned rdma_flush;
    int rdma_order;
    unsigned pool_handles;
    int deferred, ipc_events, clusters, function_pointers;
    int reserved[63], hip_reserved[32];
    char architecture[256];
    size_t shared_maximum;
    int clock_rate;
    unsigned arch;
    unsigned *flush[2];
    int cooperative_unmatched[4];
    int large_bar, revision;
};
// The offsets are those of hip_runtime_api.h of ROCm 6.0 to 7.1, which bindings of other languages list.
_Static_assert(sizeof(struct properties_6) == 1472, "hipDeviceProp_tR0600");
#define AT(field, offset) _Static_assert(offsetof(struct properties_6, field) == (offset), #field)
AT(uuid, 256);
AT(total_memory, 288);
AT(warp, 308);
AT(pitch, 312);
AT(threads_dim, 324);
AT(clock, 348);
AT(major, 360);
AT(units, 388);
AT(integrated, 396);
AT(textures_and_surfaces, 408);
AT(surface_alignment, 568);
AT(bus, 584);
AT(domain, 592);
AT(threads_per_unit, 624);
AT(shared_per_unit, 640);
AT(managed, 652);
AT(concurrent_managed, 676);
AT(shared_opt_in, 696);
AT(reserved_shared, 720);
AT(read_only_register, 736);
AT(timelines, 740);
AT(ipc_events, 768);
AT(function_pointers, 776);
AT(hip_reserved, 1032);
AT(architecture, 1160);
AT(shared_maximum, 1416);
AT(arch, 1428);
AT(flush, 1432);
AT(large_bar, 1464);
AT(revision, 1468);

static const char device_name[] = "dlx simulated GPU";

static hipError_t get_properties_6(struct properties_6 *p, int ordinal) {
    HIP_ENTER(hipGetDevicePropertiesR0600, HIP_INIT);
    sim_device *d = sim_device_get(ordinal);
    if (p == NULL) HIP_RETURN(hipErrorInvalidValue);
    if (d == NULL) HIP_RETURN(hipErrorInvalidDevice);
    *p = (struct properties_6){
        .total_memory = d->memory, .shared_per_block = 64 << 10, .warp = WAVE, .pitch = SIM_MAX_PITCH,
        .threads_per_block = SIM_MAX_BLOCK_XY,
        .threads_dim = {SIM_MAX_BLOCK_XY, SIM_MAX_BLOCK_XY, SIM_MAX_BLOCK_XY},
        .grid_size = {SIM_MAX_GRID_X, SIM_MAX_GRID_X, SIM_MAX_GRID_X},
        .major = 9, .units = UNITS, .map_host = 1, .concurrent = 1, .bus = BUS + ordinal, .unified = 1, .managed = 1,
        .integrated = (int)sim_environment("DLX_GPUSIM_INTEGRATED", 0, 0, 1),
        .concurrent_managed = sim.concurrent, .host_register = 1, .pools = 1, .ipc_events = 1, .large_bar = 1,
    };
    snprintf(p->name, sizeof p->name, "%s", device_name);
    snprintf(p->architecture, sizeof p->architecture, "%s", hip_architecture());
    HIP_RETURN(uuid_of(&p->uuid, ordinal));
}
HIP_SINCE(6, hipGetDevicePropertiesR0600, get_properties_6);

// The structure of 5.x, in every version.
hipError_t hipGetDeviceProperties(hipDeviceProp_t *p, int ordinal) {
    HIP_ENTER(hipGetDeviceProperties, HIP_INIT);
    sim_device *d = sim_device_get(ordinal);
    if (p == NULL) HIP_RETURN(hipErrorInvalidValue);
    if (d == NULL) HIP_RETURN(hipErrorInvalidDevice);
    *p = (hipDeviceProp_t){
        .totalGlobalMem = d->memory, .sharedMemPerBlock = 64 << 10, .warpSize = WAVE, .memPitch = SIM_MAX_PITCH,
        .maxThreadsPerBlock = SIM_MAX_BLOCK_XY,
        .maxThreadsDim = {SIM_MAX_BLOCK_XY, SIM_MAX_BLOCK_XY, SIM_MAX_BLOCK_XY},
        .maxGridSize = {SIM_MAX_GRID_X, SIM_MAX_GRID_X, SIM_MAX_GRID_X},
        .major = 9, .multiProcessorCount = UNITS, .canMapHostMemory = 1, .concurrentKernels = 1,
        .pciBusID = BUS + ordinal, .managedMemory = 1, .concurrentManagedAccess = sim.concurrent, .isLargeBar = 1,
        .integrated = (int)sim_environment("DLX_GPUSIM_INTEGRATED", 0, 0, 1),
    };
    snprintf(p->name, sizeof p->name, "%s", device_name);
    snprintf(p->gcnArchName, sizeof p->gcnArchName, "%s", hip_architecture());
    HIP_RETURN(hipSuccess);
}
_Static_assert(sizeof(hipDeviceProp_t) == 792 && offsetof(hipDeviceProp_t, gcnArchName) == 396, "hipDeviceProp_t of 5.x");

// ---- Several ---------------------------------------------------------------------------

// "Peer cannot be self", and that is no error.
hipError_t hipDeviceCanAccessPeer(int *can, int ordinal, int peer) {
    HIP_ENTER(hipDeviceCanAccessPeer, HIP_INIT);
    HIP_RETURN(cuDeviceCanAccessPeer(can, ordinal, peer));
}

// Unlike CUDA: hipErrorInvalidDevice where there is no access, and for the device itself.
static CUresult peer(int ordinal, unsigned flags, CUcontext *out) {
    if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sim.mu);
    CUresult r;
    sim_context *own = sim_current_context(), *c = hip_context_of(ordinal, &r);
    if (c && (c == own || !sim_device_reaches(own->device, c->device))) r = CUDA_ERROR_INVALID_DEVICE;
    if (c) *out = c->handle;
    pthread_mutex_unlock(&sim.mu);
    return r;
}

hipError_t hipDeviceEnablePeerAccess(int ordinal, unsigned flags) {
    HIP_ENTER(hipDeviceEnablePeerAccess, HIP_DEVICE);
    CUcontext other = NULL;
    CUresult r = peer(ordinal, flags, &other);
    HIP_RETURN(r == CUDA_SUCCESS ? cuCtxEnablePeerAccess(other, 0) : r);
}

hipError_t hipDeviceSynchronize(void) {
    HIP_ENTER(hipDeviceSynchronize, HIP_DEVICE);
    HIP_RETURN(cuCtxSynchronize());
}

// All that the thread's device has goes.
hipError_t hipDeviceReset(void) {
    HIP_ENTER(hipDeviceReset, HIP_DEVICE | HIP_RELEASE);
    pthread_mutex_lock(&sim.mu);
    CUresult r = sim_reset_device(sim_device_get(scope.device));
    pthread_mutex_unlock(&sim.mu);
    HIP_RETURN(r);
}
