package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/benchmarks"
	"github.com/dlx-go/dlx/core"
)

// benchResult is the result of `dlx bench`.
type benchResult struct {
	Program versionResult `json:"program"`
	benchmarks.Report
	show tableOptions
}

// benchList is the result of `dlx bench --list`.
type benchList struct {
	List []benchCase `json:"list"`
}

// benchCase is a case that can be measured.
type benchCase struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Number      *int   `json:"number,omitempty"` // of nvbandwidth
	Target      string `json:"target,omitempty"`
	Extra       bool   `json:"extra,omitempty"` // measured only if it is asked for
}

// benchFlags are the flags of `dlx bench`.
type benchFlags struct {
	list   bool
	worker bool
	cases  []benchmarks.Case // that the flags select
	selectFlags
	measureFlags
	tableOptions
	tolerance string
	part      float64 // tolerance as a number
	compare   string
	jsonFile  string
	files     benchFiles
	peer      string // the address of dlx serve --bench
	auth      peerFlags
}

// measureFlags say what is measured, and how.
type measureFlags struct {
	samples   int
	rounds    int
	maxTime   time.Duration
	budget    time.Duration
	limit     bool      // the budget was asked for
	begin     time.Time // of the budget
	skip      bool
	simulated bool
	against   string // a program
	slowDown  map[string]string
	metrics   string
}

// defaultBudget is the time for a run that names no cases. Listing devices and starting processes take some seconds more.
const defaultBudget = 36 * time.Second

// The defaults of a run by turns with another program. Few cases have more rounds, as the time allows: the more rounds, the smaller
// the differences that can be told from chance.
const (
	budgetByTurns    = 10 * time.Minute
	roundsByTurns    = 40
	mostByTurns      = 200
	roundsOfAllCases = 4000 // take some six minutes
	samplesOfRound   = 3
	timeOfRound      = 30 * time.Millisecond // of a case, of one program
)

// byTurns sets the defaults of a run by turns with another program. It returns an error if the flags ask for too few rounds.
func (f *benchFlags) byTurns(flags *pflag.FlagSet) error {
	if !flags.Changed("rounds") {
		f.rounds = roundsByTurns
		if !f.isOverview() {
			f.rounds = min(mostByTurns, max(roundsByTurns, roundsOfAllCases/max(1, len(f.cases))))
		}
	}
	if !flags.Changed("samples") {
		f.samples = samplesOfRound * f.rounds
	}
	f.rounds = min(f.rounds, f.samples) // each has a sample
	if !flags.Changed("max-time") {
		f.maxTime = timeOfRound * time.Duration(f.rounds)
	}
	if f.rounds < benchmarks.LeastTurns {
		return fmt.Errorf("--against needs at least %d rounds and as many samples: fewer cannot tell a difference from chance", benchmarks.LeastTurns)
	}
	return nil
}

func newBenchCommand(a *app) *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure transfers between devices, APIs, files and languages",
		Long: `Measure the cases of this build. Each case is measured in turns with its baselines.
Print the speed relative to the baseline, and at the end whether the project's targets are
met. A missed target is not a failure. If a case ends in an error, the report is printed
and the command fails with exit code 1. So does a case whose bytes did not arrive.

Without flags, the cases that give an overview are measured, in less than a minute.
--list shows all cases. Each case is measured in processes of its own, so that a driver
that crashes ends only its case. After an interrupt (Ctrl-C) the report has what was
measured until then.

A machine that others use, too, is slower in one minute than in the next. So the best way
to see whether a change of the source made a case slower is --against, with a program that
was built before the change: both measure each case in 40 rounds, one right after the other.
That takes seven to ten minutes. Up to 20 cases that are named have 200 rounds, which find
smaller differences and take some fifteen seconds for each case.

  CV       the coefficient of variation of the samples; above about 10%, other programs
           have disturbed the measurement
  SPEED    the time of the baseline divided by the time of the case
  GB/S     10^9 bytes copied per second

With --compare and --against, a second table has the verdicts; dlx bench compare explains it.
With --against, FROM and TO are an interval of OLD/NEW with a confidence of 99.9%.

A case that moves a tensor shows the mechanism in parentheses. A case whose device is
missing is "unsupported": such cases are in a table of their own. If that device was named,
nothing is measured, and the exit code is 1. Simulated devices are measured only with
--simulated, and marked. NumPy is measured with the Python interpreter in the
environment variable DLX_PYTHON, or with .venv/bin/python.

With --peer, only transfers to and from dlx serve --bench on another machine are measured, by
package remote: the latency of a Send that comes back, halved; get and put, that is Fetch and Put of
rows; and both at once. The time of a get includes the allocation of its result. What has arrived is
compared: measure from one process at a time, since two overwrite what the other one has put.`,
		Example: `  dlx bench
  dlx bench -t dlpack/ -t call/
  dlx bench -t host_to_device_memcpy_ce --sizes 1K:64M --html report.html
  dlx bench --transfer 'cpu->vulkan:0->opencl:0->cpu'
  dlx bench --json-file before.json
  dlx bench --compare before.json --tolerance 5%   # exit code 1 if a case has become slower
  dlx bench --against ./dlx-old -t copy/           # the same for another build, measured by turns with this one
  dlx bench --peer 10.0.0.7:7470 --token-file token --poll 1ms
  dlx bench healthcheck`,
		Args:    cobra.NoArgs,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return f.check(cmd, a) },
		RunE: a.runE(func(cmd *cobra.Command, _ []string) (result, error) {
			switch {
			case f.peer != "":
				r, err := a.benchPeer(cmd.Context(), f)
				if len(r.Cases) == 0 {
					return nil, err
				}
				return r, err
			case f.worker:
				return nil, a.serveBench(cmd.Context(), f)
			case f.list:
				return listCases(f.cases), a.checkThere(cmd.Context(), f.selectFlags)
			}
			return a.bench(cmd, f)
		}),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.list, "list", "l", false, "list the cases and measure nothing")
	f.register(flags)
	flags.IntVarP(&f.samples, "samples", "i", 30, fmt.Sprintf("number of samples of each case, in all rounds together; with --against %d for each round", samplesOfRound))
	flags.IntVar(&f.rounds, "rounds", 3, "measure the list of cases this often, each time with a part of the samples and in a new process; "+fmt.Sprintf("with --against %d, and up to %d for few cases", roundsByTurns, mostByTurns))
	flags.DurationVar(&f.maxTime, "max-time", 2*time.Second, "measure a case for about this time at most; a slow case gets fewer samples; with --against "+timeOfRound.String()+" for each round")
	flags.DurationVar(&f.budget, "budget", 0, "end after about this time, without the rounds, and then the cases, for which none is left; by default, if no cases, devices or sizes are named, samples are as many as 36s have time for, with --against "+budgetByTurns.String())
	flags.BoolVarP(&f.skip, "skip-verification", "s", false, "do not compare the bytes that arrive with those that were sent")
	flags.BoolVar(&f.simulated, "simulated", false, "measure simulated devices, too, and mark their results")
	metricsFlag(flags, &f.metrics)
	flags.BoolVarP(&f.mean, "mean", "m", false, "show means instead of medians")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "show percentiles, the way of each move, and why no better way was taken")
	flags.Var((*filled)(&f.compare), "compare", "compare with an older report in a `file`, which --json-file or --json wrote")
	flags.Var((*filled)(&f.against), "against", "measure by turns with another `program`, such as an older build of dlx, and compare with that")
	flags.StringVar(&f.tolerance, "tolerance", defaultTolerance, "with --compare or --against: "+toleranceHelp+"; more is a failure")
	flags.Var((*filled)(&f.jsonFile), "json-file", "also write the report as JSON to a `file`, a pipe or a device; what is measured before a crash is in FILE.part")
	flags.Var((*filled)(&f.jsonFile), "out", "the same as --json-file")
	f.files.addFlags(cmd)
	flags.Var((*filled)(&f.peer), "peer", "measure transfers to and from dlx serve --bench at this `address`, HOST:PORT or ucx://HOST:PORT")
	f.auth.addPoll(cmd)
	f.auth.add(cmd)
	flags.StringToStringVar(&f.slowDown, "slow-down", nil, "make a case slower, such as copy/contiguous/1MiB=10%, to test --compare")
	flags.BoolVar(&f.worker, "worker", false, "measure for another process")
	for _, hidden := range []string{"slow-down", "worker"} {
		_ = flags.MarkHidden(hidden) // it fails only for a flag that is not there
	}
	completeFlag(cmd, "case", a.completeCases)
	completeFlag(cmd, "device", a.completeDevices)
	cmd.MarkFlagsMutuallyExclusive("compare", "against")
	cmd.AddCommand(newBenchCompareCommand(a), newHealthcheckCommand(a))
	return cmd
}

// check returns an error if the flags are wrong.
func (f *benchFlags) check(cmd *cobra.Command, a *app) error {
	if f.peer != "" {
		return f.checkPeer(cmd.Flags())
	}
	if err := noEffect(cmd.Flags(), "without --peer", append(f.auth.names(), "poll")...); err != nil {
		return err
	}
	f.begin, f.limit = time.Now(), cmd.Flags().Changed("budget")
	if f.against != "" && a.executable == "" {
		return core.Errorf(core.ErrNotSupported, "bench", "against", "on this system cases are not measured in processes of their own, which both programs need")
	}
	if cmd.Flags().Changed("device") && len(f.devices) == 0 {
		return errors.New("invalid argument \"\" for --device: no device is named")
	}
	if err := f.checkEffects(cmd.Flags()); err != nil {
		return err
	}
	budget := defaultBudget
	if f.against != "" {
		budget = budgetByTurns
	}
	if f.isOverview() && f.budget == 0 {
		f.budget = budget
	}
	if err := f.measureFlags.check(); err != nil {
		return err
	}
	var err error
	if f.part, err = parseTolerance(f.tolerance); err != nil {
		return err
	}
	if err := f.files.check(); err != nil {
		return err
	}
	if f.cases, err = f.selectFlags.list(cmd.Context(), a, f.list || f.worker); err != nil || f.against == "" {
		return err
	}
	return f.byTurns(cmd.Flags())
}

// checkEffects returns an error if a flag has no effect beside the others.
func (f *benchFlags) checkEffects(flags *pflag.FlagSet) error {
	if f.compare == "" && f.against == "" {
		if err := noEffect(flags, "without --compare or --against", "tolerance"); err != nil {
			return err
		}
	}
	if !f.list {
		return nil
	}
	names := []string{"json-file", "out", "html", "plot", "compare", "against", "metrics"}
	for _, file := range f.files.exports.outputs() {
		names = append(names, file.flag)
	}
	return noEffect(flags, "with --list, which measures nothing", names...)
}

func (f *measureFlags) check() error {
	switch {
	case f.samples < 1:
		return fmt.Errorf("invalid argument %d for --samples: must be at least 1", f.samples)
	case f.rounds < 1:
		return fmt.Errorf("invalid argument %d for --rounds: must be at least 1", f.rounds)
	case f.maxTime <= 0:
		return fmt.Errorf("invalid argument %v for --max-time: must be more than 0", f.maxTime)
	case f.budget < 0:
		return fmt.Errorf("invalid argument %v for --budget: must be more than 0", f.budget)
	}
	for name, part := range f.slowDown {
		if p, err := parsePercent(part); err != nil || p <= 0 {
			return fmt.Errorf("invalid argument %q for --slow-down of %q: must be a percentage above 0, such as 10%%", part, name)
		}
	}
	return nil
}

func listCases(cases []benchmarks.Case) benchList {
	r := benchList{List: []benchCase{}}
	for _, c := range cases {
		one := benchCase{Name: c.Name, Description: c.Description, Target: c.Target.String(), Extra: c.Extra}
		if n, ok := c.Number(); ok {
			one.Number = &n
		}
		r.List = append(r.List, one)
	}
	return r
}

// bench measures the cases and writes the report to the files that the flags name. It also returns the report if cases
// failed, the work was interrupted, or the report cannot be written.
func (a *app) bench(cmd *cobra.Command, f benchFlags) (result, error) {
	ctx, command := cmd.Context(), cmd.Name()
	if err := a.checkThere(ctx, f.selectFlags); err != nil {
		return nil, err
	}
	if f.jsonFile != "" {
		if err := a.checkReport(f.jsonFile); err != nil {
			return nil, err
		}
	}
	if err := a.checkBenchFiles(f.files, output{"json-file", f.jsonFile}); err != nil {
		return nil, err
	}
	var old benchResult
	if f.compare != "" {
		var err error
		if old, err = readReport(f.compare, command); err != nil {
			return nil, err
		}
	}
	if f.against != "" {
		var err error
		if old.Program, err = versionOf(ctx, f.against); err != nil {
			return nil, err
		}
	}
	keep, end := a.keepPartial(f.jsonFile)
	if isTerminal(a.stdout) {
		style := styleOf(a.stdout, os.Getenv)
		f.bars = &style
	}
	report, others, err := a.measure(ctx, f.cases, f.measureFlags, cmd.Flags(), keep)
	info, _ := debug.ReadBuildInfo() // nil where a build has none
	r := benchResult{newVersionResult(info, a.registry), report, f.tableOptions}
	errs := []error{err}
	switch {
	case f.compare != "":
		if compareReports(&r, old, f.compare, f.part, r.Compare) == 0 && err == nil {
			errs = append(errs, core.Errorf(core.ErrInvalid, "bench", "compare", "%s has none of these cases", f.compare))
		}
		errs = append(errs, slowerError(r.Report))
	case f.against != "":
		old.Report = others
		if compareReports(&r, old, f.against, f.part, r.CompareByTurns) == 0 && err == nil {
			errs = append(errs, core.Errorf(core.ErrInvalid, "bench", "against", "%s could measure none of these cases", f.against))
		}
		if failures := old.failures(); len(failures) > 0 { // such as cases that the other program does not know
			a.log.Warn().Str("program", f.against).Int("cases", len(failures)).AnErr("first", failures[0]).Msg("the other program could not measure all cases")
		}
		errs = append(errs, slowerError(r.Report))
	}
	if f.jsonFile != "" { // before the text output: a reader that closes it, such as head, ends the program
		// What was measured before an interrupt is kept.
		err := a.writeReport(context.WithoutCancel(ctx), f.jsonFile, command, r)
		end(err == nil)
		errs = append(errs, err)
	}
	errs = append(errs, a.writeBenchFiles(context.WithoutCancel(ctx), f.files, command, r))
	return r, errors.Join(append(errs, r.failures()...)...)
}

// failures returns an error for each case that has failed.
func (r benchResult) failures() (errs []error) {
	for _, c := range r.Cases {
		if c.Status == benchmarks.Failed {
			errs = append(errs, fmt.Errorf("%s: %s", c.Name, c.Reason))
		}
	}
	return errs
}
