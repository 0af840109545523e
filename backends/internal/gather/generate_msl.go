//go:build ignore

// Command generate_msl translates the SPIR-V of the shaders to Metal's language, into the folder that it is given, with SPIRV-Cross.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/dlx-go/dlx/backends/internal/gather"
)

// constants is the parameter that SPIRV-Cross has made of the push constants, which have no binding that it could take.
var constants = regexp.MustCompile(`(constant _\d+& v_\d+ \[\[buffer\()0\)\]\]`)

func main() {
	if len(os.Args) != 2 {
		fail("usage: generate_msl folder")
	}
	for _, s := range gather.Shaders() {
		if s.Packed {
			continue // Metal has bytes in memory
		}
		//nolint:gosec // files of this folder
		text, err := exec.Command("spirv-cross", s.String()+".spv", "--msl", "--msl-version", "20000", "--msl-decoration-binding",
			"--rename-entry-point", "main", s.String(), "comp").Output()
		if err != nil {
			fail(fmt.Sprintf("%v: %v", s, err))
		}
		if n := len(constants.FindAll(text, -1)); n != 1 {
			fail(fmt.Sprintf("%v: %d parameters for the constants, want 1", s, n))
		}
		text = constants.ReplaceAll(text, []byte("${1}2)]]"))
		if err := os.WriteFile(filepath.Join(os.Args[1], s.String()+".metal"), text, 0o644); err != nil {
			fail(err.Error())
		}
	}
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
