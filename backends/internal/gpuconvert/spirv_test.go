//go:build vulkan

package gpuconvert_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/core/coretest"
)

// compiler is the version whose output is committed.
const compiler = "Glslang Version: 11:12.0.0"

// The SPIR-V is what the source compiles to.
func TestSPIRVIsMadeOfItsSource(t *testing.T) {
	path, err := exec.LookPath("glslangValidator")
	if err != nil {
		coretest.NeedDriver(t, "glslangValidator is missing", "glslang-tools")
	}
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("glslangValidator %v: %v: %s", args, err, out)
		}
		return string(out)
	}
	folder := t.TempDir()
	in, out := filepath.Join(folder, "convert.comp"), filepath.Join(folder, "convert.spv")
	if err := os.WriteFile(in, []byte(gpuconvert.GLSL()), 0o600); err != nil {
		t.Fatal(err)
	}
	run("-S", "comp", "--target-env", "vulkan1.1", "-g0", "-o", out, in)
	made, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var kept []byte
	for _, word := range gpuconvert.SPIRV() {
		kept = binary.LittleEndian.AppendUint32(kept, word)
	}
	version, _, _ := strings.Cut(run("--version"), "\n")
	if version == compiler && !bytes.Equal(made, kept) {
		t.Error("convert.spv is not what its source compiles to: run go generate")
	}
	if len(kept) == 0 {
		t.Error("there is no SPIR-V")
	}
}
