package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

func TestTheLoopsOfCAreMeasured(t *testing.T) {
	b := small(t)
	if _, err := findCompiler(); err != nil {
		t.Skip(err)
	}
	rows := runStream(t.Context(), b) // the program checks each element that its loops write
	wantRows(t, rows)
	if want := len(loops) * len(threadCounts()); len(rows) != want {
		t.Errorf("%d rows, want %d", len(rows), want)
	}
	for _, row := range rows {
		if row.Status == Failed || row.Status == OK && (row.Case == "copy") != (row.Ratio > 0) {
			t.Errorf("%+v", row)
		}
	}
}

func TestTheProgramInCRefusesWhatItIsNotPreparedFor(t *testing.T) {
	t.Chdir("../../..")
	if _, err := findCompiler(); err != nil {
		t.Skip(err)
	}
	program, remove, err := compileStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	c, err := start(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, line := range []string{"run copy loop 1 1", "prepare 4096", "run add memcpy 1 1", "run copy loop 0 1", "run copy loop 65 1", "run copy loop 1 0", "run x loop 1 1", "x"} {
		if a, err := c.line("%s", line); (err == nil) != (line == "prepare 4096") {
			t.Errorf("%q gives %v, %v", line, a, err)
		}
	}
}

func TestPythonsPeersAreMeasured(t *testing.T) {
	b := small(t)
	for name, c := range map[string]struct {
		python string
		run    func(context.Context, *bench) []Row // PyTorch is measured as NumPy is, and takes long to load
	}{"numpy": {cmp.Or(os.Getenv("DLX_PYTHON"), ".venv/bin/python"), runNumPy}, "wgpu": {".venv-peers/bin/python", runWGPU}} {
		t.Run(name, func(t *testing.T) {
			if name == "wgpu" && testing.Short() {
				t.Skip("wgpu's software device takes seconds to start")
			}
			b.python = c.python
			if err := b.needPython(); err != nil {
				t.Skip(err)
			}
			rows := c.run(t.Context(), b)
			wantRows(t, rows)
			for _, row := range rows {
				if row.Status == Failed {
					t.Errorf("%s, %s: %s", row.Peer, row.Case, row.Reason)
				}
			}
		})
	}
}

func TestTwoProcessesShareMemory(t *testing.T) {
	b := small(t)
	p, err := newPair(t.Context(), b)
	if errors.Is(err, core.ErrNotSupported) || statusOf(err) == Unsupported {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	for name, f := range map[string]func(*pair, context.Context, int64) (float64, error){
		"wordLatency": (*pair).wordLatency, "socketLatency": (*pair).socketLatency, "inPlace": (*pair).inPlace,
		"copiedOut": (*pair).copiedOut, "openCold": (*pair).openCold, "openWarm": (*pair).openWarm,
	} {
		for range 2 { // a second one finds what the first one left
			if v, err := f(p, t.Context(), 64<<10); err != nil || v <= 0 {
				t.Errorf("%s gives %v, %v", name, v, err)
			}
		}
	}
}

// A script stands for nvbandwidth, and the simulated driver for the card.
func TestNVBandwidthAndDLXTakeTurns(t *testing.T) {
	text, err := filepath.Abs("testdata/nvbandwidth.json")
	if err != nil {
		t.Fatal(err)
	}
	b := small(t)
	if err := b.needCard(t.Context()); err != nil {
		t.Skip(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "nvbandwidth"), []byte("#!/bin/sh\ncat '"+text+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	rows := runNVBandwidth(t.Context(), b)
	wantRows(t, rows)
	if len(rows) != 3*len(nvCases) || rows[0].Value != 55.5 || rows[0].DLXValue <= 0 || !rows[0].Turns || len(rows[0].Samples) != 2 {
		t.Errorf("%+v", rows)
	}
}

func TestByTurnsLeavesOutWhatFails(t *testing.T) {
	var order []string
	boom := errors.New("boom")
	ok := func(name string) *series {
		return &series{name: name, sample: func(n int) (time.Duration, error) { order = append(order, name); return time.Duration(n), nil }}
	}
	calls := 0
	fails := &series{name: "c", sample: func(n int) (time.Duration, error) {
		if calls++; calls > 2 {
			return 0, boom
		}
		return time.Duration(n), nil
	}}
	a, b, never := ok("a"), ok("b"), &series{err: boom}
	if err := byTurns(t.Context(), 3, 1, []*series{a, b, fails, never}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, ""); got != "ab"+"ab"+"ba"+"ab" {
		t.Errorf("the samples are taken in the order %s", got)
	}
	if len(a.times) != 3 || len(b.times) != 3 || !errors.Is(fails.err, boom) || len(never.times) != 0 {
		t.Errorf("%v %v %v", a.times, b.times, fails.err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := byTurns(ended, 1, 1, []*series{a}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestARatioSaysHowMuchFasterDLXIs(t *testing.T) {
	for _, c := range []struct {
		unit       Unit
		peer, dlx  []float64
		turns      bool
		ratio      float64
		alternated bool
	}{
		{GBPerSecond, []float64{10, 20, 30}, []float64{20, 10, 60}, true, 2, true}, // the median of 2, 0.5, 2
		{Nanoseconds, []float64{100}, []float64{50}, true, 2, true},
		{GBPerSecond, []float64{10, 10}, []float64{5}, true, 0.5, false},
		{GBPerSecond, []float64{10}, nil, true, 0, false},
	} {
		var r Row
		r.fill(c.unit, c.peer, c.dlx, c.turns)
		if r.Ratio != c.ratio || r.Turns != c.alternated || r.Status != OK {
			t.Errorf("%v beside %v: %+v", c.dlx, c.peer, r)
		}
	}
}

func TestAReportThatLacksSomethingIsRefused(t *testing.T) {
	good := Row{Peer: "p", Case: "c", Status: OK, Value: 1, Unit: Nanoseconds, Version: "1", Command: "p"}
	for want, change := range map[string]func(*Report){
		"schema":         func(r *Report) { r.Schema++ },
		"no rows":        func(r *Report) { r.Sections[0].Rows = nil },
		"no case":        func(r *Report) { r.Sections[0].Rows[0].Case = "" },
		"the reason":     func(r *Report) { r.Sections[0].Rows[0].Status = Skipped },
		"no value, unit": func(r *Report) { r.Sections[0].Rows[0].Value = 0 },
		"or command":     func(r *Report) { r.Sections[0].Rows[0].Command = "" },
	} {
		r := Report{Schema: schema, Sections: []Section{{Peer: "p", Rows: []Row{good}}}}
		if err := r.check(); err != nil {
			t.Fatal(err)
		}
		change(&r)
		if err := r.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error with %q", err, want)
		}
	}
}

// A report is written where a link leads to, and the link stays.
func TestAReportKeepsALink(t *testing.T) {
	folder := t.TempDir()
	path, link := folder+"/r.json", folder+"/latest.json"
	if err := os.Symlink("r.json", link); err != nil {
		t.Fatal(err)
	}
	if err := (&Report{Schema: schema}).write(link); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	if to, err := os.Readlink(link); to != "r.json" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
}

func TestResultsOfAnotherMachineAreNotMixed(t *testing.T) {
	path := t.TempDir() + "/r.json"
	one := Report{Schema: schema, Machine: Machine{Processor: "one"}, Sections: []Section{}}
	if err := one.write(path); err != nil {
		t.Fatal(err)
	}
	if r, err := readOrStart(path, Machine{Processor: "two"}); err != nil || r.Machine.Processor != "two" {
		t.Error(r, err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readOrStart(path, one.Machine); err == nil {
		t.Error("a file that is not understood is replaced")
	}
}

func TestNumbersAndSizesOfTheTable(t *testing.T) {
	var got []string
	for _, x := range []float64{0.000123, 0.0153, 1, 12.345, 999.9, 16493.73} {
		got = append(got, number(x))
	}
	if want := []string{"0.000123", "0.0153", "1", "12.3", "1000", "16494"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for bytes, want := range map[int64]string{0: "", 8: "8 B", 64 << 10: "64 KiB", 1536: "1536 B", 2 << 30: "2 GiB"} {
		if size(bytes) != want {
			t.Errorf("%d bytes are %q, want %q", bytes, size(bytes), want)
		}
	}
	if cell("a|b\nc <d>") != `a\|b c &lt;d>` {
		t.Errorf("a cell is %q", cell("a|b\nc <d>"))
	}
}
