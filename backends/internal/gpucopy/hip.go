package gpucopy

import (
	_ "embed"
	"math"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
)

//go:embed gather_hip.h
var hipPrelude string

// HIP returns the kernels for HIP as text, for hiprtc or another compiler of HIP: those of this package and that of package
// gpuconvert. It includes no header. The names, the parameters and the rules for memory are those of [PTX]; a launch has the
// block {GroupSize, 1, 1}, too. Compile it with -std=c++17 or a later standard, and with the option --offload-arch of the device.
// What hiprtcGetCode gives is for hipModuleLoadData.
func HIP() string { return hipPrelude + cudaSource + gpuconvert.HIP() }

// CodeObject is the kernels for HIP as machine code for one architecture. Loading it takes no compiler.
type CodeObject struct {
	Arch  string // the processor, as in gcnArchName before the first colon
	Image string // for hipModuleLoadData
}

// Name returns the name of the file.
func (c CodeObject) Name() string { return "gather_" + c.Arch }

var (
	//go:embed gather_gfx900.co
	gfx900 string
	//go:embed gather_gfx906.co
	gfx906 string
	//go:embed gather_gfx908.co
	gfx908 string
	//go:embed gather_gfx90a.co
	gfx90a string
	//go:embed gather_gfx1030.co
	gfx1030 string
	//go:embed gather_gfx1100.co
	gfx1100 string
)

// CodeObjects returns the machine code that there is for HIP. It is made for any setting of XNACK and of SRAM-ECC, so a device
// with either loads it ("User Guide for AMDGPU Backend", "Target ID").
func CodeObjects() []CodeObject {
	return []CodeObject{
		{"gfx900", gfx900}, {"gfx906", gfx906}, {"gfx908", gfx908}, {"gfx90a", gfx90a}, {"gfx1030", gfx1030}, {"gfx1100", gfx1100},
	}
}

// HIPImages returns the kernels for a device, the best first. Arch is its gcnArchName, such as "gfx90a:sramecc+:xnack-". An image
// that begins with "\x7fELF" is machine code; the last one is always the text [HIP], which must be compiled first.
// Machine code of one architecture is not for any other, so most devices have the text only. HIP over CUDA ("sm_90") has
// [PTX] alone, which is no text for a compiler of HIP: see [IsPTX].
func HIPImages(arch string) []string {
	processor, _, _ := strings.Cut(arch, ":")
	if strings.HasPrefix(processor, "sm_") {
		return []string{PTX()}
	}
	objects := CodeObjects()
	if i := slices.IndexFunc(objects, func(c CodeObject) bool { return c.Arch == processor }); i >= 0 {
		return []string{objects[i].Image, HIP()}
	}
	return []string{HIP()}
}

// HIPLimits returns limits that hold for every device of HIP. The packet of a launch has the number of threads
// on each axis in 32 bits (HSA Platform System Architecture Specification, "AQL kernel dispatch packet").
func HIPLimits() Limits {
	l := CUDALimits()
	l.Groups = [3]uint32{math.MaxUint32 / GroupSize, math.MaxUint16, math.MaxUint16}
	return l
}
