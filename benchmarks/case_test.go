package benchmarks

import (
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/benchmarks/internal/foreign"
	"github.com/dlx-go/dlx/core"
)

func TestSelectTakesNamesAndBeginnings(t *testing.T) {
	cases := []Case{{Name: "a/1"}, {Name: "a/2"}, {Name: "ab/1"}, {Name: "b"}}
	for _, c := range []struct {
		names []string
		want  []string
	}{
		{nil, []string{"a/1", "a/2", "ab/1", "b"}},
		{[]string{"a/2"}, []string{"a/2"}},
		{[]string{"a/"}, []string{"a/1", "a/2"}},
		{[]string{"a"}, []string{"a/1", "a/2", "ab/1"}},
		{[]string{"b", "a/1"}, []string{"a/1", "b"}},
		{[]string{"1"}, nil},
		{[]string{""}, []string{"a/1", "a/2", "ab/1", "b"}},
	} {
		var got []string
		for _, s := range Select(cases, c.names...) {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Select(%q) = %q, want %q", c.names, got, c.want)
		}
	}
	if len(cases) != 4 || cases[3].Name != "b" {
		t.Errorf("Select changed its argument: %+v", cases)
	}
}

func TestEveryCaseHasANameOfItsOwnAndADescription(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range Cases() {
		if c.Name == "" || c.Description == "" || seen[c.Name] {
			t.Errorf("%+v", c)
		}
		seen[c.Name] = true
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

// hostCases are those that need nothing but the host.
func hostCases() []Case {
	return slices.DeleteFunc(Cases(), func(c Case) bool {
		group, _, _ := strings.Cut(c.Name, "/")
		return slices.Contains([]string{"device", "exchange", "many", "cuda", "rocm"}, group)
	})
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
	report, err := Run(t.Context(), Select(Cases(), "memory/", "copy/"), Options{Registry: new(core.Registry), Small: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range report.Cases {
		if r.Status != Unsupported || r.Reason == "" || len(r.Times) != 0 {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}
