// What differs between versions of HIP's library, whichever header is used. Each struct is that of the version that its
// comment names; where the header has that version, the compiler compares them.
#ifndef DLX_HIP_ABI_H
#define DLX_HIP_ABI_H

#include <stddef.h>

#include <hip/hip_runtime_api.h>

// Headers since 6.3 say so of hipHostMalloc, whose successor older libraries do not have.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

// Headers since 6.0 give these names to newer functions.
#undef hipGetDeviceProperties
#undef hipPointerGetAttributes

// Versions of the library, as hipRuntimeGetVersion returns them: major * 10^7 + minor * 10^5 + patch.
#define DLX_HIP_6_0 60000000
#define DLX_HIP_7_1 70100000
#define DLX_HIP_7_15 71500000

// hipPointerAttribute_t. Before 6.0 the first field has another name.
typedef struct {
	int type, device;
	void *device_pointer, *host_pointer;
	int managed;
	unsigned flags;
} dlx_pointer_attributes;

_Static_assert(sizeof(dlx_pointer_attributes) == sizeof(hipPointerAttribute_t), "hipPointerAttribute_t");
_Static_assert(offsetof(dlx_pointer_attributes, device) == offsetof(hipPointerAttribute_t, device), "hipPointerAttribute_t");
_Static_assert(offsetof(dlx_pointer_attributes, host_pointer) == offsetof(hipPointerAttribute_t, hostPointer), "hipPointerAttribute_t");
_Static_assert(offsetof(dlx_pointer_attributes, managed) == offsetof(hipPointerAttribute_t, isManaged), "hipPointerAttribute_t");

// hipMemoryType before 6.0, and since.
enum { DLX_HOST_5 = 0, DLX_DEVICE_5 = 1, DLX_HOST_6 = 1, DLX_DEVICE_6 = 2, DLX_MANAGED_6 = 3 };

// The only flag of hipIpcOpenMemHandle (hipIpcMemLazyEnablePeerAccess) before 6.0, and since. A library refuses the other one.
enum { DLX_LAZY_PEERS_5 = 0, DLX_LAZY_PEERS_6 = 1 };

// hipMemLocation, hipMemAllocationProp and hipMemAccessDesc of 6.0. Earlier ones have other fields, and such memory
// does not work there.
typedef struct { int type, id; } dlx_location;
typedef struct {
	int type, handle_types;
	dlx_location location;
	void *win32;
	unsigned char compression, rdma;
	unsigned short usage, reserved[2]; // room for more flags
} dlx_allocation;
typedef struct { dlx_location location; int flags; } dlx_access;
enum { DLX_LOCATION_DEVICE = 1, DLX_PINNED = 1, DLX_POSIX_FD = 1, DLX_READ_WRITE = 3, DLX_DMA_BUF = 1 };
enum { DLX_MINIMUM = 0, DLX_RECOMMENDED = 1 };

// hipExternalMemoryHandleDesc and hipExternalMemoryBufferDesc. Since 6.0 they end with reserved words, which are 0.
typedef struct {
	int type;
	union { int fd; void *win32[2]; } handle;
	unsigned long long size;
	unsigned flags, reserved[16];
} dlx_external_handle;
typedef struct {
	unsigned long long offset, size;
	unsigned flags, reserved[16];
} dlx_external_buffer;
enum { DLX_OPAQUE_FD = 1, DLX_DEDICATED = 1 };

// hipDeviceProp_t: where gcnArchName is in hipDeviceProp_tR0600, and before 6.0. The buffer has room for either struct.
#define DLX_PROPERTIES 8192
enum { DLX_ARCH_6 = 1160, DLX_ARCH_5 = 396, DLX_ARCH_SIZE = 256 };

// hipDeviceAttributeVirtualMemoryManagementSupported, which headers before 5.3 do not have.
#define DLX_ATTRIBUTE_VMM 89

#ifdef __HIP_PLATFORM_AMD__
_Static_assert(offsetof(dlx_external_handle, size) == offsetof(hipExternalMemoryHandleDesc, size), "hipExternalMemoryHandleDesc");
_Static_assert(sizeof(dlx_external_handle) >= sizeof(hipExternalMemoryHandleDesc), "hipExternalMemoryHandleDesc");
_Static_assert(sizeof(dlx_external_buffer) >= sizeof(hipExternalMemoryBufferDesc), "hipExternalMemoryBufferDesc");
#if HIP_VERSION >= DLX_HIP_6_0
_Static_assert(hipIpcMemLazyEnablePeerAccess == DLX_LAZY_PEERS_6, "hipIpcMemLazyEnablePeerAccess");
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == DLX_ARCH_6, "hipDeviceProp_tR0600");
_Static_assert(hipDeviceAttributeVirtualMemoryManagementSupported == DLX_ATTRIBUTE_VMM, "hipDeviceAttribute_t");
_Static_assert(sizeof(dlx_allocation) >= sizeof(hipMemAllocationProp), "hipMemAllocationProp");
_Static_assert(offsetof(dlx_allocation, location) == offsetof(hipMemAllocationProp, location), "hipMemAllocationProp");
_Static_assert(offsetof(dlx_allocation, compression) == offsetof(hipMemAllocationProp, allocFlags), "hipMemAllocationProp");
_Static_assert(sizeof(dlx_access) == sizeof(hipMemAccessDesc), "hipMemAccessDesc");
_Static_assert((int)hipMemoryTypeHost == DLX_HOST_6 && (int)hipMemoryTypeDevice == DLX_DEVICE_6, "hipMemoryType");
#else
_Static_assert(hipIpcMemLazyEnablePeerAccess == DLX_LAZY_PEERS_5, "hipIpcMemLazyEnablePeerAccess");
_Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == DLX_ARCH_5, "hipDeviceProp_t");
_Static_assert((int)hipMemoryTypeHost == DLX_HOST_5 && (int)hipMemoryTypeDevice == DLX_DEVICE_5, "hipMemoryType");
#endif
_Static_assert(sizeof(hipDeviceProp_t) <= DLX_PROPERTIES, "hipDeviceProp_t");
#endif

#endif
