//go:build ignore

// Command generate prints the shader in GLSL, or with the argument "cuda" the kernel in CUDA C.
package main

import (
	"fmt"
	"os"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "cuda" {
		fmt.Print(gpuconvert.CUDA())
		return
	}
	fmt.Print(gpuconvert.GLSL())
}
