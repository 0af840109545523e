package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/health"
	"github.com/dlx-go/dlx/core"
)

// healthResult is the result of `dlx bench healthcheck`.
type healthResult struct {
	Date     time.Time        `json:"date"`
	Findings []health.Finding `json:"findings"`
}

// healthFlags are the flags of `dlx bench healthcheck`.
type healthFlags struct {
	names       []string
	limits      string
	writeLimits string
	margin      string
	part        float64 // margin as a number
	measureFlags
}

func newHealthcheckCommand(a *app) *cobra.Command {
	var f healthFlags
	cmd := &cobra.Command{
		Use:   "healthcheck",
		Short: "Measure some cases and compare them with what is expected",
		Long: `Measure some cases and compare each with its limits. The exit code is 1 if one is below.
For these, the likely reasons are shown: a link that is narrower than it can be, clocks
that are held down, pageable memory, or a better way that was not taken.

The limits are those of a file, or else 70% of the peak of the bus for large copies between
the host and a device, where the peak is known. --write-limits makes a file from this run:

  {"schema": "dlx-limits/1", "limits": [
    {"case": "host_to_device*", "min_gb_per_s": 20},
    {"case": "call/*", "max_ns": 100}]}

A case is a name or a pattern with * and ?. Results of simulated devices are never judged.`,
		Example: `  dlx bench healthcheck
  dlx bench healthcheck -t copy/ --write-limits limits.json --margin 20%
  dlx bench healthcheck --limits limits.json`,
		Args: cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			f.begin, f.limit = time.Now(), cmd.Flags().Changed("budget")
			if f.part, err = parsePercent(f.margin); err != nil || f.part >= 1 {
				return fmt.Errorf("invalid argument %q for --margin: must be a percentage below 100%%", f.margin)
			}
			return f.check()
		},
		RunE: a.runE(func(cmd *cobra.Command, _ []string) (result, error) { return a.healthcheck(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.names, "case", "t", nil, caseHelp)
	flags.StringVar(&f.limits, "limits", "", "the `file` of the limits")
	flags.StringVar(&f.writeLimits, "write-limits", "", "write limits that this run keeps to a `file`")
	flags.StringVar(&f.margin, "margin", "20%", "with --write-limits: how much worse a result may be, as a `part`")
	flags.IntVarP(&f.samples, "samples", "i", 10, "number of samples of each case")
	flags.DurationVar(&f.maxTime, "max-time", time.Second, "measure a case for about this time at most")
	flags.DurationVar(&f.budget, "budget", 45*time.Second, "measure all cases for about this time; if it is given, it ends after that, without the cases for which no time is left")
	flags.BoolVarP(&f.skip, "skip-verification", "s", false, "do not compare the bytes that arrive with those that were sent")
	flags.BoolVar(&f.simulated, "simulated", false, "measure simulated devices, too; they are never judged")
	f.rounds = 1
	completeFlag(cmd, "case", a.completeCases)
	return cmd
}

// healthcheck measures the cases and judges them.
func (a *app) healthcheck(cmd *cobra.Command, f healthFlags) (result, error) {
	limits, err := readLimits(f.limits)
	if err != nil {
		return nil, err
	}
	if f.writeLimits != "" {
		if err := a.checkReport(f.writeLimits); err != nil {
			return nil, err
		}
	}
	cases, err := a.healthCases(cmd.Context(), f.names, limits)
	if err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		return nil, core.Errorf(core.ErrNotSupported, "bench", "healthcheck", "no case of this build fits: name cases with -t; dlx bench --list shows them")
	}
	ctx := cmd.Context()
	report, _, err := a.measure(ctx, cases, f.measureFlags, cmd.Flags(), nil)
	if err != nil {
		return nil, err // a part of the cases says nothing of the machine
	}
	r := healthResult{Date: report.Date, Findings: health.Check(report, limits)}
	if f.writeLimits != "" {
		made := health.Make(report, f.part)
		if len(made.Limits) == 0 {
			return r, core.Errorf(core.ErrInvalid, "bench", "healthcheck", "no limits are written: nothing was measured on a device that is not simulated")
		}
		if err := a.writeLimits(ctx, f.writeLimits, made); err != nil {
			return r, err
		}
	}
	return r, r.failure(f.limits)
}

// readLimits reads a file of limits; nil if path is empty.
func readLimits(path string) (*health.Limits, error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return health.Read(file, path)
}

func (a *app) writeLimits(ctx context.Context, path string, l health.Limits) error {
	return a.writeFile(ctx, path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(l)
	})
}

// healthCases returns the cases that are named, those that limits are for, or else those that can be judged without limits.
func (a *app) healthCases(ctx context.Context, names []string, limits *health.Limits) (cases []benchmarks.Case, err error) {
	all := benchmarks.List(ctx, benchmarks.Selection{Registry: a.registry})
	if len(names) > 0 {
		return benchmarks.Select(all, names...)
	}
	for _, c := range all {
		if limits != nil && limits.Matches(c.Name) || limits == nil && health.Judged(c) {
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// failure returns an error that names the cases that are below their limits, and one if no limit of a file could be applied.
func (r healthResult) failure(limits string) error {
	var bad []string
	judged := false
	for _, f := range r.Findings {
		judged = judged || f.Verdict != health.Unknown
		if f.Verdict == health.Fail {
			bad = append(bad, printable(f.Case))
		}
	}
	switch {
	case len(bad) > 0:
		return fmt.Errorf("below the limits: %s", strings.Join(bad, ", "))
	case !judged && limits != "":
		return core.Errorf(core.ErrInvalid, "bench", "healthcheck", "no limit of %s could be applied to a result", limits)
	}
	return nil
}

func (r healthResult) writeText(w io.Writer) {
	row(w, "CASE", "VERDICT", "MEASURED", "LIMIT", "FROM")
	for _, f := range r.Findings {
		row(w, printable(f.Case), string(f.Verdict), healthFigure(f.Measured, f.Unit), healthFigure(f.Limit, f.Unit), orDash(f.Source))
		for _, reason := range f.Reasons {
			row(w, "  "+printable(reason))
		}
	}
}

// healthFigure writes a bandwidth or a time.
func healthFigure(x float64, unit string) string {
	switch unit {
	case "":
		return "-"
	case "ns":
		return formatNanoseconds(x)
	default:
		return fmt.Sprintf("%.2f %s", x, unit)
	}
}
