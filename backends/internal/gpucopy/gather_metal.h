// What gather.cu needs, for Apple's GPUs: this text and then gather.cu are the text for Metal, which is MSL 2.3 or later. Each
// pointer and each reference has an address space, which Metal's compiler demands.

#include <metal_stdlib>

using namespace metal;

#define DLX_METAL
#define GLOBAL device
#define CONSTANT constant
#define SHARED threadgroup
#define LOCAL thread
#define __device__ inline __attribute__((always_inline))

// Launch is what Metal gives to a kernel alone.
struct Launch {
	uint3 index, block, grid;
	threadgroup void *room;
};
#define LAUNCH_PARAMETER , const thread Launch &launch
#define LAUNCH , launch
#define threadIdx launch.index
#define blockIdx launch.block
#define gridDim launch.grid
#define SHARED_ROOM threadgroup Room &room = *static_cast<threadgroup Room *>(launch.room)
#define __syncthreads() threadgroup_barrier(mem_flags::mem_threadgroup)

// Digit i of the selector is the byte of the result: 0 to 3 are those of low, 4 to 7 those of high.
__device__ uint bytePerm(uint low, uint high, uint selector) {
	uint result = 0;
	for (uint i = 0; i < 4; i++) {
		const uint digit = selector >> (4 * i);
		result |= (((digit & 4) != 0 ? high : low) >> (8 * (digit & 3)) & 0xff) << (8 * i);
	}
	return result;
}
#define __byte_perm bytePerm

#define KERNEL(name, Way, Word)                                                                                                 \
	kernel void name(device Word *dst [[buffer(0)]], const device Word *src [[buffer(1)]], constant Constants &c [[buffer(2)]], \
		uint3 index [[thread_position_in_threadgroup]], uint3 block [[threadgroup_position_in_grid]],                           \
		uint3 grid [[threadgroups_per_grid]]) {                                                                                 \
		threadgroup Way<Word>::Room room;                                                                                       \
		const Launch launch = {index, block, grid, &room};                                                                      \
		gather<Way, Word>(dst, src, c, launch);                                                                                 \
	}

