//go:build ignore

// Command generate_cubin assembles the text of gpucopy.PTX for the cards of gpucopy.Cubins, into the folder that it is given, with
// the ptxas that lies in the folder DLX_CUDA_TOOLS.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
)

func main() {
	if len(os.Args) != 2 {
		fail("usage: generate_cubin folder")
	}
	text := filepath.Join(os.Args[1], "gather.ptx")
	if err := os.WriteFile(text, []byte(gpucopy.PTX()), 0o644); err != nil {
		fail(err.Error())
	}
	defer os.Remove(text)
	ptxas := filepath.Join(os.Getenv("DLX_CUDA_TOOLS"), "cuda_nvcc", "bin", "ptxas")
	for _, c := range gpucopy.Cubins() {
		out := filepath.Join(os.Args[1], c.Name()+".cubin")
		//nolint:gosec // the tool that the environment names
		if message, err := exec.Command(ptxas, fmt.Sprintf("-arch=sm_%d%d", c.Major, c.Minor), "-o", out, text).CombinedOutput(); err != nil {
			fail(fmt.Sprintf("%s: %v\n%s", out, err, message))
		}
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
