//go:build gl && linux && cgo

package gl

import (
	"debug/elf"
	"slices"
	"strings"
	"testing"
)

func TestTheProgramNeedsNoLibraryOfOpenGLToStart(t *testing.T) {
	program, err := elf.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	needed, err := program.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(needed, func(name string) bool {
		return strings.HasPrefix(name, "libGL") || strings.HasPrefix(name, "libEGL") || strings.HasPrefix(name, "libOpenGL")
	}) {
		t.Errorf("the program needs %v", needed)
	}
}
