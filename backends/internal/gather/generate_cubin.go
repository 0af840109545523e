//go:build ignore

// Command generate_cubin assembles gather.ptx for the cards of gather.Cubins, into the folder that it is given, with
// the ptxas that lies in the folder DLX_CUDA_TOOLS.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/dlx-go/dlx/backends/internal/gather"
)

func main() {
	if len(os.Args) != 2 {
		fail("usage: generate_cubin folder")
	}
	ptxas := filepath.Join(os.Getenv("DLX_CUDA_TOOLS"), "cuda_nvcc", "bin", "ptxas")
	for _, c := range gather.Cubins() {
		out := filepath.Join(os.Args[1], c.Name()+".cubin")
		//nolint:gosec // the tool that the environment names
		if text, err := exec.Command(ptxas, fmt.Sprintf("-arch=sm_%d%d", c.Major, c.Minor), "-o", out, "gather.ptx").CombinedOutput(); err != nil {
			fail(fmt.Sprintf("%s: %v\n%s", out, err, text))
		}
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
