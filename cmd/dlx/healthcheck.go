package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/benchmarks/facts"
	"github.com/dlx-go/dlx/benchmarks/health"
	"github.com/dlx-go/dlx/core"
)

// healthResult is the result of `dlx bench healthcheck`.
type healthResult struct {
	Date      time.Time        `json:"date"`
	Passed    int              `json:"passed"`
	Failed    int              `json:"failed"`
	NotJudged int              `json:"not_judged"`
	Findings  []health.Finding `json:"findings"`
}

// notJudgedError is the error where nothing was compared with a limit: neither a success nor a failure of the machine.
type notJudgedError struct{ reason string }

var _ error = notJudgedError{}

// Error says why nothing was judged.
func (e notJudgedError) Error() string { return "nothing was judged: " + e.reason }

// newHealthResult counts the findings.
func newHealthResult(date time.Time, findings []health.Finding) healthResult {
	r := healthResult{Date: date, Findings: findings}
	for _, f := range findings {
		switch f.Verdict {
		case health.Pass:
			r.Passed++
		case health.Fail:
			r.Failed++
		default:
			r.NotJudged++
		}
	}
	return r
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
that are held down, pageable memory, or a better way that was not taken. The exit code is 4
if nothing was judged, such as on a machine without a card: that says nothing of it.

The limits are those of a file, or else 70% of the peak of the bus for large copies between
the host and a device, where the peak is known. Only devices that are there are measured, and
without a file only those that have a bus. --write-limits makes a file from this run, which
may not judge anything:

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
			if f.writeLimits == "" {
				if err := noEffect(cmd.Flags(), "without --write-limits", "margin"); err != nil {
					return err
				}
			}
			return f.check()
		},
		RunE: a.runE(func(cmd *cobra.Command, _ []string) (result, error) { return a.healthcheck(cmd, f) }),
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.names, "case", "t", nil, caseHelp)
	flags.Var((*filled)(&f.limits), "limits", "the `file` of the limits")
	flags.Var((*filled)(&f.writeLimits), "write-limits", "write limits that this run keeps to a `file`")
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
	ctx := cmd.Context()
	devices, err := a.registry.Devices(ctx)
	if err != nil {
		a.log.Warn().Err(err).Msg("not all devices could be listed")
	}
	cases, err := a.healthCases(ctx, f, devices, limits)
	if err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		reason := noBus(devices)
		if limits != nil {
			reason = f.limits + " has no limit for a case of a device that is there"
		}
		return newHealthResult(time.Now().UTC().Truncate(time.Second), []health.Finding{}), notJudgedError{reason}
	}
	report, _, err := a.measure(ctx, cases, f.measureFlags, cmd.Flags(), nil)
	if err != nil {
		return nil, err // a part of the cases says nothing of the machine
	}
	r := newHealthResult(report.Date, health.Check(report, limits))
	if f.writeLimits != "" {
		made := health.Make(report, f.part)
		if len(made.Limits) == 0 {
			return r, core.Errorf(core.ErrInvalid, "bench", "healthcheck", "no limits are written: nothing was measured on a device that is not simulated")
		}
		if err := a.writeLimits(ctx, f.writeLimits, made); err != nil {
			return r, err
		}
	}
	err = r.failure(f.limits)
	if errors.As(err, new(notJudgedError)) && f.writeLimits != "" { // the file was the purpose
		err = nil
	}
	return r, err
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

// healthCases returns the cases of the devices that are there: those that are named, those that limits are for, or else those that
// can be judged without limits.
func (a *app) healthCases(ctx context.Context, f healthFlags, devices []core.Properties, limits *health.Limits) (cases []benchmarks.Case, err error) {
	there := []core.DeviceID{} // not nil, which is all
	hasBus := map[core.DeviceID]bool{core.CPU: true}
	for _, p := range devices {
		there = append(there, p.ID)
		hasBus[p.ID] = !facts.Software(p) && !facts.Simulated(p) || f.simulated && facts.Simulated(p) || f.writeLimits != ""
	}
	all := benchmarks.List(ctx, benchmarks.Selection{Registry: a.registry, Devices: there})
	if len(f.names) > 0 {
		if cases, err = benchmarks.Select(all, f.names...); err != nil {
			return nil, fmt.Errorf("invalid argument for --case: %w; only devices that are there are measured", err)
		}
		return cases, nil
	}
	for _, c := range all {
		if limits != nil && limits.Matches(c.Name) || limits == nil && health.Judged(c) && hasBus[c.From[0]] && hasBus[c.To[0]] {
			cases = append(cases, c)
		}
	}
	return cases, nil
}

// noBus says why no device can be judged without limits.
func noBus(devices []core.Properties) string {
	var others []string
	for _, p := range devices {
		switch {
		case p.ID == core.CPU:
		case facts.Simulated(p):
			others = append(others, p.ID.String()+" is simulated")
		case facts.Software(p):
			others = append(others, p.ID.String()+" computes on the CPU")
		}
	}
	reason := "no device of this machine and build has a bus"
	if len(others) > 0 {
		reason += " (" + strings.Join(others, ", ") + ")"
	}
	return reason + "; --limits takes limits for other cases, and dlx devices says which devices are missing"
}

// failure returns an error that names the cases that are below their limits, or one that says that nothing was judged.
func (r healthResult) failure(limits string) error {
	var bad []string
	for _, f := range r.Findings {
		if f.Verdict == health.Fail {
			bad = append(bad, printable(f.Case))
		}
	}
	switch {
	case len(bad) > 0:
		return fmt.Errorf("below the limits: %s", strings.Join(bad, ", "))
	case r.Passed == 0 && limits != "":
		return notJudgedError{fmt.Sprintf("no limit of %s could be applied to a result", limits)}
	case r.Passed == 0:
		return notJudgedError{"no case has a limit; --limits takes a file of limits, which --write-limits makes"}
	}
	return nil
}

func (r healthResult) writeText(w io.Writer) {
	t := table{least: []int{44, 0, 0, 0, 34}}
	if r.Passed+r.Failed > 0 {
		t.add("CASE", "VERDICT", "MEASURED", "LIMIT", "FROM")
	}
	var unknown reasons
	for _, f := range r.Findings {
		if f.Verdict == health.Unknown {
			unknown.add(printable(strings.Join(f.Reasons, "; ")), f.Case)
			continue
		}
		t.add(printable(f.Case), string(f.Verdict), healthFigure(f.Measured, f.Unit), healthFigure(f.Limit, f.Unit), orDash(f.Source))
		for _, reason := range f.Reasons {
			t.add("  " + printable(reason))
		}
	}
	t.write(w)
	if r.Passed+r.Failed > 0 {
		row(w)
	}
	unknown.write(w, "NOT JUDGED")
	if r.NotJudged > 0 {
		row(w)
	}
	row(w, fmt.Sprintf("%d passed, %d failed, %d not judged", r.Passed, r.Failed, r.NotJudged))
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
