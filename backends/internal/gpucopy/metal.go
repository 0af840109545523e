package gpucopy

import (
	_ "embed"
	"math"
	"strings"
)

//go:embed gather_metal.h
var metalPrelude string

// MSL returns the shader in Metal's language, version 2.3 or later, for newLibraryWithSource. It is "" for a packed Shader, since
// Metal has bytes in memory, and for a Shader that is not one of [Shaders].
//
// The library has one function, which is named by String. Buffer 0 is the destination from Dst.Offset on, buffer 1 the source
// from Src.Offset on, and the 120 bytes of buffer 2 are the Constants (setBytes:length:atIndex:). A launch has
// Dispatch.Groups threadgroups of {GroupSize, 1, 1} threads (dispatchThreadgroups:threadsPerThreadgroup:). A pipeline needs at
// most 8704 bytes of threadgroup memory, which the function declares itself.
//
// The offsets of a window are multiples of 16, as large as the largest type that a function reads and writes.
func (s Shader) MSL() string {
	kernel := "KERNEL(" + s.String() + ","
	if !strings.Contains(cudaSource, kernel) {
		return ""
	}
	var b strings.Builder
	b.WriteString(metalPrelude)
	for line := range strings.Lines(cudaSource) {
		if !strings.HasPrefix(line, "KERNEL(") || strings.HasPrefix(line, kernel) { // Metal compiles what it is given
			b.WriteString(line)
		}
	}
	return b.String()
}

// MetalLimits returns limits that hold for every device of Metal. Offsets and steps have 32 bits, so a window is less than
// 2 GiB; buffers may be larger.
func MetalLimits() Limits {
	l := CUDALimits()
	l.Groups = [3]uint32{math.MaxUint16, math.MaxUint16, math.MaxUint16}
	return l
}
