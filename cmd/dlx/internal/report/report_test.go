package report_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report"
	"github.com/dlx-go/dlx/cmd/dlx/internal/report/reporttest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/inventory"
)

func whole(r benchmarks.Report) any { return r }

// write returns the page of a report.
func write(t *testing.T, r benchmarks.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteBench(&b, report.Program{Version: reporttest.Hostile, Revision: "0123456789abcdef", Go: "go1.25", Platform: "linux/amd64", Tags: []string{"cuda"}}, r, whole); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// data returns the report that a page offers for download.
func data(t *testing.T, page string) (r benchmarks.Report) {
	t.Helper()
	_, packed, _ := strings.Cut(page, `<script type="application/gzip" id="data">`)
	packed, _, _ = strings.Cut(packed, "</script>")
	z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(packed)))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(&r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAPageHasItsReport(t *testing.T) {
	r := reporttest.Report()
	page := write(t, r)
	got, want := data(t, page), r
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if !bytes.Equal(a, b) {
		t.Error("the report of the page is another one")
	}
	for _, id := range []string{"bandwidth", "latency", "pairs", "devices", "comparison", "targets", "refused", "unmeasured", "cases", "machine"} {
		if !strings.Contains(page, `<h2 id="`+id+`"`) {
			t.Errorf("no section %s", id)
		}
	}
	for _, c := range r.Cases {
		if c.Status == benchmarks.OK && !strings.Contains(page, ">"+c.Name+"<") {
			t.Errorf("no row %s", c.Name)
		}
	}
}

// The targets of the project and what was not measured are nothing that a reader looks for first.
func TestWhatMattersComesFirst(t *testing.T) {
	page := write(t, reporttest.Report())
	last := -1
	for _, id := range []string{"bandwidth", "latency", "pairs", "devices", "comparison", "refused", "cases", "machine", "unmeasured", "targets"} {
		at := strings.Index(page, `<h2 id="`+id+`"`)
		if at <= last {
			t.Errorf("the section %s is not where it belongs", id)
		}
		last = at
	}
}

// The tiles have the largest figures of the matrix, whatever kind of case they are of.
func TestTheTilesAgreeWithTheMatrix(t *testing.T) {
	one := func(name string, kind benchmarks.Kind, from, to core.DeviceID, gb, median float64) benchmarks.Result {
		return benchmarks.Result{Name: name, Kind: kind, Status: benchmarks.OK, From: benchmarks.Ends{from}, To: benchmarks.Ends{to}, Series: benchmarks.Series{GBPerSecond: gb, Median: median}}
	}
	simulated := one("simulated", benchmarks.Bandwidth, core.CPU, reporttest.ROCm, 99, 1)
	simulated.Simulated = true
	page := write(t, benchmarks.Report{Cases: []benchmarks.Result{
		one("slower", benchmarks.Bandwidth, core.CPU, reporttest.CUDA0, 28.2, 100), one("faster", benchmarks.Overhead, core.CPU, reporttest.CUDA0, 45.3, 60),
		one("inside", benchmarks.Bandwidth, reporttest.CUDA0, reporttest.CUDA0, 1234, 60), simulated,
		one("wait", benchmarks.Latency, core.CPU, reporttest.CUDA0, 0, 1500), one("short wait", benchmarks.Latency, reporttest.CUDA0, core.CPU, 0, 1200),
	}})
	_, page, _ = strings.Cut(page, "<body")
	tiles, rest, _ := strings.Cut(page, `<h2 id="`)
	for _, want := range []string{"45.3 GB/s", "1234 GB/s", "1.20 µs"} {
		if !strings.Contains(tiles, want) {
			t.Errorf("no tile has %s: %s", want, tiles)
		}
	}
	for _, want := range []string{"45.3<", "1234<", "1.20 µs<"} {
		if !strings.Contains(rest, want) {
			t.Errorf("the matrix lacks %s", want)
		}
	}
	if strings.Contains(tiles, "28.2") || strings.Contains(tiles, "99.0") {
		t.Errorf("a tile has a figure that is not the best: %s", tiles)
	}
}

// A picture of many devices is a tangle of lines. The matrix shows the same.
func TestThePlanOfManyDevicesIsAMatrix(t *testing.T) {
	for n, picture := range map[int]bool{2: true, 4: true, 5: false, 7: false} {
		var p report.Plan
		for from := range int32(n) {
			for to := range int32(n) {
				id := func(i int32) core.DeviceID { return core.DeviceID{Type: core.DeviceVulkan, Index: i} }
				if from != to {
					p.Pairs = append(p.Pairs, report.PlanPair{From: id(from), To: id(to), Ways: []report.PlanWay{{Memory: "plain", Mechanism: "staged"}}})
				}
			}
		}
		var b bytes.Buffer
		if err := report.WritePlan(&b, report.Program{}, nil, p); err != nil {
			t.Fatal(err)
		}
		if page := b.String(); strings.Contains(page, "plan-picture") != picture || !strings.Contains(page, "plan-matrix") {
			t.Errorf("%d devices: a picture is %v, want %v", n, !picture, picture)
		}
	}
}

func TestAPageSaysWhatChangesHaveInCommon(t *testing.T) {
	r := reporttest.Report()
	r.Baseline.Common = &benchmarks.Common{Cases: 25, Ratio: 0.5, Baselines: 12, BaselineRatio: 1, ReferenceRatio: 1.01, Slower: true}
	if page := write(t, r); strings.Count(page, "median of 25 cases 0.50x, of their baselines 1.00x, of the reference work 1.01x") != 2 || !strings.Contains(page, "other code is not") {
		t.Error("the page does not say what is common")
	}
}

// The browser's tests see that it does not run; here is what they cannot see.
func TestHostileTextIsEscaped(t *testing.T) {
	page := write(t, reporttest.Report())
	if strings.Contains(page, "<img") || strings.Count(page, "<script") != 2 || strings.Contains(page, `<script>document`) {
		t.Error("text of the report is HTML of the page")
	}
	if link := regexp.MustCompile(`(?i)(src|href|xlink:href|action|srcset)="[^#"]`).FindString(page); link != "" {
		t.Errorf("the page has a link to something else: %s", link)
	}
	if inline := regexp.MustCompile(`(?i)<[a-z][^>]*\s(style|on[a-z]+)="`).FindString(strings.ReplaceAll(page, "&#34;", "")); inline != "" {
		t.Errorf("the policy would stop this: %s", inline)
	}
}

func TestSimulatedDevicesAreMarkedOnEveryLine(t *testing.T) {
	page := write(t, reporttest.Report())
	n := 0
	for _, row := range regexp.MustCompile(`<tr[^>]*>.*?</tr>`).FindAllString(page, -1) {
		if strings.Contains(row, "rocm:0/") || strings.Contains(row, "/rocm:0") || strings.Contains(row, "to rocm:0") {
			n++
			if !strings.Contains(row, "simulated") {
				t.Errorf("a line without a mark: %.300s", row)
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d lines", n)
	}
}

// The aim is 2 MB for 500 cases; with samples without end the page has none of them.
func TestAPageStaysSmall(t *testing.T) {
	for samples, kept := range map[int]bool{30: true, 3000: false} {
		page := write(t, reporttest.Large(500, samples))
		r := data(t, page)
		if len(page) > 2e6 || len(r.Cases) != 500 || (len(r.Cases[0].Times) == samples) != kept || r.Cases[0].Median == 0 {
			t.Errorf("%d samples: %d bytes, %d cases with %d samples", samples, len(page), len(r.Cases), len(r.Cases[0].Times))
		}
		if strings.Contains(page, "no single samples") == kept {
			t.Errorf("%d samples: the page does not say what it has", samples)
		}
	}
}

func TestAnEmptyReportIsAPage(t *testing.T) {
	page := write(t, benchmarks.Report{Interrupted: true})
	if !strings.Contains(page, "interrupted") || strings.Contains(page, `id="bandwidth"`) {
		t.Error("an empty report has sections")
	}
}

func TestAPageThatCannotBeMadeIsNotBegun(t *testing.T) {
	var b bytes.Buffer
	if err := report.WriteBench(&b, report.Program{}, benchmarks.Report{}, func(benchmarks.Report) any { return func() {} }); err == nil || b.Len() != 0 {
		t.Errorf("%v, %d bytes", err, b.Len())
	}
	full := errors.New("full")
	if err := report.WriteBench(failing{full}, report.Program{}, benchmarks.Report{}, whole); !errors.Is(err, full) {
		t.Errorf("a full disk: %v", err)
	}
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

func TestDevicesAndPlan(t *testing.T) {
	cuda := inventory.Device{Properties: core.Properties{ID: reporttest.CUDA0, Name: reporttest.Hostile, Features: []core.Feature{{Name: "export", Reason: "no " + reporttest.Hostile}, {Name: "import", Available: true}}}}
	backends := []inventory.Backend{{Name: "cuda", BuiltIn: true, Probe: core.Probe{Available: true}, Devices: []inventory.Device{cuda}}, {Name: "gl", Probe: core.Probe{Reason: "built without the tag gl"}}}
	plan := report.Plan{Bytes: 1 << 20, Copy: "never", Pairs: []report.PlanPair{
		{From: core.CPU, To: reporttest.CUDA0, Ways: []report.PlanWay{{Memory: "plain", Mechanism: "direct", Copied: 1 << 20, Steps: []string{"copy"}, Refused: []report.PlanRefusal{{"map", "import", reporttest.Hostile}}}}},
		{From: reporttest.CUDA0, To: core.CPU, Ways: []report.PlanWay{{Memory: "plain", Reason: "no memory " + reporttest.Hostile}}}, {From: core.CPU, To: core.CPU}}}
	for name, write := range map[string]func(io.Writer) error{
		"devices": func(w io.Writer) error {
			return report.WriteDevices(w, report.Program{}, backends, []inventory.Hint{{Name: "a", Problem: "cuda:0 " + reporttest.Hostile, Remedy: reporttest.Hostile}})
		},
		"plan": func(w io.Writer) error { return report.WritePlan(w, report.Program{}, backends, plan) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if strings.Contains(page, "<img") || strings.Count(page, "<script") != 1 || !strings.Contains(page, "&lt;img") || !strings.Contains(page, "cuda:0") {
			t.Errorf("%s: %.2000s", name, page)
		}
	}
}
