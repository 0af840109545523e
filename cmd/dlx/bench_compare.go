package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
)

// compareResult is the result of `dlx bench compare`.
type compareResult struct {
	Baseline *benchmarks.Baseline `json:"baseline"`
	Cases    []comparedCase       `json:"cases"`
}

// comparedCase is a case that both reports have.
type comparedCase struct {
	Name      string             `json:"name"`
	Simulated bool               `json:"simulated,omitempty"`
	Median    float64            `json:"median_ns"`
	Change    *benchmarks.Change `json:"change"`
}

// defaultTolerance is that of --compare.
const defaultTolerance = "5%"

const toleranceHelp = "a loss of up to this `part`, such as 5% or 0.05, does not count"

// parseTolerance parses the value of --tolerance.
func parseTolerance(s string) (float64, error) {
	part, err := parsePercent(s)
	if err != nil {
		return 0, fmt.Errorf("invalid argument %q for --tolerance: %w", s, err)
	}
	if part >= 1 && !strings.HasSuffix(s, "%") {
		return 0, fmt.Errorf("invalid argument %q for --tolerance: that is %g%%: write %s%%, or a part below 1", s, 100*part, s)
	}
	return part, nil
}

func newBenchCompareCommand(a *app) *cobra.Command {
	tolerance, part := defaultTolerance, 0.0
	cmd := &cobra.Command{
		Use:   "compare OLD NEW",
		Short: "Compare two reports of dlx bench, without measuring",
		Long: `Compare two files that dlx bench --json-file wrote. The exit code is 1 if a case has become
slower by more than the tolerance, and the difference is not chance. Cases that only one
of the files has are listed, and do not count.

OLD and NEW are the medians of the samples that are compared, and OLD/NEW is their quotient:
above 1 if the case is faster in NEW. A difference is not chance if the quickest samples differ (Mann-Whitney U test), and if the
quickest processes of the two runs differ (Student's t test), both at 1%, and if it is above
2%. What disturbs a machine makes a sample longer, never shorter. Samples are compared at
the same speed of the processor. Where all baselines of a case have changed in the same
direction, the machine has, and only what is beyond that counts. A change that most cases
have is the machine's only as far as other code in the same reports has it, too: the
baselines, such as memcpy, and the reference work. The last lines show what cases and
baselines have in common. The exit code is also 1 if most cases together have become slower
by more than the tolerance, and 5%, though each of them may be chance.`,
		Example: "  dlx bench compare before.json after.json --tolerance 10%",
		Args:    cobra.ExactArgs(2),
		PreRunE: func(*cobra.Command, []string) (err error) {
			part, err = parseTolerance(tolerance)
			return err
		},
		RunE: a.runE(func(_ *cobra.Command, args []string) (result, error) {
			old, err := readReport(args[0], "bench")
			if err != nil {
				return nil, err
			}
			now, err := readReport(args[1], "bench")
			if err != nil {
				return nil, err
			}
			n := compareReports(&now, old, args[0], part, now.Compare)
			r := newCompareResult(now.Report)
			if n == 0 {
				return r, core.Errorf(core.ErrInvalid, "bench", "compare", "%s and %s have no case in common that was measured", args[0], args[1])
			}
			return r, slowerError(now.Report)
		}),
	}
	cmd.Flags().StringVar(&tolerance, "tolerance", defaultTolerance, toleranceHelp)
	return cmd
}

// compareReports compares a report with one of a file, or of a program, by a method of now. It returns the number of cases that
// both have.
func compareReports(now *benchResult, old benchResult, file string, tolerance float64, compare func(benchmarks.Report, float64) int) int {
	n := compare(old.Report, tolerance)
	now.Baseline.File = resultName(file)
	note := func(what, before, after string) {
		if before != after {
			now.Baseline.Differs = append(now.Baseline.Differs, fmt.Sprintf("%s: %s, before %s", what, orDash(after), orDash(before)))
		}
	}
	a, b := old.Program, now.Program
	note("version of dlx", a.Version, b.Version)
	note("revision", a.Revision, b.Revision)
	note("build tags", strings.Join(a.Tags, ","), strings.Join(b.Tags, ","))
	if a.Modified != b.Modified || a.Modified {
		now.Baseline.Differs = append(now.Baseline.Differs, "the source of one of the programs was changed after its revision")
	}
	if a.Cgo != b.Cgo {
		now.Baseline.Differs = append(now.Baseline.Differs, "only one of the programs was built with cgo")
	}
	return n
}

// slowerError returns an error that names the cases that have become slower by more than the tolerance, nil if there are none, and most
// of them together have not.
func slowerError(r benchmarks.Report) error {
	var names []string
	for _, c := range r.Cases {
		if c.Change != nil && c.Change.Slower {
			names = append(names, fmt.Sprintf("%s (%s)", printable(c.Name), loss(*c.Change)))
		}
	}
	if len(names) == 0 {
		if c := r.Baseline.Common; c != nil && c.Slower {
			return fmt.Errorf("slower than in %s by more than %.3g%%: %s", r.Baseline.File, 100*r.Baseline.Tolerance, "OLD/NEW: "+c.String())
		}
		return nil
	}
	const most = 10
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("and %d more", n-most))
	}
	return fmt.Errorf("slower than in %s by more than %.3g%%: %s", r.Baseline.File, 100*r.Baseline.Tolerance, strings.Join(names, ", "))
}

// loss writes by how much a case has become slower: "+12.0% time".
func loss(c benchmarks.Change) string {
	if !(c.Ratio > 0) {
		return "very much more time"
	}
	return fmt.Sprintf("%+.1f%% time", 100*(1/c.Ratio-1))
}

func newCompareResult(r benchmarks.Report) compareResult {
	result := compareResult{Baseline: r.Baseline, Cases: []comparedCase{}}
	for _, c := range r.Cases {
		if c.Change != nil {
			result.Cases = append(result.Cases, comparedCase{c.Name, c.Simulated, c.Median, c.Change})
		}
	}
	return result
}

func (r compareResult) writeText(w io.Writer) {
	times := []string{"OLD", "NEW", "OLD/NEW"}
	if r.Baseline.ByTurns { // a round has its own times
		times = []string{"OLD/NEW", "FROM", "TO"}
	}
	t := table{least: []int{46}}
	t.add(append(append([]string{"CASE"}, times...), "P", "VERDICT")...)
	sorted := slices.SortedStableFunc(slices.Values(r.Cases), func(a, b comparedCase) int { return rank(a.Change) - rank(b.Change) })
	for _, c := range sorted {
		name, ch := printable(c.Name), c.Change
		if c.Simulated {
			name += " SIMULATED"
		}
		cells := []string{name, formatNanoseconds(ch.Old), formatNanoseconds(ch.New), factor(ch.Ratio)}
		if r.Baseline.ByTurns {
			cells = []string{name, factor(ch.Ratio), factor(ch.Low), factor(ch.High)}
		}
		t.add(append(cells, fmt.Sprintf("%.3g", ch.P), changeWord(*ch))...)
	}
	t.write(w)
	row(w)
	writeBaseline(w, r.Baseline)
	writeUncertain(w, r.Cases, r.Baseline.Tolerance)
}

// rank sorts the changes that matter first.
func rank(c *benchmarks.Change) int {
	switch {
	case c.Slower:
		return 0
	case c.Significant:
		return 1
	default:
		return 2
	}
}

// changeWord says in words what a change is.
func changeWord(c benchmarks.Change) string {
	switch {
	case c.Slower:
		return "slower"
	case c.Significant && c.Ratio > 1:
		return "faster"
	case c.Significant:
		return "slower, within the tolerance"
	case math.Abs(c.Ratio-1) < 0.005:
		return "the same"
	case c.ByMachine:
		return "the machine's: other code, too"
	default:
		return "not significant"
	}
}

// cases counts cases in words.
func cases(n int) string {
	if n == 1 {
		return "1 case"
	}
	return fmt.Sprintf("%d cases", n)
}

// writeUncertain names the cases whose loss is beyond the tolerance, and may be chance.
func writeUncertain(w io.Writer, list []comparedCase, tolerance float64) {
	var names []string
	for _, c := range list {
		if !c.Change.Significant && !c.Change.ByMachine && c.Change.Ratio*(1+tolerance) < 1 {
			names = append(names, c.Name)
		}
	}
	if len(names) > 0 {
		paragraph(w, fmt.Sprintf("  beyond the tolerance, but perhaps by chance; more rounds or dlx bench --against tell: %s", someNames(names)))
	}
}

// writeBaseline writes what a reader of a comparison should know of the older report.
func writeBaseline(w io.Writer, b *benchmarks.Baseline) {
	how, isNew, isGone := "compared with "+shownName(b.File)+" of "+b.Date.Format(time.RFC3339), "not in the older report", "not in the newer report"
	if b.ByTurns {
		how, isNew, isGone = "measured by turns with "+shownName(b.File), "not measured by the other program", "measured by the other program only"
	}
	paragraph(w, fmt.Sprintf("%s, tolerance %.3g%%", how, 100*b.Tolerance))
	if b.Common != nil {
		paragraph(w, "  OLD/NEW: "+b.Common.String())
	}
	for _, d := range b.Differs {
		paragraph(w, "  differs: "+printable(d))
	}
	for _, list := range []struct {
		what  string
		names []string
	}{{isNew, b.New}, {isGone, b.Gone}} {
		if n := len(list.names); n > 0 {
			are := "are"
			if n == 1 {
				are = "is"
			}
			paragraph(w, fmt.Sprintf("  %s %s %s: %s", cases(n), are, list.what, someNames(list.names)))
		}
	}
}

// someNames writes the first names of a list.
func someNames(list []string) string {
	const most = 5
	names := make([]string, 0, most+1)
	for _, name := range list[:min(len(list), most)] {
		names = append(names, printable(name))
	}
	if len(list) > most {
		names = append(names, "...")
	}
	return strings.Join(names, ", ")
}
