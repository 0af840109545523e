package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/atomicfile"
)

// benchResult is the result of `dlx bench`.
type benchResult struct {
	Program versionResult `json:"program"`
	benchmarks.Report
}

// benchList is the result of `dlx bench --list`.
type benchList struct {
	List []benchCase `json:"list"`
}

// benchCase is a case that can be measured.
type benchCase struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Target      string `json:"target,omitempty"`
}

// benchFlags are the flags of `dlx bench`.
type benchFlags struct {
	list    bool
	names   []string
	samples int
	maxTime time.Duration
	compare string
	out     string
}

func newBenchCommand(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Compare the speed of dlx with an empty C call, memcpy, NumPy and plain device copies",
		Long: `Measure the cases of this build. Each case is measured in turns with its baselines.
Print the speed relative to the baseline and whether the project's target is met. A
missed target is not a failure. If a case ends in an error, the report is printed
and the command fails with exit code 1.

  SPEED    the time of the baseline divided by the time of the case
  SPREAD   the range of the middle half of the samples, in percent of the median;
           above about 10%, other programs have disturbed the measurement
  GB/S     10^9 bytes copied per second
  OLD/NEW  with --compare: above 1 if the case is faster than in the older report

A case that moves a tensor shows the mechanism in brackets. A case whose device is
missing is "unsupported": such cases are in a table of their own. NumPy is measured with the Python interpreter in the
environment variable DLX_PYTHON, or with .venv/bin/python.`,
		Example: `  dlx bench -t dlpack/ -t call/
  dlx bench --out before.json
  dlx bench --compare before.json -t copy/
  dlx bench -t device/ -t exchange/vulkan-opencl/`,
		Args:    cobra.NoArgs,
		PreRunE: func(*cobra.Command, []string) error { return f.check() },
		RunE: a.runE(func(cmd *cobra.Command, _ []string) (result, error) {
			if f.list {
				return listCases(f.cases()), nil
			}
			return a.bench(cmd.Context(), cmd.Name(), f)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.list, "list", "l", false, "list the cases and measure nothing")
	flags.StringArrayVarP(&f.names, "case", "t", nil, "measure only cases whose `name` begins with this; may be repeated")
	flags.IntVarP(&f.samples, "samples", "n", 21, "number of samples of each case")
	flags.DurationVar(&f.maxTime, "max-time", 2*time.Second, "measure a case for about this time at most; a slow case gets fewer samples")
	flags.StringVar(&f.compare, "compare", "", "compare with an older report in a `file`, which --out or --json wrote")
	flags.StringVar(&f.out, "out", "", "also write the report as JSON to a `file`, a pipe or a device")
	completeFlag(cmd, "case", completeCases)
	return cmd
}

// completeCases completes the name of a case.
func completeCases(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var offers []cobra.Completion
	for _, c := range benchmarks.Select(benchmarks.Cases(), begun) {
		offers = append(offers, cobra.CompletionWithDesc(c.Name, c.Description))
	}
	return offers, cobra.ShellCompDirectiveNoFileComp
}

func (f *benchFlags) cases() []benchmarks.Case {
	return benchmarks.Select(benchmarks.Cases(), f.names...)
}

// check returns an error if the flags are wrong.
func (f *benchFlags) check() error {
	for _, name := range f.names {
		if len(benchmarks.Select(benchmarks.Cases(), name)) == 0 {
			return fmt.Errorf("invalid argument %q for --case: no case begins with that; --list shows them", name)
		}
	}
	switch {
	case f.samples < 1:
		return fmt.Errorf("invalid argument %d for --samples: must be at least 1", f.samples)
	case f.maxTime <= 0:
		return fmt.Errorf("invalid argument %v for --max-time: must be more than 0", f.maxTime)
	}
	return nil
}

func listCases(cases []benchmarks.Case) benchList {
	r := benchList{List: []benchCase{}}
	for _, c := range cases {
		r.List = append(r.List, benchCase{c.Name, c.Description, c.Target.String()})
	}
	return r
}

// bench measures the cases and writes the report to --out. It also returns the report if cases
// failed or the report cannot be written.
func (a *app) bench(ctx context.Context, command string, f benchFlags) (result, error) {
	if f.out != "" {
		if err := a.checkReport(f.out); err != nil {
			return nil, err
		}
	}
	var old benchResult
	if f.compare != "" {
		var err error
		if old, err = readReport(f.compare, command); err != nil {
			return nil, err
		}
	}
	cases := f.cases()
	progress, done := a.benchProgress(len(cases))
	report, err := benchmarks.Run(ctx, cases, benchmarks.Options{
		Registry: a.registry,
		Python:   benchmarks.FindPython(),
		Samples:  f.samples,
		MaxTime:  f.maxTime,
		Progress: func(c benchmarks.Case, _ int) { progress(c) },
	})
	done()
	if err != nil {
		return nil, err
	}
	if f.compare != "" && report.Compare(old.Report) == 0 {
		a.log.Warn().Str("file", f.compare).Msg("the older report has none of these cases")
	}
	info, _ := debug.ReadBuildInfo() // nil where a build has none
	r := benchResult{newVersionResult(info, a.registry), report}
	var errs []error
	if f.out != "" { // before the text output: a reader that closes it, such as head, ends the program
		errs = append(errs, a.writeReport(ctx, f.out, command, r))
	}
	for _, c := range r.Cases {
		if c.Status == benchmarks.Failed {
			errs = append(errs, fmt.Errorf("%s: %s", c.Name, c.Reason))
		}
	}
	return r, errors.Join(errs...)
}

// readReport reads a report that --out or --json wrote.
func readReport(path, command string) (benchResult, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return benchResult{}, err
	}
	var r benchResult
	d := document{Result: &r}
	if err := json.Unmarshal(content, &d); err != nil {
		return benchResult{}, core.Errorf(core.ErrInvalid, "bench", "compare", "%s is not a report: %v", path, err)
	}
	if d.Schema != schema || d.Command != command {
		return benchResult{}, core.Errorf(core.ErrVersion, "bench", "compare", "%s has schema %q and command %q; a report has %q and %q", path, d.Schema, d.Command, schema, command)
	}
	return r, nil
}

// checkReport returns an error if writeReport could not write to path.
func (a *app) checkReport(path string) error {
	if err := atomicfile.Check(path); a.output(path) == nil && !isOutput(err) {
		return err
	}
	return nil
}

// writeReport writes the document that --json prints. A regular file appears at path when it
// is complete. To a pipe, a device, or a file that is already open, such as /dev/stdout, the
// document is written directly.
func (a *app) writeReport(ctx context.Context, path, command string, r benchResult) error {
	write := func(w io.Writer) error {
		return writeDocument(w, document{Schema: schema, Command: command, Result: r})
	}
	if own := a.output(path); own != nil {
		return write(own)
	}
	err := atomicfile.Write(ctx, path, write)
	if !isOutput(err) {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) // keep what an open file already has
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// output returns the standard output or standard error of the program if path names it, or nil.
// Replacing that file by a new one would lose what the program prints afterwards.
func (a *app) output(path string) io.Writer {
	info, err := os.Stat(path)
	if err != nil {
		return nil
	}
	for _, w := range []io.Writer{a.stdout, a.stderr} {
		if file, ok := w.(*os.File); ok {
			if own, err := file.Stat(); err == nil && os.SameFile(own, info) {
				return w
			}
		}
	}
	return nil
}

// isOutput reports whether err says that a path names a pipe, a device or an open file, which is
// written to and not replaced.
func isOutput(err error) bool {
	var irregular *atomicfile.IrregularError
	return errors.As(err, &irregular) && (irregular.Open || irregular.Mode&(fs.ModeNamedPipe|fs.ModeDevice) != 0)
}

// benchProgress returns a function that shows the next case, and one that removes the progress
// bar. There is a bar only if standard error is a terminal.
func (a *app) benchProgress(cases int) (next func(benchmarks.Case), done func()) {
	if a.log.GetLevel() <= zerolog.DebugLevel || !isTerminal(a.stderr) {
		return func(c benchmarks.Case) { a.log.Debug().Str("case", c.Name).Msg("measuring") }, func() {}
	}
	bar := progressbar.NewOptions(cases,
		progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionShowCount(),
		progressbar.OptionClearOnFinish(),
	)
	begun := 0
	return func(c benchmarks.Case) {
		// Ignore errors: they must not stop the work.
		bar.Describe(c.Name)
		_ = bar.Set(begun)
		begun++
	}, func() { _ = bar.Clear() }
}

func (l benchList) writeText(w io.Writer) {
	row(w, "CASE", "TARGET", "DESCRIPTION")
	for _, c := range l.List {
		row(w, c.Name, orDash(c.Target), c.Description)
	}
}

func (r benchResult) writeText(w io.Writer) {
	row(w, fmt.Sprintf("dlx %s, %s, %s", r.Program.Version, r.Program.Go, r.Program.Platform))
	row(w, fmt.Sprintf("%s, %d CPUs, load %v, NumPy %s", orDash(r.Host.CPU), r.Host.CPUs, r.Host.Load, orDash(r.NumPy)))
	row(w)
	header := []string{"CASE", "MEDIAN", "SPREAD", "GB/S", "ALLOCS", "BASELINE", "MEDIAN", "SPEED", "TARGET", "VALUE", "VERDICT"}
	if slices.ContainsFunc(r.Cases, func(c benchmarks.Result) bool { return c.Change != nil }) {
		header = append(header, "OLD/NEW")
	}
	row(w, header...)
	for _, c := range r.Cases {
		if c.Status == benchmarks.Unsupported || c.Status == benchmarks.Skipped {
			continue
		}
		cells := benchCells(c)
		if c.Change != nil {
			cells = append(cells, factor(c.Change.Ratio))
		}
		if c.Way != "" {
			cells[0] += " (" + c.Way + ")"
		}
		row(w, cells...)
		for _, b := range c.Baselines {
			if b.Baseline != c.Against {
				row(w, "", "", "", "", "", b.Baseline, formatNanoseconds(b.Median), "", "", "", printable(b.NotMeasured))
			}
		}
	}
	r.writeUnmeasured(w)
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

// benchCells returns the cells of a case with its fastest baseline. All rows have the same number
// of cells.
func benchCells(c benchmarks.Result) []string {
	if c.Status != benchmarks.OK {
		return []string{c.Name, "-", "-", "-", "-", "-", "-", "-", "-", "-", string(c.Status) + ": " + printable(c.Reason)}
	}
	cells := []string{c.Name, formatNanoseconds(c.Median), fmt.Sprintf("%.0f%%", 100*c.Spread), formatRate(c.GBPerSecond), strconv.FormatInt(c.Allocs, 10)}
	if c.Against == "" {
		cells = append(cells, "-", "-", "-")
	}
	for _, b := range c.Baselines {
		if b.Baseline == c.Against {
			cells = append(cells, b.Baseline, formatNanoseconds(b.Median), factor(c.Speed))
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
