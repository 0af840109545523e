//go:build ignore

// Command generate_hip compiles the text of gpucopy.HIP for the architectures of gpucopy.CodeObjects, into the folder
// that it is given, with Debian's clang-15 and lld-15.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
)

func main() {
	if len(os.Args) != 2 {
		fail("usage: generate_hip folder")
	}
	for _, c := range gpucopy.CodeObjects() {
		out := filepath.Join(os.Args[1], c.Name()+".co")
		//nolint:gosec // the compiler for a name from the table
		compile := exec.Command("clang-15", "-x", "hip", "-c", "-", "-o", out, "--offload-arch="+c.Arch, "--cuda-device-only", "--no-gpu-bundle-output",
			"-mcode-object-version=4", "-nogpuinc", "-nogpulib", "-nostdinc", "-std=c++17", "-O3", "-Wno-cuda-compat", "-fno-ident", "-Xlinker", "--strip-all")
		compile.Stdin = strings.NewReader(gpucopy.HIP())
		if text, err := compile.CombinedOutput(); err != nil {
			fail(fmt.Sprintf("%s: %v\n%s", out, err, text))
		}
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
