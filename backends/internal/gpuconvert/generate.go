//go:build ignore

// Command generate prints the shader in GLSL.
package main

import (
	"fmt"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
)

func main() {
	fmt.Print(gpuconvert.GLSL())
}
