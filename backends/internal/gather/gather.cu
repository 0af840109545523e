// Copies words between two strided layouts, as gather.comp does, one word for each thread
// and step of its loops. What it is given is made by plan.go. There is a kernel for each
// Shader that is not packed: CUDA stores words of any size.

enum : unsigned { AXES = 8, THREADS = 256, SIDE = 32 };

// As in plan.go. Offsets and steps count words from dst and src. Axis 0 and 1 span a
// plane; the others, innermost first, count the planes. Unused ones have extent 1.
struct Constants {
	int dstFirst, srcFirst;
	unsigned planes;
	unsigned wide; // a block covers 1 << wide words of axis 0
	unsigned n[AXES];
	int dstStep[AXES], srcStep[AXES];
};

// Rows copies a plane row by row: neighbouring threads go along axis 0.
template <typename Word> struct Rows {
	static __device__ void plane(Word *__restrict__ dst, const Word *__restrict__ src, const Constants &c) {
		unsigned first = (blockIdx.x << c.wide) + (threadIdx.x & ((1u << c.wide) - 1));
		unsigned high = 8 - c.wide;
#pragma unroll 1
		for (unsigned y = (blockIdx.y << high) + (threadIdx.x >> c.wide); y < c.n[1]; y += gridDim.y << high) {
#pragma unroll 1
			for (unsigned x = first; x < c.n[0]; x += gridDim.x << c.wide) {
				dst[int(x) * c.dstStep[0] + int(y) * c.dstStep[1]] = src[int(x) * c.srcStep[0] + int(y) * c.srcStep[1]];
			}
		}
	}
};

// Tiles copies a plane through a tile in shared memory, so that neighbouring threads read
// words that lie side by side, and write such: axis 0 is dense in the destination, axis 1
// in the source.
template <typename Word> struct Tiles {
	static __device__ void plane(Word *__restrict__ dst, const Word *__restrict__ src, const Constants &c) {
		// One more column, so that the words of a column lie in different banks.
		__shared__ Word tile[SIDE][SIDE + 1];
		unsigned column = threadIdx.x % SIDE, first = threadIdx.x / SIDE;
#pragma unroll 1
		for (unsigned y = blockIdx.y * SIDE; y < c.n[1]; y += gridDim.y * SIDE) {
#pragma unroll 1
			for (unsigned x = blockIdx.x * SIDE; x < c.n[0]; x += gridDim.x * SIDE) {
				for (unsigned row = 0; row < SIDE; row += THREADS / SIDE) {
					unsigned k = first + row;
					if (y + column < c.n[1] && x + k < c.n[0]) {
						tile[k][column] = src[int(x + k) * c.srcStep[0] + int(y + column) * c.srcStep[1]];
					}
				}
				__syncthreads();
				for (unsigned row = 0; row < SIDE; row += THREADS / SIDE) {
					unsigned k = first + row;
					if (x + column < c.n[0] && y + k < c.n[1]) {
						dst[int(x + column) * c.dstStep[0] + int(y + k) * c.dstStep[1]] = tile[column][k];
					}
				}
				__syncthreads();
			}
		}
	}
};

template <template <typename> class Way, typename Word>
__device__ void gather(Word *__restrict__ dst, const Word *__restrict__ src, const Constants &c) {
#pragma unroll 1
	for (unsigned z = blockIdx.z; z < c.planes; z += gridDim.z) {
		int d = c.dstFirst, s = c.srcFirst;
		unsigned rest = z;
		// Parameters have no address that a variable could index: all steps are written out.
#pragma unroll
		for (unsigned k = 2; k < AXES; k++) {
			if (rest != 0) {
				int i = int(rest % c.n[k]);
				rest /= c.n[k];
				d += i * c.dstStep[k];
				s += i * c.srcStep[k];
			}
		}
		Way<Word>::plane(dst + d, src + s, c);
	}
}

#define KERNEL(name, Way, Word)                                                   \
	extern "C" __global__ void __launch_bounds__(THREADS)                         \
	name(Word *__restrict__ dst, const Word *__restrict__ src, Constants c) {     \
		gather<Way, Word>(dst, src, c);                                           \
	}

KERNEL(gather1, Rows, unsigned char)
KERNEL(gather2, Rows, unsigned short)
KERNEL(gather4, Rows, unsigned)
KERNEL(gather8, Rows, uint2)
KERNEL(gather16, Rows, uint4)
KERNEL(gather1_tiled, Tiles, unsigned char)
KERNEL(gather2_tiled, Tiles, unsigned short)
KERNEL(gather4_tiled, Tiles, unsigned)
KERNEL(gather8_tiled, Tiles, uint2)
