// Copies words between two strided layouts, one for each invocation and step of its
// loops. What it is given is made by plan.go. It is compiled once for each Shader,
// which says by macros:
//
//	WORD    the size of a word in bytes: 1, 2, 4, 8 or 16
//	PACKED  words of 1 or 2 bytes in buffers of uint, for want of 8 or 16 bit storage
//	TILED   through a tile in shared memory, so that neighbouring invocations read
//	        words that lie side by side, and write such
//	AXES    the number of axes

#if defined(PACKED) || WORD == 4
#define element uint
#define lane uint
#elif WORD == 1
#extension GL_EXT_shader_8bit_storage : require
#define element uint8_t
#define lane uint // in shared memory small words would need another feature
#elif WORD == 2
#extension GL_EXT_shader_16bit_storage : require
#define element uint16_t
#define lane uint
#elif WORD == 8
#define element uvec2
#define lane uvec2
#else
#define element uvec4
#define lane uvec4
#endif

layout(local_size_x = 256) in;

layout(std430, binding = 0) restrict buffer Dst { element dst[]; };
layout(std430, binding = 1) restrict readonly buffer Src { element src[]; };

// Offsets and steps count words from the start of a binding. Axis 0 and 1 span a
// plane; the others, innermost first, count the planes. Unused ones have extent 1.
#ifdef VULKAN
layout(push_constant) uniform Constants {
#define uniform
#endif
	uniform int dstFirst;
	uniform int srcFirst;
	uniform uint planes;
	uniform uint wide; // a group covers 1 << wide words of axis 0
	uniform uint n[AXES];
	uniform int dstStep[AXES];
	uniform int srcStep[AXES];
#ifdef VULKAN
};
#endif

int from(int s, uint x, uint y) { return s + int(x) * srcStep[0] + int(y) * srcStep[1]; }

int to(int d, uint x, uint y) { return d + int(x) * dstStep[0] + int(y) * dstStep[1]; }

#if defined(PACKED)

const int PER = 4 / WORD;          // words in a uint
const uint BITS = 8 * WORD;        // bits of a word
const uint MASK = (1u << BITS) - 1u;

uint read(int at) { return src[at / PER] >> (uint(at % PER) * BITS) & MASK; }

// write sets the bits of mask, and no others: their words may belong to other
// invocations.
void write(int at, uint value, uint mask) {
	if (mask == ~0u) {
		dst[at] = value;
	} else {
		atomicAnd(dst[at], ~mask);
		atomicOr(dst[at], value);
	}
}

// Where a row lies densely in the destination, an invocation writes a uint of it.
void row(int d, int s, uint y, uint x0, uint step) {
	int first = to(d, 0u, y);
	if (dstStep[0] != 1) {
		for (uint x = x0; x < n[0]; x += step) {
			int at = to(d, x, y);
			uint shift = uint(at % PER) * BITS;
			write(at / PER, read(from(s, x, y)) << shift, MASK << shift);
		}
		return;
	}
	int last = first + int(n[0]) - 1;
	for (int at = first / PER + int(x0); at <= last / PER; at += int(step)) {
		uint value = 0u, mask = 0u;
		for (int k = 0; k < PER; k++) {
			int x = at * PER + k - first;
			if (x >= 0 && x < int(n[0])) {
				value |= read(from(s, uint(x), y)) << (uint(k) * BITS);
				mask |= MASK << (uint(k) * BITS);
			}
		}
		write(at, value, mask);
	}
}

#else

void row(int d, int s, uint y, uint x0, uint step) {
	for (uint x = x0; x < n[0]; x += step) {
		dst[to(d, x, y)] = src[from(s, x, y)];
	}
}

#endif

#ifdef TILED

const uint SIDE = 32u;
// One more column, so that the words of a column lie in different banks.
shared lane tile[SIDE][SIDE + 1u];

// Axis 0 is dense in the destination, axis 1 in the source.
void plane(int d, int s) {
	uint column = gl_LocalInvocationID.x % SIDE, first = gl_LocalInvocationID.x / SIDE;
	uint rows = gl_WorkGroupSize.x / SIDE;
	for (uint y = gl_WorkGroupID.y * SIDE; y < n[1]; y += gl_NumWorkGroups.y * SIDE) {
		for (uint x = gl_WorkGroupID.x * SIDE; x < n[0]; x += gl_NumWorkGroups.x * SIDE) {
			for (uint k = first; k < SIDE; k += rows) {
				if (y + column < n[1] && x + k < n[0]) {
					tile[k][column] = lane(src[from(s, x + k, y + column)]);
				}
			}
			barrier();
			for (uint k = first; k < SIDE; k += rows) {
				if (x + column < n[0] && y + k < n[1]) {
					dst[to(d, x + column, y + k)] = element(tile[column][k]);
				}
			}
			barrier();
		}
	}
}

#else

void plane(int d, int s) {
	uint x = (gl_WorkGroupID.x << wide) + (gl_LocalInvocationID.x & ((1u << wide) - 1u));
	uint high = 8u - wide;
	for (uint y = (gl_WorkGroupID.y << high) + (gl_LocalInvocationID.x >> wide); y < n[1]; y += gl_NumWorkGroups.y << high) {
		row(d, s, y, x, gl_NumWorkGroups.x << wide);
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
