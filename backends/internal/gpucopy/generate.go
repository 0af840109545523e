//go:build ignore

// Command generate compiles the shaders to SPIR-V, into the folder that it is given.
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
		fail("usage: generate folder")
	}
	for _, s := range gpucopy.Shaders() {
		out := filepath.Join(os.Args[1], s.String()+".spv")
		compile := exec.Command("glslangValidator", "--stdin", "-S", "comp", "--target-env", "vulkan1.1", "-g0", "-o", out)
		compile.Stdin = strings.NewReader(s.GLSL())
		if text, err := compile.CombinedOutput(); err != nil {
			fail(fmt.Sprintf("%v: %v\n%s", s, err, text))
		}
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
