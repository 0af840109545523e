package gpuconvert

import (
	_ "embed"
	"encoding/binary"
)

//go:embed convert.inc
var body string

//go:embed convert.spv
var binary32 []byte

// GLSL returns the source of the shader for Vulkan.
func GLSL() string {
	return `#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) restrict buffer Dst { uint dst[]; };
layout(std430, binding = 1) restrict readonly buffer Src { uint src[]; };
layout(push_constant) uniform Constants {
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

// put sets the bits of an element, and no others: their words may belong to other invocations.
void put(int at, uint mask, uint shift, uint value) {
	atomicAnd(dst[at], ~(mask << shift));
	atomicOr(dst[at], value << shift);
}

#define FIELD(name) name
#define FIRST gl_GlobalInvocationID.x
#define STEP (gl_NumWorkGroups.x * 64u)
#define PRECISE precise
#define FLOAT(x) float(x)
#define INT(x) int(x)
#define UINT(x) uint(x)
#define BITS(x) floatBitsToUint(x)
#define LIMIT(x, low, high) int(clamp(x, low, high))
#define GET8(i) (src[(i) >> 2] >> (uint(i) & 3u) * 8u & 0xffu)
#define GET16(i) (src[(i) >> 1] >> (uint(i) & 1u) * 16u & 0xffffu)
#define PUT8(i, x) put((i) >> 2, 0xffu, (uint(i) & 3u) * 8u, x)
#define PUT16(i, x) put((i) >> 1, 0xffffu, (uint(i) & 1u) * 16u, x)
#define PUT32(i, x) dst[i] = x
void main() {
` + body + "}\n"
}

// OpenCL returns the source of the kernel "convert" in OpenCL C 1.2. Its arguments are the two buffers, the bytes
// of them before the windows, as uint64, and the Constants.
func OpenCL() string {
	return `#pragma OPENCL FP_CONTRACT OFF
struct Constants {
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
#define FIRST ((uint)get_global_id(0))
#define STEP ((uint)get_global_size(0))
#define PRECISE
#define FLOAT(x) ((float)(x))
#define INT(x) ((int)(x))
#define UINT(x) ((uint)(x))
#define BITS(x) as_uint(x)
#define LIMIT(x, low, high) ((int)clamp(x, (float)(low), (float)(high)))
#define GET8(i) ((uint)((__global const uchar *)src)[i])
#define GET16(i) ((uint)((__global const ushort *)src)[i])
#define PUT8(i, x) ((__global uchar *)dst)[i] = (uchar)(x)
#define PUT16(i, x) ((__global ushort *)dst)[i] = (ushort)(x)
#define PUT32(i, x) ((__global uint *)dst)[i] = (x)
__kernel void convert(__global uchar *dstBuffer, __global const uchar *srcBuffer, ulong dstBefore, ulong srcBefore, struct Constants constants)
{
	__global uchar *dst = dstBuffer + dstBefore;
	__global const uchar *src = srcBuffer + srcBefore;
` + body + "}\n"
}

// SPIRV returns the compiled shader, which needs Vulkan 1.1. Its entry point is "main".
func SPIRV() []uint32 {
	words := make([]uint32, len(binary32)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(binary32[4*i:])
	}
	return words
}
