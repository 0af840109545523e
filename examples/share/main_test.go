package main

import (
	"os"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// docs/moves.md shows this program; what it shows must be what compiles.
func TestTheDocumentationShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/moves.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "\npackage main\n")
	if !strings.Contains(string(page), "```go\npackage main\n"+code+"```") {
		t.Error("docs/moves.md does not show main.go as it is")
	}
}

func TestTheProgramRuns(t *testing.T) {
	t.Chdir("../..")
	main()
}
