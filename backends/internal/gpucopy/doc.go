// Package gpucopy copies between any two strided layouts of buffers on a GPU. It has a compute shader in GLSL with its SPIR-V, the
// same in WGSL, and in CUDA C, which is the text for HIP and for Metal too, with machine code for CUDA and HIP, and a planner that turns a
// copyplan.Copy into dispatches. It calls no driver. It copies rows, tiles of a plane that is transposed, or spans of pixels with a few channels;
// [Plan] chooses. [PTX] says how CUDA launches a [Dispatch], [HIP] and [Shader.MSL] how HIP and Metal do, [Shader.WGSL] how WebGPU does. The texts and the
// machine code for CUDA and HIP also have the kernel of package gpuconvert.
//
// A backend for Vulkan or OpenGL provides
//
//   - one pipeline for each [Shader], made on first use, from SPIRV for Vulkan 1.1 or from GLSL for OpenGL
//     4.3; the stage's entry is "main";
//   - storage buffers at binding 0 (written) and 1 (read) of set 0, bound to the Windows of the dispatch;
//     with VK_KHR_push_descriptor no descriptor pool is needed;
//   - the Constants as push constants, 120 bytes from offset 0 on, or as uniforms;
//   - no barrier between the dispatches of one plan, which write different words, but barriers against
//     commands before and after: SHADER_READ and SHADER_WRITE at the compute stage, or glMemoryBarrier.
//
// A dispatch reads and writes only the bytes of the elements. Packed shaders are the exception: they read and
// write whole uints around the elements, and preserve the other bytes by atomics. No window may end after its
// buffer. The window of a packed shader ends on a multiple of 4, so its memory must have a size that is a
// multiple of 4.
//
// When to use it, by measurements. Where the device is the processor (lavapipe, llvmpipe), a shader moves a
// word in 5 ns or more, whatever the size of a word. The host copies in place ten times as fast. If
// both sides are mapped, the host should copy there, in the order of the stream. A region of a plain copy
// costs 0.15 us there, so regions are worthwhile for pieces of 2 KiB or more. On a GPU, plain copies serve
// few or large pieces, and shaders everything else.
package gpucopy

//go:generate go run generate.go .
//go:generate go run generate_ptx.go gather.ptx.gz
//go:generate go run generate_cubin.go .
//go:generate go run generate_hip.go .
//go:generate go run generate_counts.go .
