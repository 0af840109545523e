package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/strictjson"
)

// measure measures cases, in processes of their own, which get those of the flags that they need. It calls keep with each result as
// soon as it is there. Others is the report of the program that f.against names.
func (a *app) measure(ctx context.Context, cases []benchmarks.Case, f measureFlags, flags *pflag.FlagSet, keep func(benchmarks.Result)) (own, others benchmarks.Report, err error) {
	opts := f.options(a)
	if f.metrics != "" {
		var all processMetrics
		stop, url, err := serveMetrics(ctx, f.metrics, a.registry, all.read)
		if err != nil {
			return own, others, err
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
		opts.Worker = workerOf(a.executable, flags, "slow-down")
	}
	progress, done := a.benchProgress(len(cases) * min(f.rounds, f.samples))
	defer done()
	opts.Progress = progress
	opts.Measured = keep
	opts.TooLong = func(least time.Duration) {
		a.log.Warn().Dur("budget", f.budget).Str("least", least.Round(time.Second).String()).
			Msgf("the run takes longer than its budget: fewer than %d rounds cannot tell a difference from chance", benchmarks.LeastTurns)
	}
	if f.against == "" {
		own, err = benchmarks.Run(ctx, cases, opts)
		return own, others, err
	}
	return benchmarks.RunByTurns(ctx, cases, opts, workerOf(f.against, flags))
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
		Limit:            f.limit,
		Begin:            f.begin,
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

// forWorkers are the flags that each process that measures must have, too.
var forWorkers = append([]string{"skip-verification", "simulated"}, selectionFlags...)

// workerOf returns a function that starts a process of a program that measures. It gets those flags of the command line that are
// forWorkers, or also named.
func workerOf(program string, flags *pflag.FlagSet, also ...string) func(context.Context) *exec.Cmd {
	args := append([]string{"bench", "--worker"}, workerArgs(flags, append(also, forWorkers...))...)
	return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, program, args...) }
}

// workerArgs returns those flags of the command line that are named.
func workerArgs(flags *pflag.FlagSet, names []string) (args []string) {
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
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

// versionOf asks another program of dlx for its version. It may be any program.
func versionOf(ctx context.Context, program string) (v versionResult, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("it does not tell its version within 30 s"))
	defer cancel()
	var out, text short
	cmd := exec.CommandContext(ctx, program, "version", "--json")
	cmd.Stdout, cmd.Stderr = &out, &text
	cmd.WaitDelay = time.Second // processes that it has started may hold its output
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if line := bytes.TrimSpace(text.text); len(line) > 0 {
			err = fmt.Errorf("%w: %s", err, printable(string(line[bytes.LastIndexByte(line, '\n')+1:])))
		}
		return v, fmt.Errorf("%s: %w", program, err)
	}
	d := document{Result: &v}
	if err := strictjson.Unmarshal(out.text, &d); err != nil || d.Schema != schema || d.Command != "version" {
		return v, core.Errorf(core.ErrVersion, "bench", "against", "%s is not a program of dlx with results of schema %q", program, schema)
	}
	return v, nil
}

// short keeps what a program prints, and fails if it is far too much.
type short struct{ text []byte }

func (s *short) Write(p []byte) (int, error) {
	if len(s.text)+len(p) > 1<<20 {
		return 0, errors.New("it prints more than 1 MiB")
	}
	s.text = append(s.text, p...)
	return len(p), nil
}
