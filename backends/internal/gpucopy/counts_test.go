//go:build linux && cgo

package gpucopy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// The tables of what the machine code does are those of the committed machine code.
func TestCountsAreMadeOfTheMachineCode(t *testing.T) {
	coretest.SkipQuick(t, "make test-go compares the committed code with its source, and compiles it for all cards")
	if _, err := exec.LookPath("llvm-objdump-15"); err != nil {
		coretest.NeedDriver(t, err.Error(), "llvm-15")
	}
	folder := t.TempDir()
	if out, err := exec.Command("go", "run", "generate_counts.go", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := os.ReadFile(filepath.Join(folder, "counts.md"))
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("counts.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(made) != string(kept) {
		t.Error("counts.md is not what the machine code gives: run go generate")
	}
}
