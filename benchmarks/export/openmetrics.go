package export

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/dlx-go/dlx/benchmarks"
)

// OpenMetrics writes the report as metrics: gauges with the labels case, family, from, to, memory and simulated.
//
// Source: https://github.com/prometheus/OpenMetrics, version 1.0.0.
func OpenMetrics(w io.Writer, p Program, r benchmarks.Report) error {
	if err := checkWriter("OpenMetrics", w); err != nil {
		return err
	}
	m := metrics{bufio.NewWriter(w)}
	m.family("dlx_bench", "info", "", "The program and the machine that measured.")
	m.sample("dlx_bench_info", labels("version", p.Version, "revision", p.Revision, "platform", r.Host.Platform, "cpu", r.Host.CPU), 1)
	m.family("dlx_bench_date_seconds", "gauge", "seconds", "When the run began, in Unix time.")
	m.sample("dlx_bench_date_seconds", "", float64(r.Date.Unix()))

	m.family("dlx_bench_time_seconds", "gauge", "seconds", "Time of one operation: a statistic of the samples.")
	each(r, func(c *benchmarks.Result, l string) {
		for _, s := range []struct {
			name string
			ns   float64
		}{
			{"min", c.Min}, {"p05", c.P05}, {"p25", c.P25}, {"median", c.Median}, {"p75", c.P75}, {"p95", c.P95}, {"p99", c.P99},
			{"max", c.Max}, {"low", c.Low}, {"high", c.High},
		} {
			if measured(c) && known(s.ns) {
				m.sample("dlx_bench_time_seconds", l+","+labels("statistic", s.name), s.ns/1e9)
			}
		}
	})
	m.family("dlx_bench_bandwidth_bytes_per_second", "gauge", "bytes_per_second", "Bytes moved in the median time.")
	each(r, func(c *benchmarks.Result, l string) {
		if measured(c) && known(c.GBPerSecond) {
			m.sample("dlx_bench_bandwidth_bytes_per_second", l, c.GBPerSecond*1e9)
		}
	})
	m.family("dlx_bench_variation_ratio", "gauge", "ratio", "Coefficient of variation of the samples.")
	each(r, func(c *benchmarks.Result, l string) {
		if measured(c) && finite(c.CV) && len(c.Times) > 1 {
			m.sample("dlx_bench_variation_ratio", l, c.CV)
		}
	})
	m.family("dlx_bench_samples", "gauge", "", "Number of samples.")
	each(r, func(c *benchmarks.Result, l string) { m.sample("dlx_bench_samples", l, float64(len(c.Times))) })
	m.family("dlx_bench_status", "stateset", "", "How the case ended.")
	each(r, func(c *benchmarks.Result, l string) {
		for _, status := range []benchmarks.Status{benchmarks.OK, benchmarks.Unsupported, benchmarks.Skipped, benchmarks.Failed} {
			value := 0.0
			if c.Status == status {
				value = 1
			}
			m.sample("dlx_bench_status", l+","+labels("dlx_bench_status", string(status)), value)
		}
	})
	fmt.Fprintln(m.w, "# EOF")
	return m.w.Flush()
}

// each calls f with each case, and with the labels that name it. A name that a report has twice is written once: metrics must
// differ in their labels.
func each(r benchmarks.Report, f func(c *benchmarks.Result, labels string)) {
	seen := make(map[string]bool, len(r.Cases))
	for i := range r.Cases {
		c := &r.Cases[i]
		l := labels("case", c.Name, "family", c.Family, "from", ends(c.From), "to", ends(c.To), "memory", c.Memory, "simulated", strconv.FormatBool(c.Simulated))
		if !seen[l] {
			seen[l] = true
			f(c, l)
		}
	}
}

// metrics writes metrics. Flush of w returns the first error of all writes.
type metrics struct{ w *bufio.Writer }

func (m metrics) family(name, kind, unit, help string) {
	fmt.Fprintf(m.w, "# TYPE %s %s\n", name, kind)
	if unit != "" {
		fmt.Fprintf(m.w, "# UNIT %s %s\n", name, unit)
	}
	fmt.Fprintf(m.w, "# HELP %s %s\n", name, help)
}

func (m metrics) sample(name, labels string, value float64) {
	if labels != "" {
		labels = "{" + labels + "}"
	}
	fmt.Fprintf(m.w, "%s%s %s\n", name, labels, strconv.FormatFloat(value, 'g', -1, 64))
}

var labelEscape = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// labels writes pairs of names and values.
func labels(pairs ...string) string {
	var parts []string
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, pairs[i]+`="`+labelEscape.Replace(line(pairs[i+1]))+`"`)
	}
	return strings.Join(parts, ",")
}
