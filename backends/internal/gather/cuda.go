package gather

import (
	_ "embed"
	"math"
)

// GroupSize is how many invocations a group has: the block of a CUDA launch is
// {GroupSize, 1, 1}, its grid Dispatch.Groups.
const GroupSize = 1 << groupBits

//go:embed gather.ptx
var ptx string

// PTX gives the kernels for CUDA, as text for cuModuleLoadData. A driver for CUDA 9.0
// or later compiles it for any card since Maxwell (compute capability 5.0).
//
// The entry of a [Shader] that is not packed is its String. Its parameters are two
// addresses, that of the destination plus Dst.Offset and that of the source plus
// Src.Offset, and the Constants, by value. It needs no dynamic shared memory. Buffers
// must start at multiples of 16: for one that does not, plan from the multiple before.
func PTX() string { return ptx }

// CUDALimits are those of every card that [PTX] is for.
func CUDALimits() Limits {
	return Limits{
		StorageRange:    math.MaxInt64,
		OffsetAlignment: maxWord,
		Groups:          [3]uint32{math.MaxInt32, math.MaxUint16, math.MaxUint16},
		Storage8:        true,
		Storage16:       true,
		Tiles:           true,
	}
}
