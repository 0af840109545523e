// This cuda.h includes the real one, and keeps the meaning that functions have in CUDA 12: gorgonia.org/cu and dlx call
// them so. CUDA 13's header gives their names to newer functions, some with other parameters. Drivers have both.
//
// The C compiler must find this folder first: CGO_CFLAGS="-I.../backends/cuda/include -I/folder/of/the/real/cuda.h".

// Not guarded, so that the real header is also found if two copies of this folder are searched.
#include_next <cuda.h>

#ifndef DLX_CUDA_H
#define DLX_CUDA_H

#ifdef __cplusplus
extern "C" {
#endif

// The prototypes do not depend on the version of the real header: the C compiler compares them with the header's own,
// which CUDA 12 declares always, and CUDA 13 with __CUDA_API_VERSION_INTERNAL (scripts/test-headers.sh).

#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v2
CUresult CUDAAPI cuCtxCreate(CUcontext *pctx, unsigned int flags, CUdevice dev);

#undef cuDeviceGetUuid
CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev);

#undef cuEventElapsedTime
CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd);

#undef cuGraphAddDependencies
CUresult CUDAAPI cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to, size_t numDependencies);

#undef cuGraphGetEdges
CUresult CUDAAPI cuGraphGetEdges(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to, size_t *numEdges);

#undef cuMemAdvise
CUresult CUDAAPI cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device);

#undef cuMemPrefetchAsync
CUresult CUDAAPI cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream);

#ifdef __cplusplus
}
#endif

#endif
