package export

import (
	"encoding/csv"
	"io"
	"strconv"
	"time"

	"github.com/dlx-go/dlx/benchmarks"
)

// column is a column of the table of cases.
type column struct {
	name  string
	value func(c *benchmarks.Result) string
}

// columns are those of [CSV]. A program may rely on their names; columns may be added. An empty cell is a figure that was not
// determined. Times are of one operation, in nanoseconds.
var columns = []column{
	{"name", func(c *benchmarks.Result) string { return line(c.Name) }},
	{"family", func(c *benchmarks.Result) string { return line(c.Family) }}, // the name without devices and sizes
	{"kind", func(c *benchmarks.Result) string { return line(string(c.Kind)) }},
	{"from", func(c *benchmarks.Result) string { return ends(c.From) }}, // "cuda:0+cuda:1"
	{"to", func(c *benchmarks.Result) string { return ends(c.To) }},
	{"memory", func(c *benchmarks.Result) string { return line(c.Memory) }},
	{"size", func(c *benchmarks.Result) string { return count(c.Size) }},
	{"streams", func(c *benchmarks.Result) string { return count(int64(c.Streams)) }},
	{"status", func(c *benchmarks.Result) string { return line(string(c.Status)) }},
	{"reason", func(c *benchmarks.Result) string { return line(c.Reason) }},
	{"simulated", func(c *benchmarks.Result) string { return strconv.FormatBool(c.Simulated) }},
	{"bytes", func(c *benchmarks.Result) string { return count(c.Bytes) }}, // of one operation
	{"way", func(c *benchmarks.Result) string { return line(c.Way) }},
	{"clock", func(c *benchmarks.Result) string { return line(string(c.Clock)) }},
	{"clock_error_ns", func(c *benchmarks.Result) string { return figure(c.ClockError) }},
	{"verified", func(c *benchmarks.Result) string { return strconv.FormatBool(c.Verified) }},
	{"impossible", func(c *benchmarks.Result) string { return line(c.Impossible) }},
	{"samples", func(c *benchmarks.Result) string { return count(int64(len(c.Times))) }},
	{"iterations", func(c *benchmarks.Result) string { return count(int64(c.Iterations)) }},
	{"min_ns", func(c *benchmarks.Result) string { return figure(c.Min) }},
	{"p05_ns", func(c *benchmarks.Result) string { return figure(c.P05) }},
	{"p25_ns", func(c *benchmarks.Result) string { return figure(c.P25) }},
	{"median_ns", func(c *benchmarks.Result) string { return figure(c.Median) }},
	{"p75_ns", func(c *benchmarks.Result) string { return figure(c.P75) }},
	{"p95_ns", func(c *benchmarks.Result) string { return figure(c.P95) }},
	{"p99_ns", func(c *benchmarks.Result) string { return figure(c.P99) }},
	{"max_ns", func(c *benchmarks.Result) string { return figure(c.Max) }},
	{"low_ns", func(c *benchmarks.Result) string { return figure(c.Low) }}, // the confidence interval of the median
	{"high_ns", func(c *benchmarks.Result) string { return figure(c.High) }},
	{"confidence", func(c *benchmarks.Result) string { return figure(c.Confidence) }},
	{"cv", func(c *benchmarks.Result) string { return figure(c.CV) }},
	{"gb_per_s", func(c *benchmarks.Result) string { return figure(c.GBPerSecond) }},
	{"allocs_per_op", func(c *benchmarks.Result) string { return strconv.FormatInt(c.Allocs, 10) }},
	{"against", func(c *benchmarks.Result) string { return line(c.Against) }}, // the fastest baseline
	{"speed", func(c *benchmarks.Result) string { return figure(c.Speed) }},
	{"peak_gb_per_s", func(c *benchmarks.Result) string {
		if c.Peak == nil {
			return ""
		}
		return figure(c.Peak.GBPerSecond)
	}},
	{"old_median_ns", changed(func(c *benchmarks.Change) string { return figure(c.Median) })},
	{"old_ns", changed(func(c *benchmarks.Change) string { return figure(c.Old) })},
	{"new_ns", changed(func(c *benchmarks.Change) string { return figure(c.New) })},
	{"old_to_new", changed(func(c *benchmarks.Change) string { return figure(c.Ratio) })},
	{"p", changed(func(c *benchmarks.Change) string { return strconv.FormatFloat(c.P, 'g', -1, 64) })},
	{"significant", changed(func(c *benchmarks.Change) string { return strconv.FormatBool(c.Significant) })},
	{"slower", changed(func(c *benchmarks.Change) string { return strconv.FormatBool(c.Slower) })},
}

func changed(value func(*benchmarks.Change) string) func(*benchmarks.Result) string {
	return func(c *benchmarks.Result) string {
		if c.Change == nil {
			return ""
		}
		return value(c.Change)
	}
}

// count writes a number, nothing if it is 0.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// figure writes a figure, nothing if it was not determined.
func figure(x float64) string {
	if !known(x) {
		return ""
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

// CSV writes a table in the form of RFC 4180: a row of names and one row for each case, also for those that were not measured.
func CSV(w io.Writer, p Program, r benchmarks.Report) error {
	if err := checkWriter("CSV", w); err != nil {
		return err
	}
	table := csv.NewWriter(w)
	table.UseCRLF = true
	cells := []string{"date", "version"}
	for _, col := range columns {
		cells = append(cells, col.name)
	}
	_ = table.Write(cells) // Error has the first error of all
	for i := range r.Cases {
		cells = append(cells[:0], r.Date.Format(time.RFC3339), line(p.Version))
		for _, col := range columns {
			cells = append(cells, col.value(&r.Cases[i]))
		}
		_ = table.Write(cells)
	}
	table.Flush()
	return table.Error()
}

// Samples writes a table as [CSV] does, with a row for each sample of each case and its baselines: name, baseline (empty for
// the case itself), simulated, block (the process that took the sample, from 0 on), sample (from 0 on), iterations, time_ns.
func Samples(w io.Writer, _ Program, r benchmarks.Report) error {
	if err := checkWriter("Samples", w); err != nil {
		return err
	}
	table := csv.NewWriter(w)
	table.UseCRLF = true
	_ = table.Write([]string{"name", "baseline", "simulated", "block", "sample", "iterations", "time_ns"})
	for i := range r.Cases {
		c := &r.Cases[i]
		writeSamples(table, c, &c.Series)
		for j := range c.Baselines {
			writeSamples(table, c, &c.Baselines[j])
		}
	}
	table.Flush()
	return table.Error()
}

func writeSamples(table *csv.Writer, c *benchmarks.Result, s *benchmarks.Series) {
	block, end := 0, 0
	if len(s.Blocks) > 0 {
		end = s.Blocks[0]
	}
	for i, t := range s.Times {
		for i >= end && block+1 < len(s.Blocks) {
			block++
			end += s.Blocks[block]
		}
		time := ""
		if finite(t) {
			time = strconv.FormatFloat(t, 'f', -1, 64)
		}
		_ = table.Write([]string{
			line(c.Name), line(s.Baseline), strconv.FormatBool(c.Simulated), strconv.Itoa(block), strconv.Itoa(i), strconv.Itoa(s.Iterations), time,
		})
	}
}
