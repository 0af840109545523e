package main

import (
	"os"
	"strings"
	"testing"

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
	code, _, _ = strings.Cut(code, "\n// openCUDA ")
	if !strings.Contains(string(page), "```go\nfunc share("+code+"```") {
		t.Error("docs/cuda-vulkan.md does not show share of main.go as it is")
	}
}
