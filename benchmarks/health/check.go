package health

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/core"
)

// Verdict says whether a result keeps its limit.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "PASS"
	Fail    Verdict = "FAIL"
	Unknown Verdict = "unknown" // there is no limit, or no result
)

// Finding is what was found about a case.
type Finding struct {
	Case     string   `json:"case"`
	Verdict  Verdict  `json:"verdict"`
	Measured float64  `json:"measured,omitempty"`
	Limit    float64  `json:"limit,omitempty"`
	Unit     string   `json:"unit,omitempty"`    // of both: "GB/s", at least the limit, or "ns", at most the limit
	Source   string   `json:"source,omitempty"`  // where the limit is from
	Reasons  []string `json:"reasons,omitempty"` // why the result is bad or there is none: likely ones first
}

// What results are held to where there is no file: a copy of at least largeCopy bytes from or to memory that the device can
// reach by itself carries at least partOfPeak of what its bus can. Headers of packets take 5 to 20 % of that peak.
const (
	largeCopy  = 16 << 20
	partOfPeak = 0.7
)

// Check compares the cases of a report with limits. Without limits (nil), those count that follow from the peak of the bus of a
// copy. If several limits are for a case, each has a finding. A limit without a case has one, too: unknown.
func Check(r benchmarks.Report, limits *Limits) []Finding {
	findings := []Finding{}
	if limits == nil {
		for i := range r.Cases {
			findings = append(findings, byPeak(&r, &r.Cases[i]))
		}
		return findings
	}
	used := make([]bool, len(limits.Limits))
	for i := range r.Cases {
		c := &r.Cases[i]
		found := false
		for j, l := range limits.Limits {
			if l.matches(c.Name) {
				used[j], found = true, true
				findings = append(findings, byLimit(&r, c, l)...)
			}
		}
		if !found {
			findings = append(findings, unknown(c, "no limit is for it"))
		}
	}
	for j, l := range limits.Limits {
		if !used[j] {
			findings = append(findings, Finding{Case: l.Case, Verdict: Unknown, Reasons: []string{"no case that was measured has this name"}})
		}
	}
	return findings
}

// unknown is the finding for a case that cannot be judged.
func unknown(c *benchmarks.Result, reason string) Finding {
	f := Finding{Case: c.Name, Verdict: Unknown, Reasons: []string{reason}}
	switch {
	case c.Simulated:
		f.Reasons = []string{"the device is SIMULATED and has no speed of its own"}
	case c.Status != benchmarks.OK:
		f.Reasons = []string{fmt.Sprintf("%s: %s", c.Status, c.Reason)}
	case c.Impossible != "":
		f.Reasons = []string{"impossible: " + c.Impossible}
	}
	if c.Status == benchmarks.Failed { // that the case works is expected, too
		f.Verdict = Fail
	}
	return f
}

// byPeak judges a copy over a bus.
func byPeak(r *benchmarks.Report, c *benchmarks.Result) Finding {
	const rule = "only large copies of pinned memory over a bus with a known peak are judged without a file of limits"
	peak := overBus(r, c)
	if !usable(c) || peak == nil || c.Kind != benchmarks.Bandwidth || c.Size < largeCopy || !direct(c) {
		return unknown(c, rule)
	}
	f := Finding{
		Case: c.Name, Verdict: Pass, Measured: c.GBPerSecond, Limit: significantDigits(partOfPeak * peak.GBPerSecond), Unit: "GB/s",
		Source: fmt.Sprintf("%.0f%% of the peak of %.1f GB/s (%s)", 100*partOfPeak, peak.GBPerSecond, peak.Source),
	}
	if f.Measured < f.Limit {
		f.Verdict, f.Reasons = Fail, reasons(r, c)
	}
	return f
}

// direct reports whether the device can reach the host's memory by itself.
func direct(c *benchmarks.Result) bool { return c.Memory == "pinned" || c.Memory == "mapped" }

// overBus returns the peak of a copy between the host and one device, nil for others and if it is not known.
func overBus(r *benchmarks.Report, c *benchmarks.Result) *facts.Peak {
	if len(c.From) != 1 || len(c.To) != 1 || (c.From[0] == core.CPU) == (c.To[0] == core.CPU) {
		return nil
	}
	for _, id := range []core.DeviceID{c.From[0], c.To[0]} {
		if d := r.Host.Find(id); id != core.CPU && d != nil && !d.Software {
			return d.Bus
		}
	}
	return nil
}

// byLimit judges a case by a limit of a file.
func byLimit(r *benchmarks.Report, c *benchmarks.Result, l Limit) (findings []Finding) {
	if !usable(c) {
		f := unknown(c, "it has no result")
		f.Source = l.Case
		return []Finding{f}
	}
	add := func(measured, limit float64, unit string, good bool) {
		f := Finding{Case: c.Name, Verdict: Pass, Measured: measured, Limit: limit, Unit: unit, Source: l.Case}
		if !good {
			f.Verdict, f.Reasons = Fail, reasons(r, c)
		}
		findings = append(findings, f)
	}
	if l.MinGB > 0 {
		if c.GBPerSecond > 0 {
			add(c.GBPerSecond, l.MinGB, "GB/s", c.GBPerSecond >= l.MinGB)
		} else {
			f := unknown(c, "it has no bandwidth")
			f.Source = l.Case
			findings = append(findings, f)
		}
	}
	if l.MaxNS > 0 {
		add(c.Median, l.MaxNS, "ns", c.Median <= l.MaxNS)
	}
	return findings
}

// noisyCV is a coefficient of variation above which others have disturbed a measurement.
const noisyCV = 0.1

// reasons says why a result is likely to be bad, by what is known of the machine.
func reasons(r *benchmarks.Report, c *benchmarks.Result) (list []string) {
	add := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	for _, id := range slices.Concat(c.From, c.To) {
		d := r.Host.Find(id)
		if d == nil || id == core.CPU {
			continue
		}
		for _, reading := range []facts.DeviceReading{d.After, d.Before} {
			if len(reading.Throttled) > 0 {
				add("%v holds its clocks down: %s", id, strings.Join(reading.Throttled, ", "))
			}
		}
		for _, link := range []string{d.After.Link, d.Link} {
			if now, most, ok := strings.Cut(link, "(at most "); ok {
				add("the link of %v is narrower or slower than it can be: %s of %s", id, strings.TrimSpace(now), strings.TrimSuffix(most, ")"))
				break
			}
		}
		if d.Software {
			add("the driver of %v computes on the CPU", id)
		}
	}
	if c.Memory == "pageable" {
		add("the host's memory is pageable: the driver copies it once more")
	}
	for _, refused := range c.Refused {
		add("the better way %q was not taken: %s", refused.What, refused.Reason)
	}
	if c.CV > noisyCV {
		add("the samples vary by %.0f%%: other programs have disturbed the measurement", 100*c.CV)
	}
	if g := r.Host.Governor; g != "" && g != "performance" {
		add("the governor of the CPUs is %q", g)
	}
	if len(r.Host.Load) > 0 && r.Host.CPUs > 0 && r.Host.Load[0] > float64(r.Host.CPUs)/2 {
		add("the machine was busy before the run: load %.1f on %d CPUs", r.Host.Load[0], r.Host.CPUs)
	}
	if stolen := r.Host.After.Steal - r.Host.Before.Steal; stolen > 1 {
		add("the hypervisor took %.0f s from the CPUs during the run", stolen)
	}
	if len(list) == 0 {
		add("nothing that is known of the machine explains it")
	}
	return list
}

// Judged reports whether a case may be judged without a file of limits: if the peak of the bus is known.
func Judged(c benchmarks.Case) bool {
	return c.Kind == benchmarks.Bandwidth && c.Size >= largeCopy && (c.Memory == "pinned" || c.Memory == "mapped") &&
		len(c.From) == 1 && len(c.To) == 1 && (c.From[0] == core.CPU) != (c.To[0] == core.CPU)
}
