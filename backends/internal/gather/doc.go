// Package gather copies between any two strided layouts of buffers on a GPU: a compute
// shader in GLSL, its SPIR-V, the same in CUDA C and its PTX, and the plan of dispatches
// for a strided.Copy. It calls no driver. [PTX] says how CUDA launches a [Dispatch];
// Vulkan and OpenGL backends do what it says so:
//
//   - one pipeline for each [Shader], made when it is first needed: SPIRV for Vulkan
//     1.1, GLSL for OpenGL 4.3. The stage's entry is "main".
//   - storage buffers at binding 0 (written) and 1 (read) of set 0, bound to the
//     Windows of the dispatch. VK_KHR_push_descriptor spares the descriptor pool.
//   - the Constants as push constants from offset 0 on, 112 bytes, or as uniforms.
//   - no barrier between the dispatches of one plan: they write different words.
//     What comes before and after needs SHADER_READ and SHADER_WRITE at the compute
//     stage, or glMemoryBarrier.
//
// A dispatch reads and writes the bytes of the elements only, except by packed
// shaders: they read and write whole uints around them, and leave the other bytes
// as they are by atomics. No window may end after its buffer, and a packed one ends
// on a multiple of 4: memory that such a shader shall use comes in multiples of 4.
//
// When to use it, by what was measured: where the device is the processor
// (lavapipe, llvmpipe) a shader moves a word in 10 ns or more, whatever its size, and
// the host copies in place twenty times as fast; so there the host must, in the order of the
// stream, if both sides are mapped. A region of a plain copy costs it 0.15 us, so
// that regions pay from pieces of 2 KiB on. On a GPU, few or large pieces go by plain
// copies and all else by shaders.
package gather

//go:generate go run generate.go .
//go:generate go run generate_ptx.go .
