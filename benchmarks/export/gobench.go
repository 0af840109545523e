package export

import (
	"bufio"
	"fmt"
	"io"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/perf/benchfmt"

	"github.com/dlx-go/dlx/benchmarks"
)

// GoBenchmark writes the text of Go's benchmarks, which benchstat reads: a line for each sample. The name of a case becomes that
// of a benchmark with sub-benchmarks: "host_to_device_memcpy_ce/vulkan:0" becomes "BenchmarkHostToDeviceMemcpyCe/vulkan:0-2", where 2 is
// the number of CPUs. Those that were not measured are comments.
//
// Source: https://golang.org/design/14313-benchmark-format.
func GoBenchmark(w io.Writer, p Program, r benchmarks.Report) error {
	if err := checkWriter("GoBenchmark", w); err != nil {
		return err
	}
	buffered := bufio.NewWriter(w) // Flush returns the first error of all writes
	goos, goarch, _ := strings.Cut(r.Host.Platform, "/")
	var config []benchfmt.Config
	for _, c := range [][2]string{{"goos", goos}, {"goarch", goarch}, {"pkg", "dlx"}, {"cpu", r.Host.CPU}, {"dlx", p.Version}, {"revision", p.Revision}} {
		if value := strings.TrimSpace(line(c[1])); value != "" {
			config = append(config, benchfmt.Config{Key: c[0], Value: []byte(value), File: true})
		}
	}
	out := benchfmt.NewWriter(buffered)
	cpus := r.Host.CPUs
	if cpus < 1 {
		cpus = runtime.GOMAXPROCS(0)
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		name := fmt.Sprintf("%s-%d", goName(c), cpus)
		if !measured(c) {
			fmt.Fprintf(buffered, "# %s: %s: %s\n", name, line(string(c.Status)), line(c.Reason))
			continue
		}
		for _, t := range c.Times {
			if !(t > 0) || !finite(t) {
				continue
			}
			result := benchfmt.Result{Config: config, Name: benchfmt.Name(name), Iters: max(1, c.Iterations), Values: []benchfmt.Value{{Value: t, Unit: "ns/op"}}}
			if rate := float64(c.Bytes) / t * 1e3; c.Bytes > 0 && finite(rate) {
				result.Values = append(result.Values, benchfmt.Value{Value: rate, Unit: "MB/s"})
			}
			result.Values = append(result.Values, benchfmt.Value{Value: float64(c.Allocs), Unit: "allocs/op"})
			_ = out.Write(&result)
		}
	}
	return buffered.Flush()
}

// goName makes the name of a benchmark, without "Benchmark", of that of a case.
func goName(c *benchmarks.Result) string {
	first, rest, parts := strings.Cut(line(c.Name), "/")
	var name strings.Builder
	for word := range strings.FieldsFuncSeq(first, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		r, size := utf8.DecodeRuneInString(word)
		name.WriteRune(unicode.ToUpper(r))
		name.WriteString(word[size:])
	}
	if name.Len() == 0 {
		name.WriteString("X")
	}
	if parts {
		name.WriteString("/" + rest)
	}
	if c.Simulated {
		name.WriteString("/" + simulated)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return '_'
		}
		return r
	}, name.String())
}
