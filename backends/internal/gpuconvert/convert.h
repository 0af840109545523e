// What the texts in dialects of C share. GLOBAL is the kind of memory that buffers are, where a dialect names it. BITS, MUL, ADD,
// LIMIT, FIRST and STEP are the dialect's.

// As Constants in plan.go.
struct Conversion {
	int dstFirst;
	int srcFirst;
	uint count;
	uint kinds;
	uint channels;
	int channelDst;
	int channelSrc;
	uint n[4];
	int dstStep[4];
	int srcStep[4];
	float scale[4];
	float offset[4];
};

#define FIELD(name) (constants.name)
#ifndef CHANNEL
#define CHANNEL(name, c) (constants.name[c])
#endif
#define PRECISE
#ifndef FLOAT
#define FLOAT(x) ((float)(x))
#endif
#define INT(x) ((int)(x))
#define UINT(x) ((uint)(x))
#define GET8(i) ((uint)((GLOBAL const uchar *)src)[i])
#define GET16(i) ((uint)((GLOBAL const ushort *)src)[i])
#define PUT8(i, x) ((GLOBAL uchar *)dst)[i] = (uchar)(x)
#define PUT16(i, x) ((GLOBAL ushort *)dst)[i] = (ushort)(x)
#define PUT32(i, x) ((GLOBAL uint *)dst)[i] = (x)
