package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
)

// quick measures so little that no figure means anything.
var quick = []string{"bench", "-i", "2", "--max-time", "1us"}

func TestBenchListsAndSelects(t *testing.T) {
	all := decode[benchList](t, dlx(t, "bench", "--list", "--json"), "bench").List
	if len(all) < 300 { // also those of devices that are missing
		t.Errorf("%d cases are listed", len(all))
	}
	some := decode[benchList](t, dlx(t, "bench", "-l", "-t", "core/slice", "-t", "dlpack/export*", "--json"), "bench").List
	if len(some) != 4 || some[0].Name != "dlpack/export" || some[0].Target != "<= 10 ns, 0 allocs" || some[3].Name != "core/slice" {
		t.Errorf("%+v", some)
	}
	if text := dlx(t, "bench", "-l").stdout; !strings.Contains(text, "copy/transpose/float32") || !strings.Contains(text, ">= 1.00 x np.copyto") {
		t.Errorf("text:\n%s", text)
	}
}

func TestBenchKeepsWhatItPrintsAndComparesWithIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	o := dlx(t, append(quick, "-t", "core/", "-t", "memory/alloc/4KiB", "--json", "--json-file", path)...)
	first := decode[benchResult](t, o, "bench")
	if len(first.Cases) != 2 || first.Cases[0].Status != benchmarks.OK || first.Cases[0].Change != nil || first.Program.Go == "" || first.Samples != 2 {
		t.Errorf("%+v", first)
	}
	kept, err := os.ReadFile(path)
	if err != nil || string(kept) != o.stdout {
		t.Errorf("%v; the file has\n%s\nand standard output\n%s", err, kept, o.stdout)
	}

	second := decode[benchResult](t, dlx(t, append(quick, "-t", "core/slice", "--json", "--compare", path)...), "bench")
	want := &benchmarks.Change{Median: first.Cases[0].Median}
	if got := second.Cases[0].Change; got == nil || got.Median != want.Median || got.Ratio <= 0 {
		t.Errorf("compared: %+v", got)
	}
	if o := dlx(t, append(quick, "-t", "core/slice", "--compare", path)...); !strings.Contains(o.stdout, "OLD/NEW") {
		t.Errorf("%+v", o)
	}
	// It prints what compare prints of the same two reports.
	again := filepath.Join(t.TempDir(), "again.json")
	both := dlx(t, append(quick, "-t", "core/slice", "-t", "memory/alloc/4KiB", "--compare", path, "--json-file", again)...)
	two := dlx(t, "bench", "compare", path, again)
	table := strings.Join(strings.Fields(two.stdout), " ")
	if printed := strings.Join(strings.Fields(both.stdout), " "); !strings.HasSuffix(printed, table) || both.code != two.code || !strings.Contains(table, "VERDICT") {
		t.Errorf("bench --compare prints\n%s\nand bench compare\n%s", both.stdout, two.stdout)
	}
	if o := dlx(t, append(quick, "-t", "stream/timeline", "--compare", path)...); o.code != exitFailed || strings.Contains(o.stdout, "OLD/NEW") || !strings.Contains(o.stderr, "none of these cases") {
		t.Errorf("%+v", o)
	}
}

func TestBenchRefusesReportsThatItCannotRead(t *testing.T) {
	for content, want := range map[string]string{
		"":                                       "not a report",
		`{"schema": "dlx/1", "command": "bench"`: "not a report",
		`{"schema": "dlx/2", "command": "bench", "result": {}}`:                "dlx/2",
		`{"schema": "dlx/1", "command": "version", "result": {}}`:              "version",
		`{"schema": "dlx/1", "command": "bench", "result": {"cases": "many"}}`: "not a report",
		`{"schema": "dlx/1", "command": "bench", "result": {"Cases": []}}`:     "is not known: write",
		`{"schema": "dlx/1", "schema": "dlx/1", "command": "bench"}`:           "is there twice",
	} {
		path := filepath.Join(t.TempDir(), "report.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		o := dlx(t, append(quick, "--compare", path)...)
		if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, want) {
			t.Errorf("%s: %+v", content, o)
		}
	}
}

// brokenHost is a CPU that cannot be opened.
type brokenHost struct{ driverless }

func (brokenHost) Name() string { return core.DeviceCPU.BackendName() }

func (brokenHost) Open(context.Context, core.DeviceID) (core.Device, error) {
	return nil, core.Errorf(core.ErrDeviceLost, "cpu", "Open", "it is on fire")
}

func TestACaseThatFailsIsAFailureWithAReport(t *testing.T) {
	o := dlxWith(t, t.Context(), []core.Backend{brokenHost{}}, append(quick, "-t", "memory/alloc/4KiB", "-t", "core/slice", "--json")...)
	if o.code != exitFailed || !strings.Contains(o.stderr, "memory/alloc/4KiB") || !strings.Contains(o.stderr, "on fire") {
		t.Errorf("%+v", o)
	}
	r := decode[benchResult](t, o, "bench")
	if len(r.Cases) != 2 || r.Cases[0].Status != benchmarks.OK || r.Cases[1].Status != benchmarks.Failed {
		t.Errorf("%+v", r.Cases)
	}
}

func TestACaseThatThisMachineCannotDoIsNoFailure(t *testing.T) {
	o := dlxWith(t, t.Context(), nil, append(quick, "-t", "memory/alloc/4KiB")...)
	if o.code != exitOK || !strings.Contains(o.stdout, "unsupported: ") {
		t.Errorf("%+v", o)
	}
}

func TestTheTableShowsBaselinesAndVerdicts(t *testing.T) {
	r := benchResult{Report: benchmarks.Report{Host: facts.Machine{CPU: "a CPU", CPUs: 2}, Baseline: &benchmarks.Baseline{File: "old.json", Tolerance: 0.05}, Cases: []benchmarks.Result{
		{
			Name: "x/slow", Status: benchmarks.OK, Way: "map", Allocs: 3, Series: benchmarks.Series{Times: []float64{13, 13.28}, Median: 13.14, CV: 0.25, GBPerSecond: 1.5},
			Baselines: []benchmarks.Series{{Baseline: "best", Median: 2500}, {Baseline: "other", Median: 4e6}, {Baseline: "gone", NotMeasured: "no Python"}},
			Against:   "best", Speed: 0.9,
			Verdict: &benchmarks.Verdict{Target: ">= 0.95 x best", Value: "0.90 x", Text: "missed by 0.05"},
			Change:  &benchmarks.Change{Median: 30, Old: 26, New: 13.1, Ratio: 1.98, Significant: true},
		},
		{Name: "x/none", Status: benchmarks.Skipped, Reason: "no room"},
		{Name: "x/bad", Status: benchmarks.Failed, Reason: "broken"},
		{Name: "y/1", Status: benchmarks.Unsupported, Reason: "no y"},
		{Name: "y/2", Status: benchmarks.Unsupported, Reason: "no y"},
		{Name: "y/3", Status: benchmarks.Unsupported, Reason: "no y"},
		{Name: "z/1", Status: benchmarks.Unsupported, Reason: "no y"},
		{Name: "y/4", Status: benchmarks.Unsupported, Reason: "no y"},
		{Name: "all", Status: benchmarks.Unsupported, Reason: "no y"},
	}}}
	var got [][]string
	var text strings.Builder
	r.writeText(&text)
	for line := range strings.Lines(text.String()) {
		got = append(got, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	want := [][]string{
		{"CASE", "MEDIAN", "CV", "GB/S", "ALLOCS", "BASELINE", "MEDIAN", "SPEED"},
		{"x/slow (map)", "13.1 ns", "25%", "1.50", "3", "best", "2.50 us", "0.90x"},
		{"", "", "", "", "", "other", "4.00 ms", ""},
		{"x/bad", "error", "-", "-", "-", "-", "-", "-"},
		{"  error: broken"},
		{""},
		{"NOT MEASURED", "REASON"},
		{"x/none", "skipped: no room"},
		{"y/ (4), z/ (1), all", "unsupported: no y"},
		{""},
		{"BASELINE NOT MEASURED", "REASON"},
		{"gone", "no Python"},
		{""},
		{"CASE", "OLD", "NEW", "OLD/NEW", "P", "VERDICT"},
		{"x/slow", "26.0 ns", "13.1 ns", "1.98x", "0", "faster"},
		{""},
		{"compared with old.json of 0001-01-01T00:00:00Z, tolerance 5%"},
		{""},
		{"TARGET OF THE PROJECT", "LIMIT", "VALUE", "VERDICT"},
		{"x/slow", ">= 0.95 x best", "0.90 x", "missed by 0.05"},
	}
	if len(got) < 3 || !reflect.DeepEqual(got[3:], want) {
		b, _ := json.MarshalIndent(got, "", " ")
		t.Errorf("the table is %s", b)
	}
}

func TestTheTableHasBarsOnATerminal(t *testing.T) {
	cases := []benchmarks.Result{
		{Name: "f/a", Family: "f", Status: benchmarks.OK, Series: benchmarks.Series{Median: 1, GBPerSecond: 8}, Baselines: []benchmarks.Series{{Baseline: "other", Median: 3}}},
		{Name: "f/b", Family: "f", Status: benchmarks.OK, Series: benchmarks.Series{Median: 1, GBPerSecond: 4}},
		{Name: "g", Family: "g", Status: benchmarks.OK, Series: benchmarks.Series{Median: 1}},
	}
	var text strings.Builder
	benchResult{Report: benchmarks.Report{Cases: cases}, show: tableOptions{bars: &barStyle{}}}.writeText(&text)
	lines := strings.Split(text.String(), "\n")
	for i, want := range map[int]string{4: "############", 6: "######", 7: ""} {
		cells := strings.Split(lines[i], "\t")
		if len(cells) != 9 || cells[4] != want {
			t.Errorf("%q", cells)
		}
	}
	if cells := strings.Split(lines[5], "\t"); len(cells) != 9 || cells[6] != "other" {
		t.Errorf("%q", cells)
	}
}

// A reason that many cases share is printed once, and no line is longer than a page is wide.
func TestTheTableFitsAPage(t *testing.T) {
	const why = "no Python was found: set DLX_PYTHON to an interpreter with NumPy, or use make bench"
	r := benchResult{Report: benchmarks.Report{Shortened: "the budget of 3s ended the run after 1 of 3 rounds", Baseline: &benchmarks.Baseline{File: "old.json",
		Differs: []string{"kernel: " + strings.Repeat("long ", 60)}, Common: &benchmarks.Common{Cases: 60, Ratio: 1, Baselines: 50, BaselineRatio: 1, ReferenceRatio: 1}}}}
	for i := range 60 {
		c := benchmarks.Result{
			Name: fmt.Sprintf("device_to_device_bidirectional_memcpy_write_ce/vulkan:%d/opencl:0/64MiB", i), Status: benchmarks.OK, Way: "staging", Allocs: 100000,
			Series:    benchmarks.Series{Times: []float64{1, 2}, Median: 999.99e6, CV: 99, GBPerSecond: 999.99, P05: 999.99e6, P99: 999.99e6},
			Baselines: []benchmarks.Series{{Baseline: "bare loop of clEnqueueWriteBuffer or clEnqueueReadBuffer", Median: 999.99e6}, {Baseline: "np.copyto", NotMeasured: why}, {Baseline: "torch copy_", NotMeasured: why}},
			Against:   "bare loop of clEnqueueWriteBuffer or clEnqueueReadBuffer", Speed: 100,
			Verdict:    &benchmarks.Verdict{Target: ">= 0.99 x bare loop of clEnqueueWriteBuffer or clEnqueueReadBuffer", Value: "100.00 x", Text: "not measured: np.copyto: " + why},
			Change:     &benchmarks.Change{Old: 999.99e6, New: 999.99e6, Ratio: 100, P: 0.00000123, ByMachine: true},
			Impossible: strings.Repeat("too fast ", 30), Notes: []string{strings.Repeat("note ", 40)},
		}
		r.Cases = append(r.Cases, c, benchmarks.Result{Name: c.Name + "/2", Status: benchmarks.Unsupported, Reason: strings.Repeat("it cannot ", 30)},
			benchmarks.Result{Name: c.Name + "/3", Status: benchmarks.Failed, Reason: strings.Repeat("it fails ", 30)})
	}
	for _, show := range []tableOptions{{}, {verbose: true}, {bars: &barStyle{}}} {
		var out bytes.Buffer
		if r.show = show; (&app{stdout: &out}).showText(r) != nil {
			t.Fatal("it is not shown")
		}
		text := strings.Join(strings.Fields(out.String()), " ")
		if n := strings.Count(text, "no Python was found"); n != 1 {
			t.Errorf("%+v: the reason is printed %d times", show, n)
		}
		if !strings.Contains(text, r.Shortened) {
			t.Errorf("%+v: that the run was shortened is not printed", show)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, " \n")); n > textWidth {
				t.Errorf("%+v: a line of %d: %s", show, n, line)
			}
		}
	}
}

func TestFewCasesHaveMoreRoundsByTurns(t *testing.T) {
	for _, c := range []struct {
		args            string
		cases           int // 0 is an overview
		rounds, samples int
		maxTime         time.Duration
		enough          bool
	}{
		{"", 0, 40, 120, 1200 * time.Millisecond, true},
		{"", 1, 200, 600, 6 * time.Second, true},
		{"", 20, 200, 600, 6 * time.Second, true},
		{"", 40, 100, 300, 3 * time.Second, true},
		{"", 1000, 40, 120, 1200 * time.Millisecond, true},
		{"--rounds 11", 1, 11, 33, 330 * time.Millisecond, true},
		{"--rounds 10", 1, 10, 30, 300 * time.Millisecond, false},
		{"-i 50", 1, 50, 50, 1500 * time.Millisecond, true},
		{"-i 10", 1, 10, 10, 300 * time.Millisecond, false},
		{"--max-time 1s", 1, 200, 600, time.Second, true},
	} {
		f := benchFlags{cases: make([]benchmarks.Case, c.cases)}
		if c.cases > 0 {
			f.names = []string{"some"}
		}
		flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
		flags.IntVar(&f.rounds, "rounds", 3, "")
		flags.IntVarP(&f.samples, "samples", "i", 30, "")
		flags.DurationVar(&f.maxTime, "max-time", 2*time.Second, "")
		if err := flags.Parse(strings.Fields(c.args)); err != nil {
			t.Fatal(err)
		}
		if err := f.byTurns(flags); f.rounds != c.rounds || f.samples != c.samples || f.maxTime != c.maxTime || (err == nil) != c.enough {
			t.Errorf("%q, %d cases: %d rounds, %d samples, %v, %v", c.args, c.cases, f.rounds, f.samples, f.maxTime, err)
		}
	}
}
