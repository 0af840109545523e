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

// benchCase is a case that could be measured.
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
		Short: "Measure dlx beside an empty C call, memcpy, NumPy and plain copies of devices",
		Long: `Measure the cases of this build, each by turns with what it is compared with, and
print the ratios and how they stand beside the project's targets. A missed target is
no failure; a case that ends in an error is, exit code 1, and the report is printed all
the same.

SPEED is how many times as fast as the baseline a case is. SPREAD is the middle half
of the samples as a part of the median: above some 10% the machine was not quiet.
GB/s are 10^9 bytes copied in a second. OLD/NEW, with --compare, is above 1 where a
case has become faster. A case that moves a tensor names the mechanism in brackets;
one whose device is not there is unsupported.

NumPy is measured with the Python that DLX_PYTHON names, or else .venv/bin/python.`,
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
	flags.BoolVarP(&f.list, "list", "l", false, "list the cases, measure nothing")
	flags.StringArrayVarP(&f.names, "case", "t", nil, "measure only cases whose `name` is or begins with this; may be repeated")
	flags.IntVarP(&f.samples, "samples", "n", 21, "take so many samples of every case")
	flags.DurationVar(&f.maxTime, "max-time", 2*time.Second, "sample a case for about so long; a slow one gets fewer samples")
	flags.StringVar(&f.compare, "compare", "", "compare with an older report, a `file` of --out or --json")
	flags.StringVar(&f.out, "out", "", "also write the report as JSON to a `file`; a pipe or a device is written to")
	completeFlag(cmd, "case", completeCases)
	return cmd
}

// completeCases offers the names of the cases that begin like the argument.
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

// check finds what is wrong with the flags before any work.
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

// bench measures and keeps the report. It returns a report even if that has errors
// in it or cannot be kept.
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
		Progress: progress,
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
	if f.out != "" { // first: whoever reads the output may have enough of it, which ends the program
		errs = append(errs, a.writeReport(ctx, f.out, command, r))
	}
	for _, c := range r.Cases {
		if c.Status == benchmarks.Failed {
			errs = append(errs, fmt.Errorf("%s: %s", c.Name, c.Reason))
		}
	}
	return r, errors.Join(errs...)
}

// readReport reads what --out or --json wrote.
func readReport(path, command string) (benchResult, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return benchResult{}, err
	}
	var r benchResult
	d := document{Result: &r}
	if err := json.Unmarshal(content, &d); err != nil {
		return benchResult{}, core.Errorf(core.ErrInvalid, "bench", "compare", "%s is no report: %v", path, err)
	}
	if d.Schema != schema || d.Command != command {
		return benchResult{}, core.Errorf(core.ErrVersion, "bench", "compare", "%s has schema %q, command %q; wanted are %q, %q", path, d.Schema, d.Command, schema, command)
	}
	return r, nil
}

// checkReport finds out before any work whether writeReport can write to path.
func (a *app) checkReport(path string) error {
	if err := atomicfile.Check(path); a.output(path) == nil && !isOutput(err) {
		return err
	}
	return nil
}

// writeReport writes what --json prints. A file appears when it is whole. Pipes, devices
// and what is open already, such as /dev/stdout, are written to.
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
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0) // appended to a file that is open
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}

// output returns the program's own output that a path names, nil if it names none. A new
// file under that path would lose what the program prints afterwards.
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

// isOutput reports whether err says that a path names something that is not replaced by
// a file but can be written to.
func isOutput(err error) bool {
	var irregular *atomicfile.IrregularError
	return errors.As(err, &irregular) && (irregular.Open || irregular.Mode&(fs.ModeNamedPipe|fs.ModeDevice) != 0)
}

// benchProgress returns a function that names the case that comes next and one
// that removes the progress bar. The bar is there if somebody watches.
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
		// A bar that cannot be drawn must not stop the work.
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
}

// benchCells are the cells of a case beside its fastest baseline. All rows have as
// many, so that the columns are those of the whole table.
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

// factor prints a ratio.
func factor(x float64) string { return strconv.FormatFloat(x, 'f', 2, 64) + "x" }

// formatNanoseconds is formatDuration where parts of a nanosecond matter, and "-"
// for what was not measured.
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
