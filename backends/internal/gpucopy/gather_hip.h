// What gather.cu needs, for AMD's cards: this text and then gather.cu are the HIP text. It includes nothing and uses
// the builtins of clang alone, so that clang without ROCm and hiprtc, whose own headers are there already, compile the same.
// Names that these headers also have are replaced by macros.

#undef __device__
#undef __global__
#undef __shared__
#undef __launch_bounds__
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ static __attribute__((shared))
// All blocks have so many threads. HIP's second number is the least waves of a SIMD, not of blocks. Most kernels have registers for 4
// waves of 64, which are as many blocks on a compute unit, and more; with 3, gather1 would keep registers in memory on GCN.
#define __launch_bounds__(threads, blocks) __attribute__((amdgpu_flat_work_group_size(threads, threads), amdgpu_waves_per_eu(2)))

struct DlxIndex { unsigned x, y, z; };
#define threadIdx (DlxIndex{__builtin_amdgcn_workitem_id_x(), 0, 0})
#define blockIdx (DlxIndex{__builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(), __builtin_amdgcn_workgroup_id_z()})
// The packet of a launch has the number of threads. A block has THREADS of them, all on axis x.
#define gridDim (DlxIndex{__builtin_amdgcn_grid_size_x() / THREADS, __builtin_amdgcn_grid_size_y(), __builtin_amdgcn_grid_size_z()})

struct alignas(8) DlxUint2 { unsigned x, y; };
struct alignas(16) DlxUint4 { unsigned x, y, z, w; };
#define uint2 DlxUint2
#define uint4 DlxUint4

template <typename T> static __device__ T dlxMin(T a, T b) { return b < a ? b : a; }
template <typename T> static __device__ T dlxMax(T a, T b) { return a < b ? b : a; }
#define min dlxMin
#define max dlxMax

static __device__ void dlxSyncThreads() {
	__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
	__builtin_amdgcn_s_barrier();
	__builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
#define __syncthreads dlxSyncThreads

// Digit i of the selector is the byte of the result: 0 to 3 are those of low, 4 to 7 those of high. The instruction has a
// byte for each digit.
static __device__ unsigned dlxBytePerm(unsigned low, unsigned high, unsigned s) {
	return __builtin_amdgcn_perm(high, low, (s & 0xf) | (s & 0xf0) << 4 | (s & 0xf00) << 8 | (s & 0xf000) << 12);
}
#define __byte_perm dlxBytePerm

#define LOADS_ALWAYS true

