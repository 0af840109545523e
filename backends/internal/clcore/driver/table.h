// The functions of libOpenCL that are used, and the table that holds them.
#ifndef DLX_CL_TABLE_H
#define DLX_CL_TABLE_H

#define CL_TARGET_OPENCL_VERSION 300
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <stdint.h>
#include <stdlib.h>

// X(function, the version that brought it, whether a library without it will do,
//   whether it returns a handle or an address instead of a code)
#define DLX_CL_FUNCTIONS(X)                                   \
	X(clGetPlatformIDs, "1.0", 0, 0)                          \
	X(clGetPlatformInfo, "1.0", 0, 0)                         \
	X(clGetDeviceIDs, "1.0", 0, 0)                            \
	X(clGetDeviceInfo, "1.0", 0, 0)                           \
	X(clGetExtensionFunctionAddressForPlatform, "1.2", 0, 1)  \
	X(clCreateContext, "1.0", 0, 1)                           \
	X(clRetainContext, "1.0", 0, 0)                           \
	X(clReleaseContext, "1.0", 0, 0)                          \
	X(clGetContextInfo, "1.0", 0, 0)                          \
	X(clCreateCommandQueue, "1.0", 0, 1)                      \
	X(clRetainCommandQueue, "1.0", 0, 0)                      \
	X(clReleaseCommandQueue, "1.0", 0, 0)                     \
	X(clGetCommandQueueInfo, "1.0", 0, 0)                     \
	X(clFlush, "1.0", 0, 0)                                   \
	X(clFinish, "1.0", 0, 0)                                  \
	X(clCreateBuffer, "1.0", 0, 1)                            \
	X(clCreateBufferWithProperties, "3.0", 1, 1)              \
	X(clCreateSubBuffer, "1.1", 0, 1)                         \
	X(clRetainMemObject, "1.0", 0, 0)                         \
	X(clReleaseMemObject, "1.0", 0, 0)                        \
	X(clGetMemObjectInfo, "1.0", 0, 0)                        \
	X(clSVMAlloc, "2.0", 1, 1)                                \
	X(clSVMFree, "2.0", 1, 0)                                 \
	X(clEnqueueReadBuffer, "1.0", 0, 0)                       \
	X(clEnqueueWriteBuffer, "1.0", 0, 0)                      \
	X(clEnqueueCopyBuffer, "1.0", 0, 0)                       \
	X(clEnqueueReadBufferRect, "1.1", 0, 0)                   \
	X(clEnqueueWriteBufferRect, "1.1", 0, 0)                  \
	X(clEnqueueCopyBufferRect, "1.1", 0, 0)                   \
	X(clEnqueueMapBuffer, "1.0", 0, 1)                        \
	X(clEnqueueUnmapMemObject, "1.0", 0, 0)                   \
	X(clEnqueueNDRangeKernel, "1.0", 0, 0)                    \
	X(clEnqueueMarkerWithWaitList, "1.2", 0, 0)               \
	X(clEnqueueBarrierWithWaitList, "1.2", 0, 0)              \
	X(clWaitForEvents, "1.0", 0, 0)                           \
	X(clGetEventInfo, "1.0", 0, 0)                            \
	X(clGetEventProfilingInfo, "1.0", 0, 0)                   \
	X(clRetainEvent, "1.0", 0, 0)                             \
	X(clReleaseEvent, "1.0", 0, 0)                            \
	X(clCreateUserEvent, "1.1", 0, 1)                         \
	X(clSetUserEventStatus, "1.1", 0, 0)                      \
	X(clCreateProgramWithSource, "1.0", 0, 1)                 \
	X(clBuildProgram, "1.0", 0, 0)                            \
	X(clGetProgramBuildInfo, "1.0", 0, 0)                     \
	X(clReleaseProgram, "1.0", 0, 0)                          \
	X(clCreateKernel, "1.0", 0, 1)                            \
	X(clReleaseKernel, "1.0", 0, 0)                           \
	X(clSetKernelArg, "1.0", 0, 0)

#define DLX_CL_FIELD(name, since, optional, handle) __typeof__(&name) name;
struct dlx_cl_table {
	DLX_CL_FUNCTIONS(DLX_CL_FIELD)
};

// The functions of cl_intel_unified_shared_memory that are used, in the form of the list above. Each platform has its own.
#define DLX_USM_FUNCTIONS(X)                                             \
	X(clDeviceMemAllocINTEL, "cl_intel_unified_shared_memory", 0, 1)     \
	X(clSharedMemAllocINTEL, "cl_intel_unified_shared_memory", 0, 1)     \
	X(clHostMemAllocINTEL, "cl_intel_unified_shared_memory", 0, 1)       \
	X(clMemFreeINTEL, "cl_intel_unified_shared_memory", 0, 0)            \
	X(clGetMemAllocInfoINTEL, "cl_intel_unified_shared_memory", 0, 0)    \
	X(clSetKernelArgMemPointerINTEL, "cl_intel_unified_shared_memory", 0, 0) \
	X(clEnqueueMemcpyINTEL, "cl_intel_unified_shared_memory", 0, 0)

struct dlx_usm_table {
	DLX_USM_FUNCTIONS(DLX_CL_FIELD)
};
#undef DLX_CL_FIELD

#endif
