package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// README shows this program and what it prints.
func TestReadmeShowsThisProgram(t *testing.T) {
	source, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(source), "\npackage main\n")
	if !strings.Contains(string(readme), "```go\npackage main\n"+code+"```") {
		t.Error("README.md does not show main.go as it is")
	}
	if want := "```\n\nIt prints `" + strings.TrimSuffix(output(t), "\n") + "`."; !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not say what main.go prints: %q", want)
	}
}

// output runs the program and returns what it prints.
func output(t *testing.T) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stdout := os.Stdout
	os.Stdout = w
	main()
	os.Stdout = stdout
	w.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
