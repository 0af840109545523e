// Copies words between two strided layouts, as gather.cu does. What it is given is made
// by plan.go. It is compiled once for each Shader, which says by macros:
//
//	WORD    the size of a word in bytes: 1, 2, 4, 8 or 16
//	PACKED  words of 1 or 2 bytes in buffers of uint, for want of 8 or 16 bit storage
//	TILED   through a tile in shared memory, so that neighbouring invocations read
//	        words that lie side by side, and write such
//	CHANNELS  the same for a plane of pixels with a few channels
//	AXES    the number of axes

// element is a word in a buffer; value is one in a register or in shared memory, where
// small words would need another feature.
#if defined(PACKED) || WORD == 4
#define element uint
#define value uint
#elif WORD == 1
#extension GL_EXT_shader_8bit_storage : require
#define element uint8_t
#define value uint
#elif WORD == 2
#extension GL_EXT_shader_16bit_storage : require
#define element uint16_t
#define value uint
#elif WORD == 8
#define element uvec2
#define value uvec2
#else
#define element uvec4
#define value uvec4
#endif

layout(local_size_x = 256) in;

// A lane is what is written at once: a word, or the words of a uint.
#if WORD < 4
const int PER = 4 / WORD;          // words in a lane
const uint BITS = 8u * uint(WORD); // bits of a word
const uint MASK = (1u << BITS) - 1u;
uint join(uint words[PER]) {
	uint joined = 0u;
	for (int j = 0; j < PER; j++) {
		joined |= words[j] << (uint(j) * BITS);
	}
	return joined;
}
uint wordOf(uint joined, int j) { return joined >> (uint(j) * BITS) & MASK; }
#else
const int PER = 1;
value join(value words[PER]) { return words[0]; }
value wordOf(value joined, int j) { return joined; }
#endif

// What is written under two names is not restrict. Two names that only read cannot tell.
#if WORD < 4 && !defined(PACKED)
layout(std430, binding = 0) buffer Dst { element dst[]; };
layout(std430, binding = 0) writeonly buffer DstLanes { uint dstLanes[]; };
layout(std430, binding = 1) restrict readonly buffer Src { element src[]; };
layout(std430, binding = 1) restrict readonly buffer SrcLanes { uint srcLanes[]; };
#else
layout(std430, binding = 0) restrict buffer Dst { element dst[]; };
layout(std430, binding = 1) restrict readonly buffer Src { element src[]; };
#define dstLanes dst
#define srcLanes src
#endif

// Offsets and steps count words from the start of a binding. Axis 0 and 1 span a
// plane; the others, innermost first, count the planes. Unused ones have extent 1.
#ifdef VULKAN
layout(push_constant) uniform Constants {
#define uniform
#endif
	uniform int dstFirst;
	uniform int srcFirst;
	uniform uint planes;
	uniform uint wide;  // the invocations of a group cover 1 << wide lanes of axis 0; with CHANNELS a span has so many
	uniform uint along; // 1 << along items of an invocation follow each other on axis 0, the others on axis 1
	uniform uint whole; // not 0: all lanes in shared memory are aligned on both sides, and their words lie side by side
	uniform uint n[AXES];
	uniform int dstStep[AXES];
	uniform int srcStep[AXES];
#ifdef VULKAN
};
#endif

int from(int s, uint x, uint y) { return s + int(x) * srcStep[0] + int(y) * srcStep[1]; }

int to(int d, uint x, uint y) { return d + int(x) * dstStep[0] + int(y) * dstStep[1]; }

#ifdef PACKED
value read(int at) { return wordOf(src[at / PER], at % PER); }

// write sets the bits of a word, and no others: their words may belong to other invocations.
void write(int at, value word) {
	uint shift = uint(at % PER) * BITS;
	atomicAnd(dst[at / PER], ~(MASK << shift));
	atomicOr(dst[at / PER], word << shift);
}
#else
value read(int at) { return value(src[at]); }

void write(int at, value word) { dst[at] = element(word); }
#endif

#if defined(TILED) || defined(CHANNELS)
const uint GROUP = 256u, ROOM = 8192u / max(uint(WORD), 4u); // values in 8 KiB
#endif

#if defined(TILED)

// The tile has 8 KiB and cells of PER by PER words. Axis 0 is dense in the destination, axis
// 1 in the source. An invocation loads lanes along axis 1, and transposes its cells, so that
// the tile holds lanes along axis 0.
const uint SIDE = 32u, COLUMNS = ROOM / (uint(PER) * SIDE);
const int ITEMS = int(COLUMNS * SIDE / GROUP);
// Padded, so that what neighbours read along axis 0 lies in different banks.
shared value tile[PER][COLUMNS][SIDE + max(SIDE / COLUMNS, 1u)];

// load and store move the tile that begins at word x0, y0 of the plane. inside says that it
// has only whole cells, and that lanes are aligned.
void load(int s, uint x0, uint y0, bool inside) {
	uint column = gl_LocalInvocationID.x / SIDE, row = gl_LocalInvocationID.x % SIDE;
	value cell[ITEMS][PER];
	for (int i = 0; i < ITEMS; i++) {
		for (int j = 0; j < PER; j++) {
			uint x = x0 + (column + uint(i) * (GROUP / SIDE)) * uint(PER) + uint(j), y = y0 + row * uint(PER);
			if (inside) {
				cell[i][j] = value(srcLanes[from(s, x, y) / PER]);
				continue;
			}
			value words[PER]; // of the edge, if they are outside
			for (int m = 0; m < PER; m++) {
				words[m] = read(from(s, min(x, n[0] - 1u), min(y + uint(m), n[1] - 1u)));
			}
			cell[i][j] = join(words);
		}
	}
	for (int i = 0; i < ITEMS; i++) {
		for (int m = 0; m < PER; m++) {
			value words[PER];
			for (int j = 0; j < PER; j++) {
				words[j] = wordOf(cell[i][j], m);
			}
			tile[m][column + uint(i) * (GROUP / SIDE)][row] = join(words);
		}
	}
}

void store(int d, uint x0, uint y0, bool inside) {
	uint column = gl_LocalInvocationID.x % COLUMNS, row = gl_LocalInvocationID.x / COLUMNS;
	for (int i = 0; i < ITEMS; i++) {
		for (int j = 0; j < PER; j++) {
			uint x = x0 + column * uint(PER), y = y0 + (row + uint(i) * (GROUP / COLUMNS)) * uint(PER) + uint(j);
			value joined = tile[j][column][row + uint(i) * (GROUP / COLUMNS)];
			if (inside) {
				dstLanes[to(d, x, y) / PER] = joined;
				continue;
			}
			for (int m = 0; m < PER; m++) {
				if (x + uint(m) < n[0] && y < n[1]) {
					write(to(d, x + uint(m), y), wordOf(joined, m));
				}
			}
		}
	}
}

void plane(int d, int s) {
	const uint width = COLUMNS * uint(PER), height = SIDE * uint(PER);
	for (uint y = gl_WorkGroupID.y * height; y < n[1]; y += gl_NumWorkGroups.y * height) {
		for (uint x = gl_WorkGroupID.x * width; x < n[0]; x += gl_NumWorkGroups.x * width) {
			bool inside = PER > 1 && whole != 0u && x + width <= n[0] && y + height <= n[1];
			if (inside) {
				load(s, x, y, true);
			} else {
				load(s, x, y, false);
			}
			barrier();
			if (inside) {
				store(d, x, y, true);
			} else {
				store(d, x, y, false);
			}
			barrier();
		}
	}
}

#elif defined(CHANNELS)

// Axis 0 are pixels, axis 1 their channels. On one side the pixels of a channel are a row. On
// the other one the channels of a pixel lie side by side, and pixels follow each other without
// a gap. A span of pixels goes through shared memory, which has the order of the source, so
// that lanes are loaded and written in the order of the memory on both sides.
const int ITEMS = int(ROOM / GROUP);
// Padded, since a step of 2, 4 or 8 lanes would stay in a few banks.
shared value room[ROOM + ROOM / 32u];

// Side is how a span lies on one side: as a row for each channel, or as one row of all pixels
// with their channels.
struct Side {
	int rows, words, step;
	uint shift; // 1 << shift lanes of the room are for a row
};

Side sideOf(int step0, int step1, int pixels) {
	bool rows = step0 == 1;
	return Side(rows ? int(n[1]) : 1, rows ? pixels : pixels * int(n[1]), step1, rows ? wide : 31u);
}

// locate returns where lane i lies, and in left how many of its words there are.
int locate(Side side, uint i, out int left) {
	int row = int(i >> side.shift), first = int(i & ((1u << side.shift) - 1u)) * PER;
	left = row < side.rows ? side.words - first : 0;
	return row * side.step + first;
}

void load(int s, Side side, bool inside) {
	for (int k = 0; k < ITEMS; k++) {
		uint i = gl_LocalInvocationID.x + uint(k) * GROUP;
		int left, at = s + locate(side, i, left);
		if (left <= 0) {
			continue;
		}
		value joined;
		if (inside) {
			joined = value(srcLanes[at / PER]);
		} else {
			value words[PER];
			for (int j = 0; j < PER; j++) {
				words[j] = read(at + min(j, left - 1));
			}
			joined = join(words);
		}
		room[i + i / 32u] = joined;
	}
}

// store takes word e of row r from word r + e / divisor + e % divisor * factor of the room.
void store(int d, Side side, uint divisor, uint factor, bool inside) {
	for (int k = 0; k < ITEMS; k++) {
		uint i = gl_LocalInvocationID.x + uint(k) * GROUP;
		int left, at = d + locate(side, i, left);
		if (left <= 0) {
			continue;
		}
		uint e = (i & ((1u << side.shift) - 1u)) * uint(PER), quotient = e / divisor, rest = e % divisor;
		value words[PER];
		for (int j = 0; j < PER; j++) {
			uint from = (i >> side.shift) + quotient + rest * factor, lane = from / uint(PER);
			words[j] = wordOf(room[lane + lane / 32u], int(from % uint(PER)));
			bool carry = ++rest == divisor;
			quotient += carry ? 1u : 0u;
			rest = carry ? 0u : rest;
		}
		if (inside) {
			dstLanes[at / PER] = join(words);
			continue;
		}
		for (int j = 0; j < min(PER, left); j++) {
			write(at + j, words[j]);
		}
	}
}

void plane(int d, int s) {
	uint span = uint(PER) << wide;
	uint divisor = dstStep[0] == 1 ? ~0u : n[1], factor = dstStep[0] == 1 ? n[1] : span;
	for (uint x = gl_WorkGroupID.x * span; x < n[0]; x += gl_NumWorkGroups.x * span) {
		int pixels = int(min(span, n[0] - x)), to = d + int(x) * dstStep[0], from = s + int(x) * srcStep[0];
		Side source = sideOf(srcStep[0], srcStep[1], pixels), target = sideOf(dstStep[0], dstStep[1], pixels);
		bool inside = PER > 1 && whole != 0u && pixels % PER == 0;
		if (inside) {
			load(from, source, true);
		} else {
			load(from, source, false);
		}
		barrier();
		if (inside) {
			store(to, target, divisor, factor, true);
		} else {
			store(to, target, divisor, factor, false);
		}
		barrier();
	}
}

#else

const uint ITEM_BITS = 2u, ITEMS = 1u << ITEM_BITS;

// firstOf is the first word of a lane in its row. Where a row is dense in the destination,
// its lanes are aligned, and the first and the last may be partly outside.
int firstOf(int d, uint x, uint y) {
	return int(x) * PER - (dstStep[0] == 1 ? to(d, 0u, y) & (PER - 1) : 0);
}

// Neighbouring invocations go along axis 0, by lanes. An invocation loads all items of a
// step before it writes one. Words outside the plane are loaded from its edge, so that no
// load waits for a condition.
void plane(int d, int s) {
	uint high = 8u - wide, width = wide + along, height = high + ITEM_BITS - along;
	uint lanes = (n[0] + 2u * (uint(PER) - 1u)) / uint(PER); // where the row begins within one
	int last = int(n[0]) - 1;
	for (uint y0 = (gl_WorkGroupID.y << height) + (gl_LocalInvocationID.x >> wide); y0 < n[1]; y0 += gl_NumWorkGroups.y << height) {
		for (uint x0 = (gl_WorkGroupID.x << width) + (gl_LocalInvocationID.x & ((1u << wide) - 1u)); x0 < lanes; x0 += gl_NumWorkGroups.x << width) {
			value words[ITEMS][PER];
			for (uint k = 0u; k < ITEMS; k++) {
				uint x = x0 + ((k & ((1u << along) - 1u)) << wide), y = min(y0 + ((k >> along) << high), n[1] - 1u);
				int first = firstOf(d, x, y);
				for (int j = 0; j < PER; j++) {
					words[k][j] = read(from(s, uint(clamp(first + j, 0, last)), y));
				}
			}
			for (uint k = 0u; k < ITEMS; k++) {
				uint x = x0 + ((k & ((1u << along) - 1u)) << wide), y = y0 + ((k >> along) << high);
				int first = firstOf(d, x, y);
				if (y >= n[1]) {
					continue;
				}
#if WORD < 4
				if (dstStep[0] == 1 && first >= 0 && first + PER <= int(n[0])) {
					dstLanes[to(d, uint(first), y) / PER] = join(words[k]);
					continue;
				}
#endif
				for (int j = 0; j < PER; j++) {
					if (first + j >= 0 && first + j <= last) {
						write(to(d, uint(first + j), y), words[k][j]);
					}
				}
			}
		}
	}
}

#endif

void main() {
	for (uint z = gl_WorkGroupID.z; z < planes; z += gl_NumWorkGroups.z) {
		int d = dstFirst, s = srcFirst;
		uint rest = z;
		for (int k = 2; k < AXES && rest != 0u; k++) {
			int i = int(rest % n[k]);
			rest /= n[k];
			d += i * dstStep[k];
			s += i * srcStep[k];
		}
		plane(d, s);
	}
}
