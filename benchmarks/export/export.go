// Package export writes the report of a benchmark in formats that other programs read. Every function writes only UTF-8 and
// finite numbers, whatever the report has, and marks the results of simulated devices.
package export

import (
	"io"
	"math"
	"strings"
	"unicode"

	"github.com/dlx-go/dlx/benchmarks"
)

// Program is the program that measured.
type Program struct {
	Version  string // "v0.2.0"
	Revision string // of its source
}

// Format is a form of a report.
type Format struct {
	Name  string // of the flag and of the format in messages: "csv"
	Help  string // what it is, and who reads it
	Write func(w io.Writer, p Program, r benchmarks.Report) error
}

// Formats lists all formats.
var Formats = []Format{
	{"csv", "a table (RFC 4180) with a row for each case", CSV},
	{"samples", "a table (RFC 4180) with a row for each sample", Samples},
	{"nvbandwidth", "the JSON of nvbandwidth, with the bandwidths between devices as matrices", NVBandwidth},
	{"google-benchmark", "the JSON of Google Benchmark, for its compare.py", GoogleBenchmark},
	{"gobench", "the text of Go's benchmarks, for benchstat", GoBenchmark},
	{"openmetrics", "OpenMetrics, for Prometheus", OpenMetrics},
}

// simulated is what the names of results of simulated devices end with, in formats that have no other place for it.
const simulated = "SIMULATED"

// line returns text on one line and in valid UTF-8: what is not becomes a space, or the replacement character.
func line(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// known reports whether x is a figure that was determined.
func known(x float64) bool { return x != 0 && finite(x) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// measured reports whether the case has times.
func measured(c *benchmarks.Result) bool {
	return c.Status == benchmarks.OK && c.Median > 0 && finite(c.Median)
}

// ends writes devices as "cpu" or "cuda:0+cuda:1".
func ends(e benchmarks.Ends) string {
	names := make([]string, len(e))
	for i, id := range e {
		names[i] = id.String()
	}
	return strings.Join(names, "+")
}
