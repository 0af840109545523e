package gather

import (
	_ "embed"
	"math"
)

// GroupSize is the number of invocations of a group. A CUDA launch has the block {GroupSize, 1, 1} and the
// grid Dispatch.Groups.
const GroupSize = 1 << groupBits

//go:embed gather.ptx
var ptx string

// PTX returns the kernels for CUDA, as text for cuModuleLoadData. A driver for CUDA 9.0 or later compiles it
// for any card since Maxwell (compute capability 5.0).
//
// The entry of a [Shader] that is not packed is named by its String. Its parameters are the address of the
// destination plus Dst.Offset, the address of the source plus Src.Offset, and the Constants, by value. It
// needs no dynamic shared memory. Buffers must start at multiples of 16. For any other buffer, pass the
// multiple before it to [Plan], and offsets from there.
func PTX() string { return ptx }

// CUDALimits returns limits that hold for every card that [PTX] supports.
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
