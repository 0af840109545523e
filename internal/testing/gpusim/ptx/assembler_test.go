//go:build cuda && linux && cgo

package ptx_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// NVIDIA's assembler takes all that the tests of instructions are made of: what they
// prove is about PTX, not about a language of ours.
func TestInstructionsAreThoseOfTheAssembler(t *testing.T) {
	ptxas := filepath.Join(os.Getenv("DLX_CUDA_TOOLS"), "cuda_nvcc", "bin", "ptxas")
	if _, err := os.Stat(ptxas); err != nil {
		coretest.NeedDriver(t, err.Error(), "requirements.txt and let DLX_CUDA_TOOLS be its folder nvidia, as make does")
	}
	var all strings.Builder
	all.WriteString(header)
	for i, c := range instructions {
		entry := strings.TrimPrefix(kernel(c.body), header)
		all.WriteString(strings.Replace(entry, ".entry k(", fmt.Sprintf(".entry k%d(", i), 1))
	}
	text := filepath.Join(t.TempDir(), "all.ptx")
	if err := os.WriteFile(text, []byte(all.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(ptxas, "-arch=sm_50", "-o", text+".cubin", text).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
