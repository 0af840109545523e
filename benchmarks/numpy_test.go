package benchmarks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// A baseline that is missing is never an error of the case.
func TestWithoutNumPyTheReasonIsKept(t *testing.T) {
	notPython, err := exec.LookPath("true")
	if err != nil {
		t.Skip("no program that answers nothing")
	}
	for _, c := range []struct{ name, python, want string }{
		{"no Python", "", "DLX_PYTHON"},
		{"no such file", filepath.Join(t.TempDir(), "python"), "no such file"},
		{"not Python", notPython, "no answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := Run(t.Context(), selected(t, hostCases(), "copy/transpose/uint8", "copy/nhwc-nchw/uint8"),
				Options{Registry: hostRegistry(t), Python: c.python, Samples: 1, MaxTime: 1, Small: true})
			if err != nil || r.NumPy != "" {
				t.Fatalf("NumPy %q, %v", r.NumPy, err)
			}
			for _, r := range r.Cases {
				if r.Status != OK || r.Verdict.Met || !strings.Contains(r.Verdict.Text, c.want) || !strings.Contains(r.Baselines[0].NotMeasured, c.want) {
					t.Errorf("%+v, verdict %+v", r, r.Verdict)
				}
			}
		})
	}
}

func TestNumPyAnswers(t *testing.T) {
	python := FindPython()
	if python == "" {
		t.Skip("no Python with NumPy: make test brings one")
	}
	e := &env{ctx: t.Context(), numpy: &numpy{ctx: t.Context(), python: python}}
	defer e.numpy.close()
	defer e.close()
	good := request{Prepare: "copyto", DType: core.TypeInt16, Size: 12, Shape: []int64{3, 2}, Strides: []int64{-4, 2}, Offset: 16}
	outside := good
	outside.Offset = 2
	if b := e.numpyBaseline("outside", outside); !strings.Contains(b.reason, "ValueError") {
		t.Errorf("a view that leaves its memory: %+v", b)
	}
	b := e.numpyBaseline("good", good)
	if b.reason != "" {
		t.Fatal(b.reason)
	}
	if d, err := b.sample(100); err != nil || d <= 0 || d > time.Minute {
		t.Errorf("%v, %v", d, err)
	}
	e.numpy.close()
	if _, err := b.sample(1); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("after the end of the process: %v", err)
	}
}

func TestFindPython(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("DLX_PYTHON", "a python")
	if got := FindPython(); got != "a python" {
		t.Errorf("DLX_PYTHON is ignored: %q", got)
	}
	if err := os.Unsetenv("DLX_PYTHON"); err != nil {
		t.Fatal(err)
	}
	if got := FindPython(); got != "" {
		t.Errorf("in an empty folder there is %q", got)
	}
	if err := os.MkdirAll(".venv/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(".venv/bin/python", nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := FindPython(); got != ".venv/bin/python" {
		t.Errorf("the virtual environment's is not found: %q", got)
	}
}
