package main

import (
	"os"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// What runs the other program of CUDA and Vulkan, a suite or the kit for a card, also runs this one.
func TestThisProgramRunsWhereTheOtherOneDoes(t *testing.T) {
	for _, file := range []string{"Makefile", "scripts/deep-suites.txt", "scripts/gpu-kit.sh", "scripts/gpu-kit-run.sh"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		other, this := strings.Count(string(text), "cudavulkan"), strings.Count(string(text), "renderer")
		if other == 0 || this != other {
			t.Errorf("%s names examples/cudavulkan %d times, and examples/renderer %d times", file, other, this)
		}
	}
}

// docs/cuda-vulkan.md shows this program; what it shows must be what compiles.
func TestThePageShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/cuda-vulkan.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "\nfunc share(")
	code, _, _ = strings.Cut(code, "\n// openCUDA ")
	if !strings.Contains(string(page), "```go\nfunc share("+code+"```") {
		t.Error("docs/cuda-vulkan.md does not show share of main.go as it is")
	}
}
