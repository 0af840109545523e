//go:build rocm && linux && cgo

package gpuconvert_test

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/core/coretest"
)

// The text for HIP, compiled for the host, has its bits.
func TestHIP(t *testing.T) {
	h, err := gpucopytest.CompileHIP(t.TempDir(), gpucopy.HIP())
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	checkBits(t, h.Convert)
}

// No machine code for AMD's cards rounds a product and a sum together, as the compiler does without being told.
func TestCodeObjectsRoundTwice(t *testing.T) {
	const name = "llvm-objdump-15"
	if _, err := exec.LookPath(name); err != nil {
		coretest.NeedDriver(t, err.Error(), "llvm-15")
	}
	fused, add := regexp.MustCompile(`v_(dual_)?(pk_)?(fma|fmac|fmaak|fmamk|mac|mad|madak|madmk)\w*_f32`), regexp.MustCompile(`v_(dual_)?add_f32`)
	for _, c := range gpucopy.CodeObjects() {
		code, err := exec.Command(name, "-d", "--disassemble-symbols="+gpuconvert.Kernel, filepath.Join("..", "gpucopy", c.Name()+".co")).Output()
		if err != nil {
			t.Fatal(err)
		}
		if x := fused.Find(code); x != nil || !add.Match(code) {
			t.Errorf("%s: %q is there, or no addition", c.Arch, x)
		}
	}
}
