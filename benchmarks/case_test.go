package benchmarks

import (
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/benchmarks/internal/foreign"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestEveryCaseHasANameOfItsOwnAndADescription(t *testing.T) {
	registry := hostRegistry(t)
	if err := registry.Register(coretest.NewBackend(coretest.Options{Submit: stream.Submit})); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Selection{{}, {Registry: registry}, {Registry: registry, Sizes: []int64{4096, 1 << 20}, Transfers: []string{"cpu->vulkan:0"}}} {
		seen := map[string]bool{}
		for _, c := range List(t.Context(), s) {
			if c.Name == "" || c.Description == "" || c.Family == "" || c.Kind == "" || !strings.HasPrefix(c.Name, c.Family) || c.setup == nil {
				t.Errorf("%+v", c)
			}
			if seen[c.Name] {
				t.Errorf("%s is there twice", c.Name)
			}
			seen[c.Name] = true
		}
	}
}

func hostRegistry(t *testing.T) *core.Registry {
	t.Helper()
	r := new(core.Registry)
	if err := r.Register(cpu.New()); err != nil {
		t.Fatal(err)
	}
	return r
}

// Without the virtual environment of make test NumPy is a baseline that is
// missing, which every case can bear.
func TestEveryCaseRuns(t *testing.T) {
	python, cases := FindPython(), hostCases()
	report, err := Run(t.Context(), cases, Options{Registry: hostRegistry(t), Python: python, Samples: 2, MaxTime: 1, Small: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Cases) != len(cases) {
		t.Fatalf("%d results of %d cases", len(report.Cases), len(cases))
	}
	if (report.NumPy != "") != (python != "") {
		t.Errorf("NumPy %q with Python %q", report.NumPy, python)
	}
	for i, r := range report.Cases {
		target := cases[i].Target
		if foreign.Available() != nil && r.Status == Unsupported {
			continue
		}
		if r.Status != OK || len(r.Times) != 2 || r.Iterations < 1 {
			t.Errorf("%s: %+v", r.Name, r)
		}
		for _, b := range r.Baselines {
			// make test does not install PyTorch.
			absent := strings.HasPrefix(b.Baseline, "torch") && strings.Contains(b.NotMeasured, "No module named 'torch'")
			if python != "" && !absent && (b.NotMeasured != "" || len(b.Times) != 2) {
				t.Errorf("%s: baseline %+v", r.Name, b)
			}
		}
		if (r.Verdict != nil) != (target != Target{}) {
			t.Errorf("%s: verdict %+v for target %q", r.Name, r.Verdict, target)
		}
	}
}

func TestWithoutTheHostItsCasesAreUnsupported(t *testing.T) {
	report, err := Run(t.Context(), selected(t, hostCases(), "memory/", "copy/"), Options{Registry: new(core.Registry), Small: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Cases {
		if r.Status != Unsupported || r.Reason == "" || len(r.Times) != 0 {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}

// selected are the cases that patterns match.
func selected(t *testing.T, cases []Case, patterns ...string) []Case {
	t.Helper()
	list, err := Select(cases, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestTheNamesOfSizesAreExact(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 1: "1B", 1000: "1000B", 1 << 10: "1KiB", 1025: "1025B", 1500: "1500B", 1536: "1536B",
		1 << 20: "1MiB", 3 << 19: "1536KiB", 1 << 30: "1GiB", 1<<30 + 1<<20: "1025MiB", 1 << 40: "1024GiB",
	} {
		if got := binarySize(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
