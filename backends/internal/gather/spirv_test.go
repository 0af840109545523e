//go:build vulkan

package gather_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/core/coretest"
)

// compiler is the version whose output is committed.
const compiler = "Glslang Version: 11:12.0.0"

// tool runs a program of the system, which is missing only where that was said.
func tool(t *testing.T, pack, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		coretest.NeedDriver(t, name+" is missing", pack)
	}
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// The SPIR-V is what the source compiles to, and nothing else lies there.
func TestSPIRVIsMadeOfItsSource(t *testing.T) {
	version, _, _ := strings.Cut(tool(t, "glslang-tools", "glslangValidator", "--version"), "\n")
	folder := t.TempDir()
	tool(t, "Go", "go", "run", "generate.go", folder)
	committed, err := filepath.Glob("*.spv")
	if err != nil {
		t.Fatal(err)
	}
	if len(committed) != len(gather.Shaders()) {
		t.Errorf("%d files, %d shaders", len(committed), len(gather.Shaders()))
	}
	for _, s := range gather.Shaders() {
		name := s.String() + ".spv"
		made, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if version == compiler && !bytes.Equal(made, kept) {
			t.Errorf("%s is not what its source compiles to: run go generate", name)
		}
	}
	if version != compiler {
		t.Logf("the bytes were not compared: this is %s, they were made by %s", version, compiler)
	}
}

func TestSPIRVIsValid(t *testing.T) {
	for _, s := range gather.Shaders() {
		tool(t, "spirv-tools", "spirv-val", "--target-env", "vulkan1.1", s.String()+".spv")
		if code := s.SPIRV(); len(code) < 5 || code[0] != 0x07230203 {
			t.Errorf("%v is no SPIR-V", s)
		}
	}
	if (gather.Shader{Word: 3}).SPIRV() != nil {
		t.Error("there is a shader for words of 3 bytes")
	}
}
