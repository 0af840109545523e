package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/export"
	"github.com/dlx-go/dlx/benchmarks/health"
)

// reportFile writes a report with cases of 1000 ns, which is noisy, multiplied by the factors.
func reportFile(t *testing.T, factors map[string]float64) string {
	t.Helper()
	r := benchResult{Program: versionResult{Version: "v1", Revision: filepath.Base(t.TempDir())}}
	for _, name := range slices.Sorted(maps.Keys(factors)) {
		factor := factors[name]
		c := benchmarks.Result{Name: name, Status: benchmarks.OK, Series: benchmarks.Series{Median: factor * 1000, Blocks: []int{10, 10, 10}}}
		for i := range 30 {
			c.Times = append(c.Times, factor*(985+float64(i+i/10*3%5)))
		}
		r.Cases = append(r.Cases, c)
	}
	var b bytes.Buffer
	if err := writeDocument(&b, document{Schema: schema, Command: "bench", Result: r}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "report.json")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompareTwoFiles(t *testing.T) {
	old := reportFile(t, map[string]float64{"a": 1, "b": 1})
	same := dlx(t, "bench", "compare", old, old)
	if same.code != exitOK || !strings.Contains(same.stdout, "the same") {
		t.Errorf("with itself: %+v", same)
	}
	worse := reportFile(t, map[string]float64{"a": 1.2, "b": 1, "c\n\"\xff": 1})
	o := dlx(t, "bench", "compare", old, worse)
	if o.code != exitFailed || !strings.Contains(o.stderr, "slower than in") || !strings.Contains(o.stderr, "a (+20.0% time)") || strings.Contains(o.stderr, "b (") || !strings.Contains(o.stdout, "1 case is not in the older report") {
		t.Errorf("%+v", o)
	}
	if o := dlx(t, "bench", "compare", old, worse, "--tolerance", "25%"); o.code != exitOK || !strings.Contains(o.stdout, "slower, within the tolerance") {
		t.Errorf("%+v", o)
	}
	if o := dlx(t, "bench", "compare", worse, old); o.code != exitOK || !strings.Contains(o.stdout, "faster") || !strings.Contains(o.stdout, "1 case is not in the newer report") {
		t.Errorf("%+v", o)
	}
	r := decode[compareResult](t, dlx(t, "bench", "compare", old, worse, "--json"), "compare")
	if len(r.Cases) != 2 || !r.Cases[0].Change.Slower || r.Cases[1].Change.Slower || r.Baseline.File != old || len(r.Baseline.New) != 1 || len(r.Baseline.Differs) == 0 {
		t.Errorf("%+v", r)
	}
	for args, want := range map[string]struct {
		code int
		text string
	}{
		old:                                 {exitUsage, "accepts 2 arg"},
		old + " nosuch":                     {exitFailed, "nosuch"},
		old + " " + digits:                  {exitFailed, "is not a report"},
		old + " " + old + " --tolerance x":  {exitUsage, "--tolerance"},
		old + " " + old + " --tolerance -1": {exitUsage, "--tolerance"},
		old + " " + old + " --tolerance 5":  {exitUsage, "write 5%"},
		old + " " + reportFile(t, nil):      {exitFailed, "no case in common"},
	} {
		if o := dlx(t, append([]string{"bench", "compare"}, strings.Fields(args)...)...); o.code != want.code || !strings.Contains(o.stderr, want.text) {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// A loss of all cases is a loss, and what they have in common is printed, with what other code has.
func TestALossOfAllCasesIsALoss(t *testing.T) {
	report := func(factor float64) string {
		all := make(map[string]float64)
		for i := range 15 {
			all[fmt.Sprintf("case/%02d", i)] = factor
		}
		return reportFile(t, all)
	}
	old, now := report(1), report(3)
	o := dlx(t, "bench", "compare", old, now)
	if o.code != exitFailed || !strings.Contains(o.stdout, "OLD/NEW: median of 15 cases 0.33x") || !strings.Contains(o.stderr, "and 5 more") || strings.Contains(o.stdout, "not significant") {
		t.Errorf("%+v", o)
	}
	r := benchmarks.Report{Baseline: &benchmarks.Baseline{File: "old.json", Tolerance: 0.05, Common: &benchmarks.Common{Cases: 15, Ratio: 0.9, Baselines: 7, BaselineRatio: 1, ReferenceRatio: 1.01, Slower: true}}}
	const want = "slower than in old.json by more than 5%: OLD/NEW: median of 15 cases 0.90x, of their baselines 1.00x, of the reference work 1.01x"
	if err := slowerError(r); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestWhatMayBeChanceIsNamed(t *testing.T) {
	var b bytes.Buffer
	compareResult{Baseline: &benchmarks.Baseline{Tolerance: 0.05}, Cases: []comparedCase{
		{Name: "noisy", Change: &benchmarks.Change{Ratio: 0.7, P: 0.1}},
		{Name: "disturbed", Change: &benchmarks.Change{Ratio: 0.7, P: 0.001, ByMachine: true}},
		{Name: "equal", Change: &benchmarks.Change{Ratio: 0.97, P: 0.1}},
		{Name: "found", Change: &benchmarks.Change{Ratio: 0.7, Significant: true, Slower: true}},
	}}.writeText(&b)
	if text := b.String(); !strings.Contains(text, "--against tell: noisy\n") || !strings.Contains(text, "the machine's: other code, too") {
		t.Error(text)
	}
}

func TestBenchWritesEveryFormat(t *testing.T) {
	folder := t.TempDir()
	args := append(quick, "-t", "core/slice")
	for _, f := range export.Formats {
		args = append(args, "--"+f.Name+"-file", filepath.Join(folder, f.Name))
	}
	if o := dlx(t, args...); o.code != exitOK || !strings.Contains(o.stdout, "core/slice") {
		t.Fatalf("%+v", o)
	}
	for _, f := range export.Formats {
		if content, err := os.ReadFile(filepath.Join(folder, f.Name)); err != nil || len(content) == 0 {
			t.Errorf("%s: %v", f.Name, err)
		}
	}
	o := dlx(t, append(quick, "-t", "core/slice", "--csv-file", "-")...)
	if rows, err := csv.NewReader(strings.NewReader(o.stdout)).ReadAll(); err != nil || len(rows) != 2 || o.code != exitOK {
		t.Errorf("%v: %+v", err, o)
	}
	for args, want := range map[string]int{
		"--csv-file - --samples-file -":                               exitFailed,
		"--csv-file " + folder + "/x --samples-file " + folder + "/x": exitFailed,
		"--csv-file - --json":                                         exitFailed,
		"--csv-file " + folder:                                        exitFailed,
		"--gobench-file " + folder + "/no/such.txt":                   exitFailed,
	} {
		if o := dlx(t, append(append(quick, "-t", "core/slice"), strings.Fields(args)...)...); o.code != want || o.stderr == "" {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

func TestHealthcheck(t *testing.T) {
	limits := filepath.Join(t.TempDir(), "limits.json")
	run := []string{"bench", "healthcheck", "-i", "3", "--max-time", "1ms"}
	if o := dlx(t, append(run, "-t", "core/slice", "--write-limits", limits, "--margin", "99%")...); o.code != exitOK || !strings.Contains(o.stdout, "0 passed, 0 failed, 1 not judged") {
		t.Fatalf("%+v", o)
	}
	loose := health.Limits{Schema: health.Schema, Limits: []health.Limit{{Case: "core/*", MaxNS: 1e12}}}
	tight := health.Limits{Schema: health.Schema, Limits: []health.Limit{{Case: "core/*", MaxNS: 1e-3}}}
	other := health.Limits{Schema: health.Schema, Limits: []health.Limit{{Case: "none", MaxNS: 1}}}
	write := func(l health.Limits) {
		content, err := json.Marshal(l)
		if err == nil {
			err = os.WriteFile(limits, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.ReadFile(limits)
	if err != nil || !strings.Contains(string(content), `"max_ns"`) {
		t.Errorf("%v: %s", err, content)
	}
	write(loose)
	if o := dlx(t, append(run, "--limits", limits)...); o.code != exitOK || !strings.Contains(o.stdout, "PASS") {
		t.Errorf("%+v", o)
	}
	write(tight)
	o := dlx(t, append(run, "--limits", limits, "--json")...)
	if r := decode[healthResult](t, o, "healthcheck"); o.code != exitFailed || len(r.Findings) != 1 || r.Findings[0].Verdict != health.Fail || len(r.Findings[0].Reasons) == 0 || !strings.Contains(o.stderr, "below the limits: core/slice") {
		t.Errorf("%+v", o)
	}
	write(other)
	if o := dlx(t, append(run, "--limits", limits, "-t", "core/slice")...); o.code != exitNotJudged || !strings.Contains(o.stderr, "could be applied") {
		t.Errorf("%+v", o)
	}
	if o := dlx(t, append(run, "-t", "core/slice")...); o.code != exitNotJudged || !strings.Contains(o.stderr, "no case has a limit") || !strings.Contains(o.stdout, "0 passed, 0 failed, 1 not judged") {
		t.Errorf("%+v", o)
	}
	for args, want := range map[string]int{
		"--limits nosuch": exitFailed, "--limits " + digits: exitFailed, "--margin x": exitUsage, "--margin 100%": exitUsage, "--limits " + limits: exitNotJudged, "-i 0": exitUsage,
	} {
		if o := dlx(t, append(run, strings.Fields(args)...)...); o.code != want || o.stderr == "" {
			t.Errorf("%s: %+v", args, o)
		}
	}
}

// Without a card there is nothing to measure and nothing to say of devices that are not there.
func TestHealthcheckWithoutACardJudgesNothing(t *testing.T) {
	for _, args := range [][]string{nil, {"--json"}} {
		o := dlx(t, append([]string{"bench", "healthcheck", "-i", "1", "--max-time", "1ms"}, args...)...)
		if o.code != exitNotJudged || !strings.Contains(o.stderr, "nothing was judged: no device") {
			t.Errorf("%+v", o)
		}
		if args == nil && o.stdout != "0 passed, 0 failed, 0 not judged\n" {
			t.Errorf("%q", o.stdout)
		}
		if args != nil {
			var d struct {
				Error  errorResult
				Result healthResult
			}
			if err := json.Unmarshal([]byte(o.stdout), &d); err != nil || d.Error.Kind != kindNotJudged || d.Result.Findings == nil || len(d.Result.Findings) > 0 {
				t.Errorf("%v: %s", err, o.stdout)
			}
		}
	}
}

func TestHealthcheckHasASummary(t *testing.T) {
	var b bytes.Buffer
	r := newHealthResult(time.Time{}, []health.Finding{
		{Case: "a", Verdict: health.Pass, Measured: 12, Limit: 11, Unit: "GB/s", Source: "bus"},
		{Case: "b", Verdict: health.Fail, Measured: 2, Limit: 1, Unit: "ns", Source: "call/*", Reasons: []string{"the machine was busy"}},
		{Case: "c/1", Verdict: health.Unknown, Reasons: []string{"no limit"}}, {Case: "c/2", Verdict: health.Unknown, Reasons: []string{"no limit"}},
		{Case: "c/3", Verdict: health.Unknown, Reasons: []string{"no limit"}}, {Case: "c/4", Verdict: health.Unknown, Reasons: []string{"no limit"}},
	})
	if r.writeText(&b); r.Passed != 1 || r.Failed != 1 || r.NotJudged != 4 || exitCode(r.failure(""), true) != exitFailed {
		t.Errorf("%+v", r)
	}
	const want = "CASE\tVERDICT\tMEASURED\tLIMIT\tFROM\na\tPASS\t12.00 GB/s\t11.00 GB/s\tbus\nb\tFAIL\t2.0 ns\t1.0 ns\tcall/*\n  the machine was busy\n\n" +
		"NOT JUDGED\tREASON\nc/ (4)\tno limit\n\n1 passed, 1 failed, 4 not judged\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestBenchFailsOnALossBeyondTheTolerance(t *testing.T) {
	r := benchmarks.Report{Baseline: &benchmarks.Baseline{File: "old.json", Tolerance: 0.05}}
	if slowerError(r) != nil {
		t.Error("nothing was lost")
	}
	for range 12 {
		r.Cases = append(r.Cases, benchmarks.Result{Name: "x\n", Change: &benchmarks.Change{Ratio: 0.5, Slower: true}})
	}
	if text := slowerError(r).Error(); !strings.Contains(text, `"x\n" (+100.0% time)`) || !strings.Contains(text, "and 2 more") || !strings.Contains(text, "more than 5%") {
		t.Error(text)
	}
}

func FuzzReadReport(f *testing.F) {
	f.Add([]byte(`{"schema": "dlx/1", "command": "bench", "result": {"cases": [{"name": "x", "status": "ok", "times_ns": [1, 2], "blocks": [1, 1], "median_ns": 1.5}]}}`))
	f.Add([]byte(`{"schema": "dlx/2"}`))
	f.Add([]byte(`{`))
	folder := f.TempDir()
	a := &app{stdout: new(bytes.Buffer)}
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(folder, "report.json")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		old, err := readReport(path, "bench")
		if err != nil {
			return
		}
		now := old
		now.Cases = append([]benchmarks.Result(nil), old.Cases...)
		compareReports(&now, old, path, 0.05, now.Compare)
		_ = slowerError(now.Report)
		newCompareResult(now.Report).writeText(new(bytes.Buffer))
		exports := make(exportFlags, len(export.Formats))
		for i := range exports {
			exports[i] = "-"
		}
		if err := a.writeExports(context.Background(), exports, now); err != nil {
			t.Error(err)
		}
		for _, c := range now.Cases {
			if c.Change != nil && math.IsNaN(c.Change.P) {
				t.Errorf("%+v", c.Change)
			}
		}
	})
}
