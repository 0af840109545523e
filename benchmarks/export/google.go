package export

import (
	"cmp"
	"encoding/json"
	"io"
	"math"
	"time"

	"github.com/dlx-go/dlx/benchmarks"
)

// googleReport is the document that a program with Google Benchmark writes with --benchmark_format=json.
//
// Source: docs/user_guide.md and src/json_reporter.cc of github.com/google/benchmark, json_schema_version 1.
type googleReport struct {
	Context    googleContext `json:"context"`
	Benchmarks []googleRun   `json:"benchmarks"`
}

type googleContext struct {
	Date       string        `json:"date"`
	HostName   string        `json:"host_name"`
	Executable string        `json:"executable"`
	CPUs       int           `json:"num_cpus"`
	MHz        int           `json:"mhz_per_cpu"`
	Caches     []googleCache `json:"caches"`
	Load       []float64     `json:"load_avg"`
	Version    string        `json:"library_version"`
	Build      string        `json:"library_build_type"`
	Schema     int           `json:"json_schema_version"`
	CPU        string        `json:"cpu,omitempty"`
	CPUTime    string        `json:"cpu_time_note"`
}

type googleCache struct {
	Type    string `json:"type"`
	Level   int    `json:"level"`
	Size    int64  `json:"size"`
	Sharing int    `json:"num_sharing"`
}

type googleRun struct {
	Name          string   `json:"name"`
	Family        int      `json:"family_index"`
	Instance      int      `json:"per_family_instance_index"`
	RunName       string   `json:"run_name"`
	Type          string   `json:"run_type"`
	Repetitions   int      `json:"repetitions"`
	Repetition    *int     `json:"repetition_index,omitempty"`
	Threads       int      `json:"threads"`
	Aggregate     string   `json:"aggregate_name,omitempty"`
	AggregateUnit string   `json:"aggregate_unit,omitempty"`
	ErrorOccurred bool     `json:"error_occurred,omitempty"`
	ErrorMessage  string   `json:"error_message,omitempty"`
	Skipped       bool     `json:"skipped,omitempty"`
	SkipMessage   string   `json:"skip_message,omitempty"`
	Iterations    int      `json:"iterations"`
	Real          float64  `json:"real_time"`
	CPU           float64  `json:"cpu_time"`
	Unit          string   `json:"time_unit"`
	Bytes         *float64 `json:"bytes_per_second,omitempty"`
	Label         string   `json:"label,omitempty"`
}

// GoogleBenchmark writes the JSON document of Google Benchmark. Each sample is a repetition; the mean, the median, the standard
// deviation and the coefficient of variation are aggregates. The time of the CPU is not measured: cpu_time is the same as
// real_time, as the context says.
func GoogleBenchmark(w io.Writer, p Program, r benchmarks.Report) error {
	if err := checkWriter("GoogleBenchmark", w); err != nil {
		return err
	}
	doc := googleReport{
		Context: googleContext{
			Date: r.Date.Format(time.RFC3339), Executable: "dlx bench", CPUs: r.Host.CPUs, Caches: []googleCache{}, Load: []float64{},
			Version: line("dlx " + p.Version), Build: "release", Schema: 1, CPU: line(r.Host.CPU),
			CPUTime: "dlx does not measure the time of the CPU: cpu_time is real_time",
		},
		Benchmarks: []googleRun{},
	}
	if mhz := r.Host.Before.MHz; len(mhz) > 0 && finite(mhz[0]) {
		doc.Context.MHz = int(math.Round(mhz[0]))
	}
	for _, c := range r.Host.Caches {
		doc.Context.Caches = append(doc.Context.Caches, googleCache{Type: line(c.Kind), Level: c.Level, Size: c.Bytes})
	}
	for _, l := range r.Host.Load {
		if finite(l) {
			doc.Context.Load = append(doc.Context.Load, l)
		}
	}
	families, instances := make(map[string]int), make(map[string]int)
	for i := range r.Cases {
		c := &r.Cases[i]
		family := cmp.Or(c.Family, c.Name)
		if _, ok := families[family]; !ok {
			families[family] = len(families)
		}
		run := googleRun{
			RunName: line(c.Name), Family: families[family], Instance: instances[family], Threads: 1, Unit: "ns",
			Iterations: c.Iterations, Repetitions: len(c.Times), Label: line(c.Way),
		}
		instances[family]++
		if c.Simulated {
			run.RunName += "/" + simulated
			run.Label = simulated
		}
		doc.Benchmarks = append(doc.Benchmarks, googleRuns(run, c)...)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(doc)
}

// googleRuns returns the runs of a case, which are as run but for what it says itself.
func googleRuns(run googleRun, c *benchmarks.Result) (runs []googleRun) {
	run.Name, run.Type = run.RunName, "iteration"
	if !measured(c) {
		run.Repetitions, run.Repetition = 1, new(int)
		if run.ErrorOccurred = c.Status == benchmarks.Failed; run.ErrorOccurred {
			run.ErrorMessage = line(c.Reason)
		} else {
			run.Skipped, run.SkipMessage = true, line(cmp.Or(c.Reason, "there is no time"))
		}
		return []googleRun{run}
	}
	sum, n := 0.0, 0
	for i, t := range c.Times {
		if !(t > 0) || !finite(t) {
			continue
		}
		one := run
		one.Repetition = &i
		runs = append(runs, one.at(t, c.Bytes))
		sum += t
		n++
	}
	if n == 0 {
		n, sum = 1, c.Median
	}
	run.Type, run.Iterations = "aggregate", n
	mean := sum / float64(n)
	for _, a := range []struct {
		name, unit string
		value      float64
	}{{"mean", "time", mean}, {"median", "time", c.Median}, {"stddev", "time", c.CV * mean}, {"cv", "percentage", c.CV}} {
		one := run
		one.Name, one.Aggregate, one.AggregateUnit = run.RunName+"_"+a.name, a.name, a.unit
		bytes := c.Bytes
		if a.name == "stddev" || a.name == "cv" {
			bytes = 0
		}
		if finite(a.value) {
			runs = append(runs, one.at(a.value, bytes))
		}
	}
	return runs
}

// at returns the run with a time.
func (run googleRun) at(ns float64, bytes int64) googleRun {
	run.Real, run.CPU = ns, ns
	if rate := float64(bytes) / ns * 1e9; bytes > 0 && finite(rate) {
		run.Bytes = &rate
	}
	return run
}
