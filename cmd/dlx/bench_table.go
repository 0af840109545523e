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
	row(w, "CASE", "NUMBER", "TARGET", "DESCRIPTION")
	for _, c := range l.List {
		number := "-"
		if c.Number != nil {
			number = strconv.Itoa(*c.Number)
		}
		row(w, c.Name, number, orDash(c.Target), c.Description)
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
	if r.Shortened != "" {
		row(w, printable(r.Shortened))
	}
	row(w)
	average := "MEDIAN"
	if r.show.mean {
		average = "MEAN"
	}
	header, t := []string{"CASE", average, "CV", "GB/S", "ALLOCS", "BASELINE", average, "SPEED"}, table{least: []int{42, 0, 0, 0, 0, 22}}
	largest := make(map[string]float64)
	if r.show.bars != nil {
		for _, c := range r.Cases {
			largest[c.Family] = max(largest[c.Family], c.GBPerSecond)
		}
		header, t.least = slices.Insert(header, 4, ""), []int{28, 0, 0, 0, 0, 0, 22}
	}
	t.add(header...)
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
		t.add(cells...)
		for _, b := range c.Baselines {
			if b.Baseline != c.Against && b.NotMeasured == "" {
				t.add(append(slices.Clone(before), b.Baseline, r.show.time(b), "")...)
			}
		}
		if c.Status == benchmarks.Failed {
			t.add("  error: " + printable(c.Reason))
		}
		if r.show.verbose {
			addDetails(&t, c)
		}
		if c.Impossible != "" {
			t.add("  impossible: " + printable(c.Impossible))
		}
	}
	t.write(w)
	r.writeUnmeasured(w)
	if compared := newCompareResult(r.Report); len(compared.Cases) > 0 {
		row(w)
		compared.writeText(w)
	} else if r.Baseline != nil {
		row(w)
		writeBaseline(w, r.Baseline)
	}
	r.writeTargets(w)
}

// writeTargets writes what the project wants of itself.
func (r benchResult) writeTargets(w io.Writer) {
	t := table{least: []int{44, 30, 0, 24}}
	t.add("")
	t.add("TARGET OF THE PROJECT", "LIMIT", "VALUE", "VERDICT")
	const head = 2
	for _, c := range r.Cases {
		v := c.Verdict
		if v == nil || c.Status != benchmarks.OK {
			continue
		}
		text := v.Text
		if strings.HasPrefix(text, "not measured: ") { // the table of baselines says why
			text = "not measured"
		}
		t.add(printable(c.Name), v.Target, orDash(v.Value), printable(text))
	}
	if len(t.lines) > head {
		t.write(w)
	}
}

// addDetails adds what --verbose shows of a case.
func addDetails(t *table, c benchmarks.Result) {
	if len(c.Times) > 0 {
		t.add(fmt.Sprintf("  %d samples of %d, %s clock; p5 %s, p25 %s, p75 %s, p95 %s, p99 %s, max %s", len(c.Times), c.Iterations, c.Clock,
			formatNanoseconds(c.P05), formatNanoseconds(c.P25), formatNanoseconds(c.P75), formatNanoseconds(c.P95), formatNanoseconds(c.P99), formatNanoseconds(c.Max)))
	}
	for _, f := range c.Refused {
		t.add(fmt.Sprintf("  not %v: %s: %s", f.Mechanism, printable(f.What), printable(f.Reason)))
	}
	for _, note := range c.Notes {
		t.add("  " + printable(note))
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

// writeUnmeasured prints each reason for which cases or baselines were not measured, once, and which ones: their names, or where there
// are many cases, how many begin with what.
func (r benchResult) writeUnmeasured(w io.Writer) {
	var cases, baselines reasons
	for _, c := range r.Cases {
		if c.Status == benchmarks.Unsupported || c.Status == benchmarks.Skipped {
			cases.add(string(c.Status)+": "+printable(c.Reason), c.Name)
		}
		for _, b := range c.Baselines {
			if b.NotMeasured != "" {
				baselines.add(printable(b.NotMeasured), b.Baseline)
			}
		}
	}
	for i, list := range []*reasons{&cases, &baselines} {
		if len(list.list) > 0 {
			row(w)
			list.write(w, []string{"NOT MEASURED", "BASELINE NOT MEASURED"}[i])
		}
	}
}

// reasons are reasons in the order in which they came, and names for each.
type reasons struct {
	list  []string
	names map[string][]string
}

func (r *reasons) add(reason, name string) {
	if r.names == nil {
		r.names = make(map[string][]string)
	}
	if r.names[reason] == nil {
		r.list = append(r.list, reason)
	}
	r.names[reason] = append(r.names[reason], name)
}

// write writes a table, if there is a reason: each with the different names, or where there are many, with what they begin with.
func (r *reasons) write(w io.Writer, title string) {
	t := table{least: []int{44, 74}}
	if len(r.list) > 0 {
		t.add(title, "REASON")
	}
	for _, reason := range r.list {
		names := r.names[reason]
		different := slices.Compact(slices.Sorted(slices.Values(names)))
		if names = different; len(names) > 3 {
			names = groups(r.names[reason])
		}
		t.add(strings.Join(names, ", "), reason)
	}
	t.write(w)
}

// groups counts names by what they begin with: "exchange/ (12)".
func groups(names []string) (list []string) {
	count := make(map[string]int)
	for _, name := range names {
		begin, _, deeper := strings.Cut(name, "/")
		if deeper {
			begin += "/"
		}
		if count[begin]++; count[begin] == 1 {
			list = append(list, begin)
		}
	}
	for i, begin := range list {
		if n := count[begin]; n > 1 || strings.HasSuffix(begin, "/") {
			list[i] = fmt.Sprintf("%s (%d)", begin, n)
		}
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
		return []string{name, string(c.Status), "-", "-", "-", "-", "-", "-"}
	}
	cells := []string{name, o.time(c.Series), variation(c), formatRate(c.GBPerSecond), strconv.FormatInt(c.Allocs, 10)}
	for _, b := range c.Baselines {
		if b.Baseline == c.Against && c.Against != "" {
			return append(cells, b.Baseline, o.time(b), factor(c.Speed))
		}
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
