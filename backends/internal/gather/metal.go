package gather

import (
	"embed"
	"math"
)

//go:embed *.metal
var metal embed.FS

// MSL returns the shader in Metal's language, version 2.0 or later, for newLibraryWithSource. SPIRV-Cross has made it of [Shader.SPIRV].
// It is "" for a packed Shader: Metal has bytes in memory.
//
// The library has one function, which is named by String. Buffer 0 is the destination from Dst.Offset on, buffer 1 the source
// from Src.Offset on, and the 120 bytes of buffer 2 are the Constants (setBytes:length:atIndex:). A launch has
// Dispatch.Groups threadgroups of {GroupSize, 1, 1} threads (dispatchThreadgroups:threadsPerThreadgroup:). A pipeline needs at
// most 8704 bytes of threadgroup memory, which the function declares itself.
//
// The offsets of a window are multiples of 16, as large as the largest type that a function reads and writes.
func (s Shader) MSL() string {
	text, err := metal.ReadFile(s.String() + ".metal")
	if err != nil {
		return ""
	}
	return string(text)
}

// MetalLimits returns limits that hold for every device of Metal. Offsets and steps have 32 bits, so a window is less than
// 2 GiB; buffers may be larger.
func MetalLimits() Limits {
	l := CUDALimits()
	l.Groups = [3]uint32{math.MaxUint16, math.MaxUint16, math.MaxUint16}
	return l
}
