// Package gpuconvert converts elements between two strided layouts of buffers on a GPU, with the bits of
// core.ConvertScaled. It has one text of a kernel, in the common part of GLSL, OpenCL C and CUDA C, with its SPIR-V and
// PTX, and a planner that turns a conversion into dispatches. It calls no driver.
//
// An invocation converts up to [MaxChannels] elements along one axis, such as the channels of a pixel, so
// that neighbouring invocations read and write the same cache lines at the same time.
//
// The kernel has the same bits on every device because [Supports] admits only numbers for which these do not
// depend on the device. Sources are integers of 8 and 16 bits, which float32 holds exactly. Factors and
// offsets are 0, or between 2^-100 and 2^100: no product and no sum is subnormal, which devices may replace
// by 0, or infinite. The product and the sum are rounded one after the other, as GLSL's "precise", OpenCL's
// FP_CONTRACT and CUDA's __fmul_rn and __fadd_rn demand. What is smaller than float32 is rounded by integer arithmetic.
//
// A backend for Vulkan provides one pipeline of [SPIRV], whose entry is "main", storage buffers at binding 0
// (written) and 1 (read) of set 0, bound to the Windows of the dispatch, and the Constants as push constants.
// Buffers are arrays of uint there: windows begin and end at multiples of 4 bytes. OpenCL compiles [OpenCL].
// A backend for CUDA loads [PTX], and launches blocks of [GroupSize] threads; no backend does so yet.
package gpuconvert

//go:generate sh -c "go run generate.go > convert.comp && glslangValidator -S comp --target-env vulkan1.1 -g0 -o convert.spv convert.comp && rm convert.comp"
//go:generate sh -c "go run generate.go cuda > convert.cu && go run ../gpucopy/generate_ptx.go convert.cu convert.ptx.gz && rm convert.cu"
