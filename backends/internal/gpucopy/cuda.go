package gpucopy

import (
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"math"
	"strings"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
)

// GroupSize is the number of invocations of a group. A CUDA launch has the block {GroupSize, 1, 1} and the
// grid Dispatch.Groups.
const GroupSize = 1 << groupBits

var (
	//go:embed gather.cu
	cudaSource string
	//go:embed gather.ptx.gz
	compressedPTX string
)

// CUDA returns the kernels in CUDA C: those of this package, and that of package gpuconvert, so that a device loads all of them
// at once.
func CUDA() string { return cudaSource + gpuconvert.CUDA() }

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

// PTX returns the kernels of [CUDA], as text for cuModuleLoadData. A driver for CUDA 9.0 or later compiles it
// for any card since Maxwell (compute capability 5.0).
//
// The entry of a [Shader] that is not packed is named by its String. Its parameters are the address of the
// destination plus Dst.Offset, the address of the source plus Src.Offset, and the Constants, by value. It
// needs no dynamic shared memory. Buffers must start at multiples of 16. For any other buffer, pass the
// multiple before it to [Plan], and offsets from there. gpuconvert.CUDA says what the entry gpuconvert.Kernel has.
func PTX() string { return ptx() }

// IsPTX reports whether an image is that of [PTX].
func IsPTX(image string) bool { return image == ptx() }

// Cubin is the kernels for CUDA as machine code, for the cards of one compute capability and for those of the same
// major version that came later. Loading it takes no compiler.
type Cubin struct {
	Major, Minor int    // the compute capability
	Image        string // for cuModuleLoadData
}

// Name returns the name of the file.
func (c Cubin) Name() string { return fmt.Sprintf("gather_sm%d%d", c.Major, c.Minor) }

var (
	//go:embed gather_sm75.cubin
	sm75 string
	//go:embed gather_sm80.cubin
	sm80 string
	//go:embed gather_sm90.cubin
	sm90 string
)

// Cubins returns the machine code that there is.
func Cubins() []Cubin { return []Cubin{{7, 5, sm75}, {8, 0, sm80}, {9, 0, sm90}} }

// CUDAImages returns the kernels for a card with a compute capability, as images for cuModuleLoadData, the best
// first. The last one is the [PTX]; a driver that refuses the machine code compiles that. Cards of one chip with a
// processor (Tegra) need it: machine code for other cards of their compute capability is not for them (CUDA C++
// Programming Guide, "Binary Compatibility").
func CUDAImages(major, minor int, integrated bool) []string {
	for _, c := range Cubins() {
		if !integrated && c.Major == major && c.Minor <= minor {
			return []string{c.Image, ptx()}
		}
	}
	return []string{ptx()}
}

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
