package gpuconvert

import (
	"compress/gzip"
	_ "embed"
	"encoding/binary"
	"io"
	"strings"
	"sync"
)

//go:embed convert.inc
var body string

//go:embed convert.ptx.gz
var compressedPTX string

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
#define CHANNEL(name, c) name[c]
#define MUL(x, y) x * y
#define ADD(x, y) x + y
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
#define CHANNEL(name, c) (constants.name[c])
#define MUL(x, y) ((x) * (y))
#define ADD(x, y) ((x) + (y))
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

// CUDA returns the source of the kernel "convert" in CUDA C. Its parameters are the addresses of the two windows, and the
// Constants, by value.
func CUDA() string {
	return `typedef unsigned uint;
struct Constants {
	int dstFirst, srcFirst;
	uint count, kinds, channels;
	int channelDst, channelSrc;
	uint n[4];
	int dstStep[4], srcStep[4];
	float scale[4], offset[4];
};

// Parameters have no address that a variable could index: each number of a channel has a condition.
#define FIELD(name) (constants.name)
#define CHANNEL(name, c) ((c) < 2u ? (c) == 0u ? constants.name[0] : constants.name[1] : (c) == 2u ? constants.name[2] : constants.name[3])
#define MUL(x, y) __fmul_rn(x, y)
#define ADD(x, y) __fadd_rn(x, y)
#define FIRST (blockIdx.x * 64u + threadIdx.x)
#define STEP (gridDim.x * 64u)
#define PRECISE
#define FLOAT(x) __int2float_rn(x)
#define INT(x) ((int)(x))
#define UINT(x) ((uint)(x))
#define BITS(x) __float_as_uint(x)
#define LIMIT(x, low, high) __float2int_rz(fminf(fmaxf(x, (float)(low)), (float)(high)))
#define GET8(i) ((uint)((const unsigned char *)src)[i])
#define GET16(i) ((uint)((const unsigned short *)src)[i])
#define PUT8(i, x) ((unsigned char *)dst)[i] = (unsigned char)(x)
#define PUT16(i, x) ((unsigned short *)dst)[i] = (unsigned short)(x)
#define PUT32(i, x) ((uint *)dst)[i] = (x)
extern "C" __global__ void __launch_bounds__(64) convert(void *__restrict__ dst, const void *__restrict__ src, Constants constants)
{
` + body + `}
`
}

var ptx = sync.OnceValue(func() string {
	r, err := gzip.NewReader(strings.NewReader(compressedPTX))
	if err != nil {
		panic(err) // the file is part of the program, and tests read it
	}
	text, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return string(text)
})

// PTX returns the kernel of [CUDA] as text for cuModuleLoadData. A driver for CUDA 9.0 or later compiles it for any card since
// Maxwell (compute capability 5.0).
func PTX() string { return ptx() }

// SPIRV returns the compiled shader, which needs Vulkan 1.1. Its entry point is "main".
func SPIRV() []uint32 {
	words := make([]uint32, len(binary32)/4)
	for i := range words {
		words[i] = binary.LittleEndian.Uint32(binary32[4*i:])
	}
	return words
}
