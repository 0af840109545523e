package gpucopy_test

import (
	"debug/elf"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
)

// checkCodeObject checks that an image is code for an architecture, and has every kernel with its parameters.
func checkCodeObject(t *testing.T, name, arch, image string) {
	t.Helper()
	f, err := elf.NewFile(strings.NewReader(image))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	// "User Guide for AMDGPU Backend", "ELF Code Object". Both features of a target ID may be on or off ("any"), or are not supported.
	const amd, xnack, sramECC = 224, 0x300, 0xc00
	machines := map[string]uint32{
		"gfx900": 0x2c | 0x100, "gfx906": 0x2f | 0x100 | 0x400, "gfx908": 0x30 | 0x100 | 0x400, "gfx90a": 0x3f | 0x100 | 0x400, "gfx1030": 0x36, "gfx1031": 0x37, "gfx1100": 0x41,
	}
	// elf does not keep e_flags.
	flags := binary.LittleEndian.Uint32([]byte(image[48:])) & (0xff | xnack | sramECC)
	if f.Machine != amd || flags != machines[arch] {
		t.Errorf("%s is for machine %d with flags %#x, want %#x", name, f.Machine, flags, machines[arch])
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	parameters := make(map[string]uint32)
	for _, s := range symbols {
		if kernel, ok := strings.CutSuffix(s.Name, ".kd"); ok {
			section := f.Sections[s.Section]
			var descriptor [64]byte
			if _, err := section.ReadAt(descriptor[:], int64(s.Value-section.Addr)); err != nil && err != io.EOF {
				t.Fatalf("%s: %v", s.Name, err)
			}
			parameters[kernel] = binary.LittleEndian.Uint32(descriptor[8:]) // kernarg_size
		}
	}
	if got, want := parameters[gpuconvert.Kernel], uint32(2*8+unsafe.Sizeof(gpuconvert.Constants{})); got != want {
		t.Errorf("%s: the parameters of %s have %d bytes, want %d", name, gpuconvert.Kernel, got, want)
	}
	for _, s := range gpucopy.Shaders() {
		want := uint32(2*8 + unsafe.Sizeof(gpucopy.Constants{}))
		if got, ok := parameters[s.String()]; ok == s.Packed || ok && got != want {
			t.Errorf("%s: %v is there: %v, its parameters have %d bytes, want %d", name, s, ok, got, want)
		}
	}
}

func TestCodeObjectsHaveEveryKernel(t *testing.T) {
	for _, c := range gpucopy.CodeObjects() {
		checkCodeObject(t, c.Name(), c.Arch, c.Image)
	}
}

// Code for one architecture is not for another one, whose name may begin in the same way.
func TestDevicesGetCodeObjectsThatTheyRun(t *testing.T) {
	for arch, want := range map[string]string{
		"gfx90a:sramecc+:xnack-": "gather_gfx90a", "gfx90a": "gather_gfx90a", "gfx906:sramecc-:xnack-": "gather_gfx906", "gfx1030": "gather_gfx1030",
		"gfx1031": "", "gfx90": "", "gfx942:sramecc+:xnack-": "", "gfx1101": "", "": "", ":xnack+": "", "gfx": "",
	} {
		images, got := gpucopy.HIPImages(arch), ""
		for _, c := range gpucopy.CodeObjects() {
			if images[0] == c.Image {
				got = c.Name()
			}
		}
		if got != want || images[len(images)-1] != gpucopy.HIP() || len(images) != 1+min(len(want), 1) {
			t.Errorf("%s: %q first of %d images, want %q and the text last", arch, got, len(images), want)
		}
	}
}

func TestHIPOverCUDAGetsPTX(t *testing.T) {
	for _, arch := range []string{"sm_50", "sm_90", "sm_120"} {
		if images := gpucopy.HIPImages(arch); len(images) != 1 || !gpucopy.IsPTX(images[0]) {
			t.Errorf("%s has %d images, want PTX", arch, len(images))
		}
	}
	for _, image := range append(gpucopy.HIPImages("gfx90a"), "", gpucopy.Cubins()[0].Image) {
		if gpucopy.IsPTX(image) {
			t.Errorf("%.10q is taken for PTX", image)
		}
	}
}
