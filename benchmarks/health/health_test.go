package health

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/inventory"
)

func TestMain(m *testing.M) { coretest.Main(m) }

var cuda = core.DeviceID{Type: core.DeviceCUDA}

// report has one copy to a card whose bus carries 16 GB/s.
func report(gb float64) benchmarks.Report {
	card := facts.Device{Device: inventory.Device{Properties: core.Properties{ID: cuda}}, Bus: &facts.Peak{GBPerSecond: 16, Source: "PCIe"}}
	return benchmarks.Report{
		Host: facts.Machine{CPUs: 2, Devices: []facts.Device{card}},
		Cases: []benchmarks.Result{{
			Name: "host_to_device_memcpy_ce/cuda:0/64MiB", Kind: benchmarks.Bandwidth, Status: benchmarks.OK, From: benchmarks.Ends{core.CPU}, To: benchmarks.Ends{cuda},
			Memory: "pinned", Size: 64 << 20, Bytes: 64 << 20, Series: benchmarks.Series{Median: 64 << 20 / gb, GBPerSecond: gb},
		}},
	}
}

func TestLargeCopiesAreHeldToThePeakOfTheirBus(t *testing.T) {
	if f := Check(report(12), nil); len(f) != 1 || f[0].Verdict != Pass || f[0].Limit != 11.2 || f[0].Measured != 12 || f[0].Unit != "GB/s" || f[0].Reasons != nil {
		t.Errorf("%+v", f)
	}
	if f := Check(report(11), nil); f[0].Verdict != Fail || f[0].Reasons[0] != "nothing that is known of the machine explains it" {
		t.Errorf("%+v", f)
	}
	for name, change := range map[string]func(*benchmarks.Report, *benchmarks.Result){
		"no peak":    func(r *benchmarks.Report, _ *benchmarks.Result) { r.Host.Devices[0].Bus = nil },
		"no device":  func(r *benchmarks.Report, _ *benchmarks.Result) { r.Host.Devices = nil },
		"software":   func(r *benchmarks.Report, _ *benchmarks.Result) { r.Host.Devices[0].Software = true },
		"small":      func(_ *benchmarks.Report, c *benchmarks.Result) { c.Size = 1 << 20 },
		"pageable":   func(_ *benchmarks.Report, c *benchmarks.Result) { c.Memory = "pageable" },
		"latency":    func(_ *benchmarks.Report, c *benchmarks.Result) { c.Kind = benchmarks.Latency },
		"local":      func(_ *benchmarks.Report, c *benchmarks.Result) { c.From = c.To },
		"simulated":  func(_ *benchmarks.Report, c *benchmarks.Result) { c.Simulated = true },
		"impossible": func(_ *benchmarks.Report, c *benchmarks.Result) { c.Impossible = "too fast" },
		"missing": func(_ *benchmarks.Report, c *benchmarks.Result) {
			c.Status, c.Reason = benchmarks.Unsupported, "no card"
		},
		"no ends": func(_ *benchmarks.Report, c *benchmarks.Result) { c.From, c.To = nil, nil },
	} {
		r := report(1)
		change(&r, &r.Cases[0])
		if f := Check(r, nil); len(f) != 1 || f[0].Verdict != Unknown || len(f[0].Reasons) != 1 {
			t.Errorf("%s: %+v", name, f)
		}
	}
	r := report(12)
	r.Cases[0].Status, r.Cases[0].Reason = benchmarks.Failed, "broken"
	if f := Check(r, nil); f[0].Verdict != Fail || f[0].Reasons[0] != "error: broken" {
		t.Errorf("%+v", f)
	}
}

func TestReasonsComeFromWhatIsKnown(t *testing.T) {
	r := report(1)
	d, c := &r.Host.Devices[0], &r.Cases[0]
	d.Link = "16.0 GT/s PCIe x4 (at most 16.0 GT/s PCIe x16)"
	d.After.Throttled = []string{"thermal", "power cap"}
	c.Refused = []exchange.Refusal{{What: "peer copy", Reason: "no peer access"}}
	c.CV = 0.5
	r.Host.Governor, r.Host.Load = "powersave", []float64{4}
	r.Host.After.Steal = 7
	c.Memory = "pageable"
	limits := &Limits{Limits: []Limit{{Case: "host_*", MinGB: 10}}}
	f := Check(r, limits)
	want := []string{
		"cuda:0 holds its clocks down: thermal, power cap",
		"the link of cuda:0 is narrower or slower than it can be: 16.0 GT/s PCIe x4 of 16.0 GT/s PCIe x16",
		"the host's memory is pageable: the driver copies it once more",
		`the better way "peer copy" was not taken: no peer access`,
		"the samples vary by 50%: other programs have disturbed the measurement",
		`the governor of the CPUs is "powersave"`,
		"the machine was busy before the run: load 4.0 on 2 CPUs",
		"the hypervisor took 7 s from the CPUs during the run",
	}
	if len(f) != 1 || f[0].Verdict != Fail || !slices.Equal(f[0].Reasons, want) {
		t.Errorf("%+v", f)
	}
}

func TestLimitsOfAFile(t *testing.T) {
	r := report(12)
	r.Cases = append(r.Cases, benchmarks.Result{Name: "call/cgo", Kind: benchmarks.Overhead, Status: benchmarks.OK, Series: benchmarks.Series{Median: 50}})
	limits := &Limits{Limits: []Limit{{Case: "host_to_device*", MinGB: 13, MaxNS: 1e9}, {Case: "call/cgo", MaxNS: 50}, {Case: "call/*", MinGB: 1}, {Case: "other", MaxNS: 1}}}
	type short struct {
		name    string
		verdict Verdict
		unit    string
	}
	var got []short
	for _, f := range Check(r, limits) {
		got = append(got, short{f.Case, f.Verdict, f.Unit})
	}
	name := r.Cases[0].Name
	want := []short{{name, Fail, "GB/s"}, {name, Pass, "ns"}, {"call/cgo", Pass, "ns"}, {"call/cgo", Unknown, ""}, {"other", Unknown, ""}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if f := Check(r, &Limits{Limits: limits.Limits[:1]}); len(f) != 3 || f[2].Reasons[0] != "no limit is for it" {
		t.Errorf("%+v", f)
	}
	if f := Check(benchmarks.Report{}, nil); len(f) != 0 {
		t.Errorf("an empty report: %+v", f)
	}
}

// A run keeps the limits that were made of it, and one that is worse than the margin does not.
func TestMadeLimitsAreKeptByTheirRun(t *testing.T) {
	r := report(12.3456)
	hostile := "a*b[c]?\\d\n\"/\xff"
	r.Cases = append(r.Cases,
		benchmarks.Result{Name: hostile, Kind: benchmarks.Latency, Status: benchmarks.OK, Series: benchmarks.Series{Median: 777.77}},
		benchmarks.Result{Name: "gone", Status: benchmarks.Skipped},
		benchmarks.Result{Name: "simulated", Status: benchmarks.OK, Simulated: true, Series: benchmarks.Series{Median: 1}},
		benchmarks.Result{Name: "odd", Status: benchmarks.OK, Series: benchmarks.Series{Median: math.Inf(1)}},
	)
	limits := Make(r, 0.2)
	if len(limits.Limits) != 2 || limits.Limits[0].MinGB != 9.876 || limits.Limits[1].MaxNS != 933.3 {
		t.Fatalf("%+v", limits)
	}
	text, err := json.Marshal(limits)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Read(strings.NewReader(string(text)), "made"); err != nil {
		t.Fatal(err)
	}
	for factor, want := range map[float64]Verdict{1: Pass, 0.85: Pass, 0.7: Fail} {
		now := r
		now.Cases = slices.Clone(r.Cases[:2])
		for i := range now.Cases {
			now.Cases[i].GBPerSecond *= factor
			now.Cases[i].Median /= factor
		}
		for _, f := range Check(now, &limits) {
			if f.Verdict != want {
				t.Errorf("at %v of the speed: %+v", factor, f)
			}
		}
	}
}

func TestLimitsThatAreWrong(t *testing.T) {
	for text, want := range map[string]string{
		``:                          "unexpected end",
		`{}`:                        `schema ""`,
		`[]`:                        "not an object but this: array",
		`{"schema":"dlx-limits/2"}`: `schema "dlx-limits/2"`,
		`{"schema":"dlx-limits/1"}`: "no limits",
		`{"schema":"dlx-limits/1","limits":[{"case":"x","min_gb":1}]}`:                         `unknown field "min_gb"`,
		`{"schema":"dlx-limits/1","limits":[{"min_gb_per_s":1}]}`:                              `"case" is missing`,
		`{"schema":"dlx-limits/1","limits":[{"case":"x"}]}`:                                    "must be there",
		`{"schema":"dlx-limits/1","limits":[{"case":"x","max_ns":-1}]}`:                        "above 0",
		`{"schema":"dlx-limits/1","limits":[{"case":"x","max_ns":"fast"}]}`:                    "wrong kind: string",
		`{"schema":"dlx-limits/1","limits":[{"case":"x","max_ns":1e999}]}`:                     "wrong kind: number",
		`{"schema":"dlx-limits/1","limits":[{"case":"[x","max_ns":1}]}`:                        "not a pattern",
		`{"schema":"dlx-limits/1","limits":[{"case":"x","max_ns":1},{"case":"x","max_ns":2}]}`: `two for "x"`,
		`{"schema":"dlx-limits/1","limits":[{"case":"x","Max_ns":1}]}`:                         `write "max_ns"`,
		`{"schema":"dlx-limits/1","limits":[{"case":"x","max_ns":1,"max_ns":2}]}`:              `key "max_ns" is there twice`,
		`{"Schema":"dlx-limits/1","limits":[{"case":"x","max_ns":1}]}`:                         `write "schema"`,
		`{"schema":"dlx-limits/1","limits":[{"case":"x","max_ns":1}]} trailing`:                "invalid character",
	} {
		_, err := Read(strings.NewReader(text), "FILE")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "FILE") || !(errors.Is(err, core.ErrInvalid) || errors.Is(err, core.ErrVersion)) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add(`{"schema":"dlx-limits/1","limits":[{"case":"host_*","min_gb_per_s":1,"max_ns":2}]}`)
	f.Add(`{"schema":"dlx-limits/1","limits":[{"case":"[x"}]}`)
	f.Add(`{`)
	f.Fuzz(func(t *testing.T, text string) {
		l, err := Read(strings.NewReader(text), "FILE")
		if err != nil {
			return
		}
		for _, finding := range Check(report(5), l) {
			if finding.Verdict == "" {
				t.Errorf("%+v", finding)
			}
		}
		again, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(strings.NewReader(string(again)), "FILE"); err != nil {
			t.Errorf("%s: %v", again, err)
		}
	})
}
