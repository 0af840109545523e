//go:build cuda && linux && cgo

package cuda

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

// The script exchanges tensors with array libraries of Python.
func TestArrayLibrariesExchangeTensors(t *testing.T) {
	coretest.SkipQuick(t, "quick-python exchanges tensors with NumPy, and the tests of core/dlpack do")
	coretest.BuildsProgram(t)
	_ = open(t).Close() // skips the test if there is no driver
	python := os.Getenv("DLX_PYTHON")
	if python == "" {
		t.Skip("DLX_PYTHON names no Python; make test sets it")
	}
	const source, script = "./internal/cshared", "array_libraries_check.py"
	if _, err := os.Stat(source); err != nil {
		t.Skip("the sources are not here; the kit for machines with a GPU runs " + script)
	}
	library := filepath.Join(t.TempDir(), "libdlx.so")
	if out, err := exec.Command("go", "build", "-trimpath", "-tags=cuda", "-buildmode=c-shared", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.Command(python, script, library).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "24 checks with the driver") {
		t.Fatalf("the library in the script was not used:\n%s", out)
	}
	t.Logf("%s", out)
}
