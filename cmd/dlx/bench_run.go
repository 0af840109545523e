package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"

	"github.com/dlx-go/dlx/benchmarks"
)

// measure measures cases, in processes of their own, which get the flags args. It calls keep with each result as soon as it
// is there.
func (a *app) measure(ctx context.Context, cases []benchmarks.Case, f measureFlags, args []string, keep func(benchmarks.Result)) (benchmarks.Report, error) {
	opts := f.options(a)
	if f.metrics != "" {
		var all processMetrics
		stop, url, err := serveMetrics(ctx, f.metrics, a.registry, all.read)
		if err != nil {
			return benchmarks.Report{}, err
		}
		defer func() {
			if err := stop(); err != nil {
				a.log.Warn().Err(err).Msg("the server of the metrics failed")
			}
		}()
		a.log.Info().Str("url", url).Msg("metrics")
		opts.WorkerMetrics = all.note
	}
	if a.executable != "" {
		opts.Worker = func(ctx context.Context) *exec.Cmd {
			return exec.CommandContext(ctx, a.executable, slices.Concat([]string{"bench", "--worker"}, args)...)
		}
	}
	progress, done := a.benchProgress(len(cases) * min(f.rounds, f.samples))
	defer done()
	opts.Progress = progress
	opts.Measured = keep
	return benchmarks.Run(ctx, cases, opts)
}

// options are those of this process, and of those that measure for it.
func (f measureFlags) options(a *app) benchmarks.Options {
	opts := benchmarks.Options{
		Registry:         a.registry,
		Python:           benchmarks.FindPython(),
		Samples:          f.samples,
		Rounds:           f.rounds,
		MaxTime:          f.maxTime,
		Budget:           f.budget,
		SkipVerification: f.skip,
		Simulated:        f.simulated,
		SlowDown:         make(map[string]float64, len(f.slowDown)),
	}
	for name, part := range f.slowDown {
		opts.SlowDown[name], _ = parsePercent(part) // check has done so
	}
	return opts
}

// parsePercent parses a part of something, such as "5%" or "0.05".
func parsePercent(s string) (float64, error) {
	number, percent := strings.CutSuffix(s, "%")
	p, err := strconv.ParseFloat(number, 64)
	if err != nil || p != p || p < 0 || p > 1e6 {
		return 0, fmt.Errorf("%q is not a percentage; examples: 5%%, 0.05", s)
	}
	if percent {
		p /= 100
	}
	return p, nil
}

// serveBench measures cases for another process.
func (a *app) serveBench(ctx context.Context, f benchFlags) error {
	out, err := benchmarks.WorkerOutput()
	if err != nil {
		return err
	}
	return benchmarks.Serve(ctx, f.cases, f.options(a), a.stdin, out)
}

// forWorkers are the flags that a process that measures must have, too.
var forWorkers = append([]string{"skip-verification", "simulated", "slow-down"}, selectionFlags...)

// workerArgs returns the flags of the command line that a process that measures must have, too.
func workerArgs(flags *pflag.FlagSet) (args []string) {
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(forWorkers, f.Name) {
			return
		}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			for _, value := range list.GetSlice() {
				args = append(args, "--"+f.Name+"="+value)
			}
			return
		}
		args = append(args, "--"+f.Name+"="+strings.Trim(f.Value.String(), "[]"))
	})
	return args
}

// partial is what a file with incomplete results ends with.
const partial = ".part"

// keepPartial returns a function that writes a result as a line to the file path.part, so that a crash of this process does
// not lose it, and one that closes that file and, if the whole report is at path, removes it. If path is empty, or not a
// place for files, results are not written before the end.
func (a *app) keepPartial(path string) (keep func(benchmarks.Result), end func(whole bool)) {
	nothing := func(bool) {}
	if path == "" || a.output(path) != nil {
		return nil, nothing
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, nothing
	}
	file, err := os.Create(path + partial)
	if err != nil {
		a.log.Warn().Err(err).Msg("results are written at the end only")
		return nil, nothing
	}
	encoder, failed := json.NewEncoder(file), false
	keep = func(r benchmarks.Result) {
		if err := encoder.Encode(r); err != nil && !failed {
			failed = true
			a.log.Warn().Err(err).Msg("incomplete results cannot be kept")
		}
	}
	return keep, func(whole bool) {
		err := file.Close()
		if whole {
			err = os.Remove(file.Name())
		}
		if err != nil {
			a.log.Warn().Err(err).Msg("incomplete results cannot be kept")
		}
	}
}

// benchProgress returns a function that shows the next case, and one that removes the progress
// bar. There is a bar only if standard error is a terminal.
func (a *app) benchProgress(steps int) (next func(benchmarks.Case, int), done func()) {
	if a.log.GetLevel() <= zerolog.DebugLevel || !isTerminal(a.stderr) {
		return func(c benchmarks.Case, _ int) { a.log.Debug().Str("case", c.Name).Msg("measuring") }, func() {}
	}
	bar := progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(a.stderr),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
	)
	return func(c benchmarks.Case, done int) {
		// Ignore errors: they must not stop the work.
		bar.Describe(c.Name)
		_ = bar.Set(done)
	}, func() { _ = bar.Clear() }
}
