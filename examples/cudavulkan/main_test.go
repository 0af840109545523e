package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

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
	if !strings.Contains(string(page), "```go\nfunc share("+code+"```") {
		t.Error("docs/cuda-vulkan.md does not show share of main.go as it is")
	}
}

// Where a backend is missing from the build, the program says which.
func TestTheProgramRuns(t *testing.T) {
	registry := all.New()
	built := true
	for _, name := range []string{"cuda", "vulkan"} {
		b, err := registry.Backend(name)
		if err != nil {
			built = false
			continue
		}
		coretest.NeedDriver(t, b.Probe(t.Context()).Reason, "a driver for "+name)
	}
	switch err := share(t.Context(), registry); {
	case built && err != nil:
		t.Error(err)
	case !built && !errors.Is(err, core.ErrNotSupported):
		t.Errorf("without CUDA or Vulkan: %v", err)
	}
}
