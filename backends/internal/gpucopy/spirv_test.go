//go:build vulkan

package gpucopy_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
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
	coretest.SkipQuick(t, "make test-go compares the committed code with its source, and compiles it for all cards")
	version, _, _ := strings.Cut(tool(t, "glslang-tools", "glslangValidator", "--version"), "\n")
	folder := t.TempDir()
	tool(t, "Go", "go", "run", "generate.go", folder)
	committed, err := filepath.Glob("*.spv")
	if err != nil {
		t.Fatal(err)
	}
	if len(committed) != len(gpucopy.Shaders()) {
		t.Errorf("%d files, %d shaders", len(committed), len(gpucopy.Shaders()))
	}
	for _, s := range gpucopy.Shaders() {
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
	for _, s := range gpucopy.Shaders() {
		tool(t, "spirv-tools", "spirv-val", "--target-env", "vulkan1.1", s.String()+".spv")
		if code := s.SPIRV(); len(code) < 5 || code[0] != 0x07230203 {
			t.Errorf("%v is no SPIR-V", s)
		}
	}
	if (gpucopy.Shader{Word: 3}).SPIRV() != nil {
		t.Error("there is a shader for words of 3 bytes")
	}
}

// A compiler may assume that what is restrict has one name. Two variables for one binding may both be restrict only if
// both only read.
func TestWhatIsWrittenUnderTwoNamesIsNotRestrict(t *testing.T) {
	const ( // of the specification of SPIR-V
		typePointer, variable, decorate, memberDecorate = 32, 59, 71, 72

		restrict, nonWritable, binding = 19, 24, 33
	)
	twice := 0
	for _, s := range gpucopy.Shaders() {
		code := s.SPIRV()
		bindings := make(map[uint32]uint32)       // of variables
		marks := make(map[uint32]map[uint32]bool) // decorations of variables and of structs
		pointee, typeOf := make(map[uint32]uint32), make(map[uint32]uint32)
		mark := func(id, decoration uint32) {
			if marks[id] == nil {
				marks[id] = make(map[uint32]bool)
			}
			marks[id][decoration] = true
		}
		for at := 5; at < len(code); at += int(code[at] >> 16) {
			switch in := code[at:]; in[0] & 0xffff {
			case typePointer:
				pointee[in[1]] = in[3]
			case variable:
				typeOf[in[2]] = in[1]
			case memberDecorate:
				mark(in[1], in[3])
			case decorate:
				mark(in[1], in[2])
				if in[2] == binding {
					bindings[in[1]] = in[3]
				}
			}
		}
		names := make(map[uint32][]uint32)
		for id, b := range bindings {
			names[b] = append(names[b], id)
		}
		for b, ids := range names {
			if len(ids) == 1 {
				continue
			}
			twice++
			has := func(id, decoration uint32) bool {
				return marks[id][decoration] || marks[pointee[typeOf[id]]][decoration]
			}
			written := slices.ContainsFunc(ids, func(id uint32) bool { return !has(id, nonWritable) })
			if written && slices.ContainsFunc(ids, func(id uint32) bool { return has(id, restrict) }) {
				t.Errorf("%v: binding %d is written, and has %d names of which one is restrict", s, b, len(ids))
			}
		}
	}
	if twice == 0 {
		t.Error("no shader has two names for a binding")
	}
}
