package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// A run leaves a report of all cases, and no files. Without Python it says that the other loaders were not measured.
func TestRunWritesItsReport(t *testing.T) {
	folder := t.TempDir()
	s := settings{smallFile: 1 << 20, smallTensor: 1 << 10, largeTensor: 2 << 20, largeCount: 2, headerTensors: 1000, rounds: 2, folder: folder, out: filepath.Join(t.TempDir(), "r.json"), devices: "cpu"}
	if err := run(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.out)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Files) != 2 || len(r.Cases) != 2*2*(rawWays+3) || len(r.Verdicts) != 4 || len(r.Refused) != 1 || r.Drop == "" {
		t.Errorf("%s", text)
	}
	if h := r.Header; h == nil || h.Tensors != 1000 || h.Bytes == 0 || len(h.Seconds) != 2 || len(h.Reference) != 0 || h.Met {
		t.Errorf("%+v", h)
	}
	for _, c := range r.Cases {
		// A file system that is memory has no way past the page cache.
		if c.Error == "" && (len(c.Seconds) != 2 || len(c.Cached) != 2 || c.Median <= 0 || c.OfRaw <= 0) {
			t.Errorf("%+v", c)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// A report that is there is replaced by a whole one: its other name keeps the old content.
func TestAReportReplacesAnother(t *testing.T) {
	folder := t.TempDir()
	path, kept := filepath.Join(folder, "r.json"), filepath.Join(folder, "kept.json")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, kept); err != nil {
		t.Fatal(err)
	}
	if err := (&report{Schema: "new"}).write(path); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(kept); err != nil || string(text) != "old" {
		t.Errorf("the old report is %q now, %v", text, err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) != 2 {
		t.Errorf("%v is there, %v", left, err)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]size{"1": 1, "4096": 4096, "3KiB": 3 << 10, "64MiB": 64 << 20, "2GiB": 2 << 30} {
		var s size
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%s is %d, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "1.5MiB", "9999999999GiB", "x", "1kb"} {
		if err := new(size).Set(text); err == nil {
			t.Errorf("%q is a size", text)
		}
	}
}

func TestVerdictOfTheHeader(t *testing.T) {
	h := headerResult{Seconds: []float64{1, 2, 3, 9}, Reference: []float64{2, 8, 9}}
	if h.summarize(); h.OfReference != 3 || !h.Met {
		t.Errorf("%+v", h)
	}
	h = headerResult{Seconds: []float64{1, 1}, Reference: []float64{2.9, 3}}
	if h.summarize(); h.Met {
		t.Errorf("%+v", h)
	}
}

func TestVerdicts(t *testing.T) {
	r := report{Files: []fileResult{{Name: "small", Bytes: 100}}, Cases: []*caseResult{
		{File: "small", State: cold, Loader: "raw, 1 thread", Seconds: []float64{9, 11, 100}},
		{File: "small", State: cold, Loader: "dlx auto", Device: "cpu", Seconds: []float64{10, 20, 12, 14}},
		{File: "small", State: cold, Loader: "dlx map", Device: "cpu", Seconds: []float64{1}},
		{File: "small", State: cold, Loader: "a", Seconds: []float64{20, 60}},
		{File: "small", State: cold, Loader: "b", Seconds: []float64{30, 50}},
		{File: "small", State: cold, Loader: "c", Error: errors.ErrUnsupported.Error()},
	}}
	r.summarize()
	if len(r.Verdicts) != 1 {
		t.Fatalf("%+v", r.Verdicts)
	}
	if v := r.Verdicts[0]; v.OfRaw != 11.0/13 || v.RawMet || v.Best != "a" || v.OfBest != 2.5 || !v.OthersMet {
		t.Errorf("%+v", v)
	}
}
