package gpuconvert

import (
	_ "embed"
	"encoding/binary"
	"strings"
)

// Kernel is the name of the kernel in each text but GLSL's.
const Kernel = "convert"

var (
	//go:embed convert.inc
	body string
	//go:embed convert.h
	common string
	//go:embed convert.cu
	cudaSource string
	//go:embed convert_hip.h
	hipPrelude string
	//go:embed convert_metal.h
	metalPrelude string

	//go:embed convert.spv
	binary32 []byte
)

// GLSL returns the source of the shader for Vulkan. Its entry is "main".
func GLSL() string { return glsl("layout(push_constant) uniform Constants {", "", "};") }

// OpenGL returns the source of the shader for OpenGL 4.5. The [Constants] are uniforms with the names of its fields, which begin
// with small letters.
func OpenGL() string { return glsl("", "uniform ", "") }

// glsl returns the shader, with text around the constants and before each of them.
func glsl(begin, each, end string) string {
	var constants strings.Builder
	for _, field := range []string{
		"int dstFirst", "int srcFirst", "uint count", "uint kinds", "uint channels", "int channelDst", "int channelSrc",
		"uint n[4]", "int dstStep[4]", "int srcStep[4]", "float scale[4]", "float offset[4]",
	} {
		constants.WriteString("\t" + each + field + ";\n")
	}
	return `#version 450
layout(local_size_x = 64) in;
layout(std430, binding = 0) restrict buffer Dst { uint dst[]; };
layout(std430, binding = 1) restrict readonly buffer Src { uint src[]; };
` + begin + "\n" + constants.String() + end + `

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

// OpenCL returns the source of the [Kernel] in OpenCL C 1.2. Its arguments are the two buffers, the bytes of them before the
// windows, as uint64, and the [Constants].
func OpenCL() string {
	return `#pragma OPENCL FP_CONTRACT OFF
#define GLOBAL __global
#define MUL(x, y) ((x) * (y))
#define ADD(x, y) ((x) + (y))
#define BITS(x) as_uint(x)
#define LIMIT(x, low, high) ((int)clamp(x, (float)(low), (float)(high)))
#define FIRST ((uint)get_global_id(0))
#define STEP ((uint)get_global_size(0))
` + common + `
__kernel void convert(__global uchar *dstBuffer, __global const uchar *srcBuffer, ulong dstBefore, ulong srcBefore, struct Conversion constants)
{
	__global uchar *dst = dstBuffer + dstBefore;
	__global const uchar *src = srcBuffer + srcBefore;
` + body + "}\n"
}

// CUDA returns the source of the [Kernel] in CUDA C. Its parameters are the addresses of the two windows, and the [Constants], by
// value. A launch has Dispatch.Groups blocks of [GroupSize] threads. Package gpucopy has it compiled, with its own kernels.
func CUDA() string {
	return strings.NewReplacer("#include \"convert.h\"\n", common, "#include \"convert.inc\"\n", body).Replace(cudaSource)
}

// HIP returns the source for HIP, which follows the one of package gpucopy: parameters and launches are those of [CUDA].
func HIP() string { return hipPrelude + CUDA() }

// MSL returns the source in Metal's language, version 2.3 or later, for newLibraryWithSource. Buffer 0 is the destination from
// Dst.Offset on, buffer 1 the source from Src.Offset on, and buffer 2 the [Constants] (setBytes:length:atIndex:). The offsets
// are multiples of 4. A launch has Dispatch.Groups threadgroups of [GroupSize] threads. Bits do not depend on the options of the
// compiler.
func MSL() string {
	return metalPrelude + common + `
kernel void convert(device uint *dst [[buffer(0)]], const device uint *src [[buffer(1)]], constant Conversion &constants [[buffer(2)]], uint3 index [[thread_position_in_threadgroup]], uint3 block [[threadgroup_position_in_grid]], uint3 grid [[threadgroups_per_grid]]) {
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
