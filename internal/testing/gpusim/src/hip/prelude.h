// What comes before a text that hiprtcCompileProgram compiles for the host: HIP's names for kernels, over what the
// simulator says of the thread that runs. A kernel has the attribute `global`, by which its name is found.

struct dlx_hip_state {
	unsigned thread[3], block[3], threads[3], blocks[3];
	void (*barrier)(void);
	void (*access)(unsigned long at, unsigned long bytes, int write);
};
extern "C" __attribute__((visibility("hidden"))) dlx_hip_state *dlx_hip_now;

#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __constant__ static
// A block's threads run one after the other, and so do blocks: shared memory is there once.
#define __shared__ static
#define __global__ __attribute__((global))
#define __launch_bounds__(...)

struct dim3 {
	unsigned x, y, z;
};
static inline dim3 dlx_hip_index(const unsigned (&v)[3]) { return dim3{v[0], v[1], v[2]}; }
#define threadIdx (dlx_hip_index(dlx_hip_now->thread))
#define blockIdx (dlx_hip_index(dlx_hip_now->block))
#define blockDim (dlx_hip_index(dlx_hip_now->threads))
#define gridDim (dlx_hip_index(dlx_hip_now->blocks))
static inline void __syncthreads() { dlx_hip_now->barrier(); }

#define DLX_HIP_VECTOR(type, name)                       \
	struct alignas(2 * sizeof(type)) name##2 {           \
		type x, y;                                       \
	};                                                   \
	struct name##3 {                                     \
		type x, y, z;                                    \
	};                                                   \
	struct alignas(4 * sizeof(type)) name##4 {           \
		type x, y, z, w;                                 \
	};
DLX_HIP_VECTOR(unsigned char, uchar)
DLX_HIP_VECTOR(short, short)
DLX_HIP_VECTOR(unsigned short, ushort)
DLX_HIP_VECTOR(int, int)
DLX_HIP_VECTOR(unsigned, uint)
DLX_HIP_VECTOR(float, float)
DLX_HIP_VECTOR(double, double)

template <typename T> static inline T min(T a, T b) { return b < a ? b : a; }
template <typename T> static inline T max(T a, T b) { return a < b ? b : a; }

// Digit i of the selector is the byte of the result: 0 to 3 are those of low, 4 to 7 those of high.
static inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
	unsigned long bytes = (unsigned long)high << 32 | low;
	unsigned result = 0;
	for (int i = 0; i < 4; i++) result |= unsigned(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
	return result;
}

// The builtins of clang for AMD's processors, for texts that do without HIP's headers.
#define __builtin_amdgcn_workitem_id_x() (dlx_hip_now->thread[0])
#define __builtin_amdgcn_workitem_id_y() (dlx_hip_now->thread[1])
#define __builtin_amdgcn_workitem_id_z() (dlx_hip_now->thread[2])
#define __builtin_amdgcn_workgroup_id_x() (dlx_hip_now->block[0])
#define __builtin_amdgcn_workgroup_id_y() (dlx_hip_now->block[1])
#define __builtin_amdgcn_workgroup_id_z() (dlx_hip_now->block[2])
#define __builtin_amdgcn_grid_size_x() (dlx_hip_now->blocks[0] * dlx_hip_now->threads[0])
#define __builtin_amdgcn_grid_size_y() (dlx_hip_now->blocks[1] * dlx_hip_now->threads[1])
#define __builtin_amdgcn_grid_size_z() (dlx_hip_now->blocks[2] * dlx_hip_now->threads[2])
#define __builtin_amdgcn_s_barrier() (dlx_hip_now->barrier())
#define __builtin_amdgcn_fence(order, scope) ((void)0)
// v_perm_b32 has a byte for each digit of the selector: 0 to 3 are the bytes of b, 4 to 7 those of a, 12 is zero and
// above it are all ones. The signs, 8 to 11, are not here.
static inline unsigned dlx_hip_perm(unsigned a, unsigned b, unsigned selector) {
	unsigned long bytes = (unsigned long)a << 32 | b;
	unsigned result = 0;
	for (int i = 0; i < 4; i++) {
		unsigned digit = selector >> 8 * i & 0xff;
		unsigned byte = digit < 8 ? unsigned(bytes >> 8 * digit & 0xff) : digit > 12 ? 0xffu : 0u;
		result |= byte << 8 * i;
	}
	return result;
}
#define __builtin_amdgcn_perm(a, b, selector) (dlx_hip_perm(a, b, selector))
