package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlx-go/dlx/benchmarks"
)

func (l benchList) writeText(w io.Writer) {
	row(w, "CASE", "TARGET", "DESCRIPTION")
	for _, c := range l.List {
		row(w, c.Name, orDash(c.Target), c.Description)
	}
}

// tableOptions say what the table shows.
type tableOptions struct {
	mean, verbose bool
	bars          *barStyle // nil: none
}

// barWidth is that of the bars of bandwidth, in characters.
const barWidth = 12

// barOf draws the bandwidth of a case beside the largest one of its family.
func (o tableOptions) barOf(c benchmarks.Result, largest map[string]float64) string {
	return strings.TrimRight(o.bars.bar(c.GBPerSecond, largest[c.Family], barWidth), " ")
}

func (r benchResult) writeText(w io.Writer) {
	row(w, fmt.Sprintf("dlx %s, %s, %s", r.Program.Version, r.Program.Go, r.Program.Platform))
	row(w, fmt.Sprintf("%s, %d CPUs, load %v, NumPy %s", orDash(r.Host.CPU), r.Host.CPUs, r.Host.Load, orDash(r.NumPy)))
	if r.Interrupted {
		row(w, "interrupted: not all cases were measured")
	}
	row(w)
	average := "MEDIAN"
	if r.show.mean {
		average = "MEAN"
	}
	header := []string{"CASE", average, "CV", "GB/S", "ALLOCS", "BASELINE", average, "SPEED", "TARGET", "VALUE", "VERDICT"}
	largest := make(map[string]float64)
	if r.show.bars != nil {
		for _, c := range r.Cases {
			largest[c.Family] = max(largest[c.Family], c.GBPerSecond)
		}
		header = slices.Insert(header, 4, "")
	}
	row(w, header...)
	for _, c := range r.Cases {
		if c.Status == benchmarks.Unsupported || c.Status == benchmarks.Skipped {
			continue
		}
		cells := r.show.cells(c)
		before := []string{"", "", "", "", ""} // the columns of the case itself
		if r.show.bars != nil {
			cells = slices.Insert(cells, 4, r.show.barOf(c, largest))
			before = append(before, "")
		}
		row(w, cells...)
		for _, b := range c.Baselines {
			if b.Baseline != c.Against {
				row(w, append(slices.Clone(before), b.Baseline, r.show.time(b), "", "", "", printable(b.NotMeasured))...)
			}
		}
		if r.show.verbose {
			writeDetails(w, c)
		}
		if c.Impossible != "" {
			row(w, "  impossible: "+printable(c.Impossible))
		}
	}
	r.writeUnmeasured(w)
	if compared := newCompareResult(r.Report); len(compared.Cases) > 0 {
		row(w)
		compared.writeText(w)
	} else if r.Baseline != nil {
		row(w)
		writeBaseline(w, r.Baseline)
	}
}

// writeDetails writes what --verbose adds to a case.
func writeDetails(w io.Writer, c benchmarks.Result) {
	if len(c.Times) > 0 {
		fmt.Fprintf(w, "  %d samples of %d, %s clock; p5 %s, p25 %s, p75 %s, p95 %s, p99 %s, max %s\n", len(c.Times), c.Iterations, c.Clock,
			formatNanoseconds(c.P05), formatNanoseconds(c.P25), formatNanoseconds(c.P75), formatNanoseconds(c.P95), formatNanoseconds(c.P99), formatNanoseconds(c.Max))
	}
	for _, f := range c.Refused {
		fmt.Fprintf(w, "  not %v: %s: %s\n", f.Mechanism, printable(f.What), printable(f.Reason))
	}
	for _, note := range c.Notes {
		fmt.Fprintf(w, "  %s\n", printable(note))
	}
}

// time returns the average of a series.
func (o tableOptions) time(s benchmarks.Series) string {
	if o.mean && len(s.Times) > 0 {
		sum := 0.0
		for _, t := range s.Times {
			sum += t
		}
		return formatNanoseconds(sum / float64(len(s.Times)))
	}
	return formatNanoseconds(s.Median)
}

// writeUnmeasured prints each reason for which cases were not measured, and which cases: their names, or where there are
// many, how many begin with what.
func (r benchResult) writeUnmeasured(w io.Writer) {
	var reasons []string
	cases := make(map[string][]string)
	for _, c := range r.Cases {
		if c.Status == benchmarks.Unsupported || c.Status == benchmarks.Skipped {
			reason := string(c.Status) + ": " + printable(c.Reason)
			if cases[reason] == nil {
				reasons = append(reasons, reason)
			}
			cases[reason] = append(cases[reason], c.Name)
		}
	}
	if len(reasons) > 0 {
		row(w)
		row(w, "NOT MEASURED", "REASON")
	}
	for _, reason := range reasons {
		names := cases[reason]
		if len(names) > 3 {
			names = groups(names)
		}
		row(w, strings.Join(names, ", "), reason)
	}
}

// groups counts names by what they begin with: "exchange/ (12)".
func groups(names []string) (list []string) {
	begin := func(name string) string { return name[:strings.Index(name, "/")+1] }
	for len(names) > 0 {
		n := 1
		for n < len(names) && begin(names[n]) == begin(names[0]) {
			n++
		}
		list = append(list, fmt.Sprintf("%s (%d)", begin(names[0]), n))
		names = names[n:]
	}
	return list
}

// cells returns the cells of a case with its fastest baseline. All rows have the same number
// of cells.
func (o tableOptions) cells(c benchmarks.Result) []string {
	name := c.Name
	if c.Way != "" {
		name += " (" + c.Way + ")"
	}
	if c.Simulated {
		name += " SIMULATED"
	}
	if c.Status != benchmarks.OK {
		return []string{name, "-", "-", "-", "-", "-", "-", "-", "-", "-", string(c.Status) + ": " + printable(c.Reason)}
	}
	cells := []string{name, o.time(c.Series), variation(c), formatRate(c.GBPerSecond), strconv.FormatInt(c.Allocs, 10)}
	if c.Against == "" {
		cells = append(cells, "-", "-", "-")
	}
	for _, b := range c.Baselines {
		if b.Baseline == c.Against {
			cells = append(cells, b.Baseline, o.time(b), factor(c.Speed))
		}
	}
	if v := c.Verdict; v != nil {
		return append(cells, v.Target, orDash(v.Value), v.Text)
	}
	return append(cells, "-", "-", "-")
}

// factor formats a ratio.
func factor(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) + "x" }

// formatNanoseconds is formatDuration, but shows fractions of a nanosecond, and "-" for a time
// that was not measured.
func formatNanoseconds(ns float64) string {
	switch {
	case ns == 0:
		return "-"
	case ns < 1000:
		return fmt.Sprintf("%.1f ns", ns)
	default:
		return formatDuration(time.Duration(ns))
	}
}

// variation returns the coefficient of variation, which one sample does not have.
func variation(c benchmarks.Result) string {
	if len(c.Times) < 2 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*c.CV)
}
