// The functions of HIP's runtime that dlx calls, by the names that libamdhip64 exports.
#ifndef DLX_HIP_FUNCTIONS_H
#define DLX_HIP_FUNCTIONS_H

// Those whose declarations are the same in all headers since 5.2, as X(function).
#define DLX_HIP_FUNCTIONS(X) \
	X(hipDestroyExternalMemory) \
	X(hipDeviceCanAccessPeer) \
	X(hipDeviceEnablePeerAccess) \
	X(hipDeviceGetAttribute) \
	X(hipDeviceGetName) \
	X(hipDeviceGetPCIBusId) \
	X(hipDeviceGetUuid) \
	X(hipDeviceTotalMem) \
	X(hipEventCreateWithFlags) \
	X(hipEventDestroy) \
	X(hipEventElapsedTime) \
	X(hipEventQuery) \
	X(hipEventRecord) \
	X(hipFree) \
	X(hipGetDevice) \
	X(hipGetDeviceCount) \
	X(hipGetErrorName) \
	X(hipGetErrorString) \
	X(hipGetLastError) \
	X(hipHostFree) \
	X(hipHostGetDevicePointer) \
	X(hipHostGetFlags) \
	X(hipHostMalloc) \
	X(hipHostRegister) \
	X(hipHostUnregister) \
	X(hipInit) \
	X(hipIpcCloseMemHandle) \
	X(hipIpcGetEventHandle) \
	X(hipIpcGetMemHandle) \
	X(hipIpcOpenEventHandle) \
	X(hipIpcOpenMemHandle) \
	X(hipLaunchHostFunc) \
	X(hipMalloc) \
	X(hipMallocManaged) \
	X(hipMemGetAddressRange) \
	X(hipMemGetInfo) \
	X(hipMemcpy3DAsync) \
	X(hipMemcpyAsync) \
	X(hipMemcpyPeerAsync) \
	X(hipModuleGetFunction) \
	X(hipModuleLaunchKernel) \
	X(hipModuleLoadData) \
	X(hipModuleUnload) \
	X(hipRuntimeGetVersion) \
	X(hipSetDevice) \
	X(hipStreamAddCallback) \
	X(hipStreamCreateWithFlags) \
	X(hipStreamDestroy) \
	X(hipStreamIsCapturing) \
	X(hipStreamSynchronize) \
	X(hipStreamWaitEvent) \
	X(hipThreadExchangeStreamCaptureMode)

// Those that headers declare differently or not at all, as X(function, (parameters)). Their structs are in abi.h.
#define DLX_HIP_FUNCTIONS_OF_VERSIONS(X) \
	X(hipExternalMemoryGetMappedBuffer, (void **address, void *memory, const void *description)) \
	X(hipGetDeviceProperties, (void *properties, int device)) \
	X(hipGetDevicePropertiesR0600, (void *properties, int device)) \
	X(hipGetStreamDeviceId, (hipStream_t stream)) \
	X(hipImportExternalMemory, (void **memory, const void *description)) \
	X(hipMemAddressFree, (void *address, size_t size)) \
	X(hipMemAddressReserve, (void **address, size_t size, size_t alignment, void *wanted, unsigned long long flags)) \
	X(hipMemCreate, (void **memory, size_t size, const void *properties, unsigned long long flags)) \
	X(hipMemExportToShareableHandle, (void *handle, void *memory, int type, unsigned long long flags)) \
	X(hipMemGetAccess, (unsigned long long *flags, const void *location, void *address)) \
	X(hipMemGetAllocationGranularity, (size_t *bytes, const void *properties, int option)) \
	X(hipMemGetHandleForAddressRange, (void *handle, void *address, size_t size, int type, unsigned long long flags)) \
	X(hipMemImportFromShareableHandle, (void **memory, void *handle, int type)) \
	X(hipMemMap, (void *address, size_t size, size_t offset, void *memory, unsigned long long flags)) \
	X(hipMemRelease, (void *memory)) \
	X(hipMemRetainAllocationHandle, (void **memory, void *address)) \
	X(hipMemSetAccess, (void *address, size_t size, const void *access, size_t count)) \
	X(hipMemUnmap, (void *address, size_t size)) \
	X(hipPointerGetAttributes, (void *attributes, const void *address)) \
	X(hipStreamGetDevice, (hipStream_t stream, int *device))

// The functions of the compiler, in libhiprtc or, before HIP 7, in libamdhip64 too. A program is a handle.
#define DLX_HIPRTC_FUNCTIONS(X) \
	X(hiprtcCompileProgram, (void *program, int count, const char **options)) \
	X(hiprtcCreateProgram, (void **program, const char *text, const char *name, int count, const char **headers, const char **names)) \
	X(hiprtcDestroyProgram, (void **program)) \
	X(hiprtcGetCode, (void *program, char *code)) \
	X(hiprtcGetCodeSize, (void *program, size_t *size)) \
	X(hiprtcGetProgramLog, (void *program, char *text)) \
	X(hiprtcGetProgramLogSize, (void *program, size_t *size)) \
	X(hiprtcVersion, (int *major, int *minor))

#endif
