//go:build vulkan && linux && cgo

package gather_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/backends/internal/gather/gathertest"
	"github.com/dlx-go/dlx/core/coretest"
)

// The texts for Metal are what SPIRV-Cross makes of the SPIR-V.
func TestMSLIsMadeOfTheSPIRV(t *testing.T) {
	coretest.SkipQuick(t, "make test-go compares the committed code with its source, and compiles it for all cards")
	if _, err := exec.LookPath("spirv-cross"); err != nil {
		coretest.NeedDriver(t, err.Error(), "spirv-cross")
	}
	folder := t.TempDir()
	if out, err := exec.Command("go", "run", "generate_msl.go", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, s := range gather.Shaders() {
		made, err := os.ReadFile(filepath.Join(folder, s.String()+".metal"))
		if s.Packed {
			if err == nil || s.MSL() != "" {
				t.Errorf("%v: Metal needs no packed words", s)
			}
			continue
		}
		if err != nil {
			t.Error(err)
		} else if string(made) != s.MSL() {
			t.Errorf("%v is not what its SPIR-V is translated to: run go generate", s)
		}
	}
}

func compileMSL(t *testing.T, text func(gather.Shader) string) *gathertest.Host {
	t.Helper()
	const clang = "clang-15"
	if _, err := exec.LookPath(clang); err != nil {
		coretest.NeedDriver(t, err.Error(), clang)
	}
	h, err := gathertest.CompileMSL(t.TempDir(), clang, text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// The texts for Metal, compiled for the host.
func TestMSLMovesTheSameElements(t *testing.T) {
	checkUnpacked(t, compileMSL(t, gather.Shader.MSL), gather.MetalLimits())
}

// A barrier that is missing shows: the test above would find it.
func TestMSLWithoutBarriersMovesOthers(t *testing.T) {
	checkNeedsBarriers(t, compileMSL(t, func(s gather.Shader) string {
		return strings.ReplaceAll(s.MSL(), "threadgroup_barrier(mem_flags::mem_threadgroup);", "")
	}))
}
