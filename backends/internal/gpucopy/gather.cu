// Copies words between two strided layouts, as gather.comp does. What it is given is made by
// plan.go. There is a kernel for each Shader that is not packed: CUDA stores words of any size.
// gather_hip.h makes it HIP's text, and gather_metal.h makes it Metal's, which has no lambdas and no base classes.
//
// A thread has several items in each step of its loops. It loads all of them before it stores one,
// so that as many loads are in flight.

enum : unsigned { AXES = 8, THREADS = 256, SIDE = 32, ITEM_BITS = 2, ITEMS = 1 << ITEM_BITS };

// A compiler that waits for a load before the next condition is given loads without one: of the first word, where there is none.
#ifndef LOADS_ALWAYS
#define LOADS_ALWAYS false
#endif

// Metal has the kind of memory in the type of each pointer and reference. It lets only a kernel declare shared memory and ask which
// thread runs, so that a kernel passes both on.
#ifndef DLX_METAL
#define GLOBAL
#define CONSTANT
#define SHARED
#define LOCAL
#define LAUNCH_PARAMETER // the last parameter of a function that needs the thread or shared memory
#define LAUNCH           // its argument
#define SHARED_ROOM __shared__ Room room
#define KERNEL(name, Way, Word)                                                   \
	extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)                 \
	name(Word *__restrict__ dst, const Word *__restrict__ src, Constants c) {     \
		gather<Way, Word>(dst, src, c);                                           \
	}
#endif

// As in plan.go. Offsets and steps count words from dst and src. Axis 0 and 1 span a
// plane; the others, innermost first, count the planes. Unused ones have extent 1.
struct Constants {
	int dstFirst, srcFirst;
	unsigned planes;
	unsigned wide;  // the threads of a block cover 1 << wide lanes of axis 0; for Channels a span has so many
	unsigned along; // 1 << along items of a thread follow each other on axis 0, the others on axis 1
	unsigned whole; // not 0: all lanes of Tiles and Channels are aligned on both sides, and their words lie side by side
	unsigned n[AXES];
	int dstStep[AXES], srcStep[AXES];
};

// A lane is what a thread stores at once: a word, or the words of 4 bytes.
template <typename Word, bool Small = (sizeof(Word) < 4)> struct Lane {
	using Type = Word;
	enum : int { PER = 1 };
	static __device__ Type join(const LOCAL Word (&w)[PER]) { return w[0]; }
	static __device__ Word word(Type lane, int) { return lane; }
};
template <typename Word> struct Lane<Word, true> {
	using Type = unsigned;
	enum : int { PER = 4 / sizeof(Word) };
	static __device__ Type join(const LOCAL Word (&w)[PER]) {
		unsigned lane = 0;
#pragma unroll
		for (int j = 0; j < PER; j++) lane |= unsigned(w[j]) << (8 * sizeof(Word) * j);
		return lane;
	}
	static __device__ Word word(Type lane, int j) { return Word(lane >> (8 * sizeof(Word) * j)); }
};

// Rows copies a plane row by row: neighbouring threads go along axis 0, by lanes. Where a row is
// dense in the destination, its lanes are aligned, and the first and the last may be partly outside.
template <typename Word> struct Rows {
	using L = Lane<Word>;
	enum : int { PER = L::PER };
	typedef Word Room[1]; // of no use: Metal's kernels all declare one

	// rowOf and firstOf return the row and the first word of item k of a thread.
	static __device__ int rowOf(const CONSTANT Constants &c, unsigned y0, unsigned k) {
		return int(y0 + ((k >> c.along) << (8 - c.wide)));
	}
	static __device__ int firstOf(const CONSTANT Constants &c, unsigned x0, unsigned k, int y, bool dense, unsigned origin) {
		const int x = int(x0 + ((k & ((1u << c.along) - 1)) << c.wide)) * PER;
		return PER > 1 && dense ? x - int((origin + y * c.dstStep[1]) % PER) : x;
	}

	// Items are those of a thread whose first is lane x0 of row y0. Inside says that all lie within the
	// plane. Otherwise words outside are loaded from its edge, so that no load waits for a condition.
	template <bool Inside>
	static __device__ void items(GLOBAL Word *__restrict__ dst, const GLOBAL Word *__restrict__ src, const CONSTANT Constants &c,
		unsigned x0, unsigned y0) {
		const int n0 = int(c.n[0]), n1 = int(c.n[1]);
		const bool dense = c.dstStep[0] == 1;
		const unsigned origin = unsigned(reinterpret_cast<decltype(sizeof 0)>(dst) / sizeof(Word)); // aligned where lanes are
		Word w[ITEMS][PER];
#pragma unroll
		for (unsigned k = 0; k < ITEMS; k++) {
			const int y = Inside ? rowOf(c, y0, k) : min(rowOf(c, y0, k), n1 - 1), first = firstOf(c, x0, k, y, dense, origin);
#pragma unroll
			for (int j = 0; j < PER; j++) {
				const int x = Inside ? first + j : min(max(first + j, 0), n0 - 1);
				w[k][j] = src[x * c.srcStep[0] + y * c.srcStep[1]];
			}
		}
#pragma unroll
		for (unsigned k = 0; k < ITEMS; k++) {
			const int y = rowOf(c, y0, k), first = firstOf(c, x0, k, y, dense, origin);
			if (!Inside && y >= n1) continue;
			GLOBAL Word *row = dst + y * c.dstStep[1];
			if (PER > 1 && dense && (Inside || (first >= 0 && first + PER <= n0))) {
				*reinterpret_cast<GLOBAL typename L::Type *>(row + first) = L::join(w[k]);
				continue;
			}
#pragma unroll
			for (int j = 0; j < PER; j++) {
				const int x = first + j;
				if (Inside || (x >= 0 && x < n0)) row[x * c.dstStep[0]] = w[k][j];
			}
		}
	}

	static __device__ void plane(GLOBAL Word *__restrict__ dst, const GLOBAL Word *__restrict__ src, const CONSTANT Constants &c
		LAUNCH_PARAMETER) {
		const unsigned width = c.wide + c.along, height = 8 - c.wide + ITEM_BITS - c.along;
		const unsigned toLastX = ((1u << c.along) - 1) << c.wide, toLastY = ((ITEMS >> c.along) - 1) << (8 - c.wide);
		const unsigned lanes = (c.n[0] + 2 * (PER - 1)) / PER; // where the row begins within one
#pragma unroll 1
		for (unsigned y = (blockIdx.y << height) + (threadIdx.x >> c.wide); y < c.n[1]; y += gridDim.y << height) {
#pragma unroll 1
			for (unsigned x = (blockIdx.x << width) + (threadIdx.x & ((1u << c.wide) - 1)); x < lanes; x += gridDim.x << width) {
				if ((PER == 1 || x > 0) && x + toLastX < c.n[0] / PER && y + toLastY < c.n[1])
					items<true>(dst, src, c, x, y);
				else
					items<false>(dst, src, c, x, y);
			}
		}
	}
};

// transpose exchanges words and lanes: word m of lane j becomes word j of lane m.
template <typename Lane> __device__ void transpose(LOCAL Lane (&)[1]) {}
__device__ void transpose(LOCAL unsigned (&v)[2]) {
	unsigned low = __byte_perm(v[0], v[1], 0x5410);
	v[1] = __byte_perm(v[0], v[1], 0x7632);
	v[0] = low;
}
__device__ void transpose(LOCAL unsigned (&v)[4]) {
	unsigned pairs[2][2] = {{__byte_perm(v[0], v[1], 0x5140), __byte_perm(v[2], v[3], 0x5140)},
		{__byte_perm(v[0], v[1], 0x7362), __byte_perm(v[2], v[3], 0x7362)}};
#pragma unroll
	for (int i = 0; i < 2; i++) {
		transpose(pairs[i]);
		v[2 * i] = pairs[i][0];
		v[2 * i + 1] = pairs[i][1];
	}
}

// Tiles copies a plane through a tile of 8 KiB in shared memory, so that neighbouring threads read
// words that lie side by side, and write such: axis 0 is dense in the destination, axis 1 in the
// source. The tile has cells of PER by PER words. A thread loads lanes along axis 1, and transposes
// its cells, so that the tile holds lanes along axis 0.
template <typename Word> struct Tiles {
	using L = Lane<Word>;
	using Value = typename L::Type;
	enum : int { PER = L::PER, COLUMNS = 8192 / (PER * SIDE * sizeof(Value)), ITEMS = COLUMNS * SIDE / THREADS };
	// Padded, so that what the threads of a warp read along axis 0 lies in different banks.
	typedef Value Room[PER][COLUMNS][SIDE + (COLUMNS < SIDE ? SIDE / COLUMNS : 1)];

	// load and store move the tile that begins at word x0, y0 of the plane. Whole says that it has only whole
	// cells, and that lanes are aligned. Otherwise a cell of bytes is enough at a time: it has 16 loads.
	template <bool Whole>
	static __device__ void load(SHARED Room &room, const GLOBAL Word *__restrict__ src, const CONSTANT Constants &c,
		unsigned x0, unsigned y0 LAUNCH_PARAMETER) {
		const unsigned column = threadIdx.x / SIDE, row = threadIdx.x % SIDE;
		const int lastX = int(c.n[0]) - 1, lastY = int(c.n[1]) - 1;
#pragma unroll(Whole || PER < 4 ? ITEMS : 1)
		for (int i = 0; i < ITEMS; i++) {
			Value cell[PER];
#pragma unroll
			for (int j = 0; j < PER; j++) {
				const int x = int(x0 + (column + i * (THREADS / SIDE)) * PER) + j, y = int(y0 + row * PER);
				if (Whole) {
					cell[j] = *reinterpret_cast<const GLOBAL Value *>(src + x * c.srcStep[0] + y * c.srcStep[1]);
					continue;
				}
				Word w[PER]; // of the edge, if they are outside
#pragma unroll
				for (int m = 0; m < PER; m++) w[m] = src[min(x, lastX) * c.srcStep[0] + min(y + m, lastY) * c.srcStep[1]];
				cell[j] = L::join(w);
			}
			transpose(cell);
#pragma unroll
			for (int j = 0; j < PER; j++) room[j][column + i * (THREADS / SIDE)][row] = cell[j];
		}
	}

	template <bool Whole>
	static __device__ void store(GLOBAL Word *__restrict__ dst, const SHARED Room &room, const CONSTANT Constants &c,
		unsigned x0, unsigned y0 LAUNCH_PARAMETER) {
		const unsigned column = threadIdx.x % COLUMNS, row = threadIdx.x / COLUMNS;
#pragma unroll(Whole || PER < 4 ? ITEMS : 1)
		for (int i = 0; i < ITEMS; i++) {
#pragma unroll
			for (int j = 0; j < PER; j++) {
				const unsigned x = x0 + column * PER, y = y0 + (row + i * (THREADS / COLUMNS)) * PER + j;
				const Value value = room[j][column][row + i * (THREADS / COLUMNS)];
				GLOBAL Word *at = dst + int(x) * c.dstStep[0] + int(y) * c.dstStep[1];
				if (Whole) {
					*reinterpret_cast<GLOBAL Value *>(at) = value;
					continue;
				}
#pragma unroll
				for (int m = 0; m < PER; m++)
					if (x + m < c.n[0] && y < c.n[1]) at[m * c.dstStep[0]] = L::word(value, m);
			}
		}
	}

	static __device__ void plane(GLOBAL Word *__restrict__ dst, const GLOBAL Word *__restrict__ src, const CONSTANT Constants &c
		LAUNCH_PARAMETER) {
		SHARED_ROOM;
		const unsigned width = COLUMNS * PER, height = SIDE * PER;
#pragma unroll 1
		for (unsigned y = blockIdx.y * height; y < c.n[1]; y += gridDim.y * height) {
#pragma unroll 1
			for (unsigned x = blockIdx.x * width; x < c.n[0]; x += gridDim.x * width) {
				const bool whole = PER > 1 && c.whole != 0 && x + width <= c.n[0] && y + height <= c.n[1];
				if (whole)
					load<true>(room, src, c, x, y LAUNCH);
				else
					load<false>(room, src, c, x, y LAUNCH);
				__syncthreads();
				if (whole)
					store<true>(dst, room, c, x, y LAUNCH);
				else
					store<false>(dst, room, c, x, y LAUNCH);
				__syncthreads();
			}
		}
	}
};

// Channels copies a plane of pixels (axis 0) with a few channels (axis 1). On one side the pixels of a
// channel are a row. On the other one the channels of a pixel lie side by side, and pixels follow each
// other without a gap. A span of pixels goes through 8 KiB of shared memory, which has the order of the
// source, so that lanes are loaded and written in the order of the memory on both sides.
template <typename Word> struct Channels {
	using L = Lane<Word>;
	using Value = typename L::Type;
	enum : int { PER = L::PER, LANES = 8192 / sizeof(Value), ITEMS = LANES / THREADS };
	// Padded, since a step of 2, 4 or 8 lanes would stay in a few banks.
	typedef Value Room[LANES + LANES / 32];

	// Side is how a span lies on one side: as a row for each channel, or as one row of all pixels with their channels.
	struct Side {
		int rows, words, step;
		unsigned shift; // 1 << shift lanes of the room are for a row
		__device__ Side(const CONSTANT Constants &c, const CONSTANT int (&steps)[AXES], int pixels)
			: rows(steps[0] == 1 ? c.n[1] : 1), words(steps[0] == 1 ? pixels : pixels * c.n[1]), step(steps[1]),
			  shift(steps[0] == 1 ? c.wide : 31) {}
		// locate returns where lane i lies, and how many of its words there are.
		__device__ int locate(unsigned i, LOCAL int &left) const {
			const int row = int(i >> shift), first = int(i & ((1u << shift) - 1)) * PER;
			left = row < rows ? words - first : 0;
			return row * step + first;
		}
	};

	template <bool Whole>
	static __device__ void load(SHARED Room &room, const GLOBAL Word *__restrict__ src, const LOCAL Side &side LAUNCH_PARAMETER) {
#pragma unroll(Whole ? ITEMS : ITEMS / PER) // 8 loads
		for (int k = 0; k < ITEMS; k++) {
			const unsigned i = threadIdx.x + k * THREADS;
			int left, at = side.locate(i, left);
			Value value = Value();
			if (Whole || PER == 1) {
				if (LOADS_ALWAYS || left > 0) value = *reinterpret_cast<const GLOBAL Value *>(src + (left > 0 ? at : 0));
			} else {
				Word w[PER];
#pragma unroll
				for (int j = 0; j < PER; j++) {
					w[j] = Word();
					if (LOADS_ALWAYS || j < left) w[j] = src[j < left ? at + j : 0];
				}
				value = L::join(w);
			}
			room[i + i / 32] = value;
		}
	}

	// store takes word e of row r from word r + e / divisor + e % divisor * factor of the room.
	template <bool Whole>
	static __device__ void store(GLOBAL Word *__restrict__ dst, const SHARED Room &room, const LOCAL Side &side,
		unsigned divisor, unsigned factor LAUNCH_PARAMETER) {
#pragma unroll 2
		for (int k = 0; k < ITEMS; k++) {
			const unsigned i = threadIdx.x + k * THREADS;
			int left, at = side.locate(i, left);
			if (left <= 0) continue;
			unsigned e = (i & ((1u << side.shift) - 1)) * PER, quotient = e / divisor, rest = e - quotient * divisor;
			Word w[PER];
#pragma unroll
			for (int j = 0; j < PER; j++) {
				const unsigned from = (i >> side.shift) + quotient + rest * factor;
				w[j] = L::word(room[from / PER + from / PER / 32], from % PER);
				const bool carry = ++rest == divisor;
				quotient += carry;
				rest = carry ? 0 : rest;
			}
			if (Whole || PER == 1) {
				*reinterpret_cast<GLOBAL Value *>(dst + at) = L::join(w);
				continue;
			}
#pragma unroll
			for (int j = 0; j < PER; j++)
				if (j < left) dst[at + j] = w[j];
		}
	}

	static __device__ void plane(GLOBAL Word *__restrict__ dst, const GLOBAL Word *__restrict__ src, const CONSTANT Constants &c
		LAUNCH_PARAMETER) {
		SHARED_ROOM;
		const unsigned span = unsigned(PER) << c.wide;
		const unsigned divisor = c.dstStep[0] == 1 ? ~0u : c.n[1], factor = c.dstStep[0] == 1 ? c.n[1] : span;
#pragma unroll 1
		for (unsigned x = blockIdx.x * span; x < c.n[0]; x += gridDim.x * span) {
			const int pixels = int(min(span, c.n[0] - x));
			const Side in(c, c.srcStep, pixels), out(c, c.dstStep, pixels);
			const GLOBAL Word *from = src + int(x) * c.srcStep[0];
			GLOBAL Word *to = dst + int(x) * c.dstStep[0];
			const bool whole = PER > 1 && c.whole != 0 && pixels % PER == 0;
			if (whole)
				load<true>(room, from, in LAUNCH);
			else
				load<false>(room, from, in LAUNCH);
			__syncthreads();
			if (whole)
				store<true>(to, room, out, divisor, factor LAUNCH);
			else
				store<false>(to, room, out, divisor, factor LAUNCH);
			__syncthreads();
		}
	}
};

template <template <typename> class Way, typename Word>
__device__ void gather(GLOBAL Word *__restrict__ dst, const GLOBAL Word *__restrict__ src, const CONSTANT Constants &c LAUNCH_PARAMETER) {
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
		Way<Word>::plane(dst + d, src + s, c LAUNCH);
	}
}

// The compiler keeps to the registers with which so many blocks run at the same time.
enum : unsigned { BLOCKS = 4 };

KERNEL(gather1, Rows, unsigned char)
KERNEL(gather2, Rows, unsigned short)
KERNEL(gather4, Rows, unsigned)
KERNEL(gather8, Rows, uint2)
KERNEL(gather16, Rows, uint4)
KERNEL(gather1_tiled, Tiles, unsigned char)
KERNEL(gather2_tiled, Tiles, unsigned short)
KERNEL(gather4_tiled, Tiles, unsigned)
KERNEL(gather8_tiled, Tiles, uint2)
KERNEL(gather1_channels, Channels, unsigned char)
KERNEL(gather2_channels, Channels, unsigned short)
KERNEL(gather4_channels, Channels, unsigned)
KERNEL(gather8_channels, Channels, uint2)
