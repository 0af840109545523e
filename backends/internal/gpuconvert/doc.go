// Package gpuconvert converts elements between two strided layouts of buffers on a GPU, with the bits of
// core.ConvertScaled. It has one text of a kernel, in the common part of GLSL and of the dialects of C for CUDA, HIP, OpenCL and
// Metal, and a planner that turns a conversion into dispatches. It calls no driver.
//
// An invocation converts up to [MaxChannels] elements along one axis, such as the channels of a pixel, so
// that neighbouring invocations read and write the same cache lines at the same time. A dispatch has the factors and offsets of
// these. [Supports] admits at most [MaxNumbers], since each needs dispatches; the host converts where there are more.
//
// The kernel has the same bits on every device because [Supports] admits only numbers for which these do not
// depend on the device. Sources are integers of 8 and 16 bits, which float32 holds exactly. Factors and
// offsets are 0, or between 2^-100 and 2^100: no product and no sum is subnormal, which devices may replace
// by 0, or infinite. The product and the sum are rounded one after the other, as GLSL's "precise", OpenCL's
// FP_CONTRACT and CUDA's __fmul_rn and __fadd_rn demand. The compilers of HIP and Metal have options that join them; there the
// bits of the product pass an operation that changes none, which no compiler knows. What is smaller than float32 is rounded by
// integer arithmetic.
//
// A backend for Vulkan provides one pipeline of [SPIRV], whose entry is "main", storage buffers at binding 0
// (written) and 1 (read) of set 0, bound to the Windows of the dispatch, and the Constants as push constants.
// Buffers are arrays of uint there: windows begin and end at multiples of 4 bytes. [OpenGL] is the same with uniforms. [OpenCL], [CUDA],
// [HIP] and [MSL] say what a launch has. Package gpucopy has the texts for CUDA and HIP with its own kernels, and compiled, so
// that a device loads all kernels at once.
package gpuconvert

//go:generate sh -c "go run generate.go > convert.comp && glslangValidator -S comp --target-env vulkan1.1 -g0 -o convert.spv convert.comp && rm convert.comp"
