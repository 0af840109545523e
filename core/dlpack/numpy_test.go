//go:build cgo && !windows

package dlpack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// TestNumPy lets the real NumPy take our tensors and takes its arrays: see numpy_check.py.
func TestNumPy(t *testing.T) {
	coretest.BuildsProgram(t)
	python := os.Getenv("DLX_PYTHON")
	if python == "" {
		t.Skip("DLX_PYTHON names no Python that has NumPy; make test sets it")
	}
	library := filepath.Join(t.TempDir(), "libdlxtest.so")
	if out, err := exec.Command("go", "build", "-trimpath", "-buildmode=c-shared", "-o", library, "./internal/cshared").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.Command(python, "numpy_check.py", library).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "checks with NumPy") {
		t.Fatalf("the script did not come to its end:\n%s", out)
	}
	t.Logf("%s", out)
}
