package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
)

// The second process of a pair is started with pairFlag, and with pairVariable, by which a test binary knows it.
const (
	pairFlag     = "-second-process-of-a-pair"
	pairVariable = "DLX_PEERS_PAIR"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, all.New(), os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the flags of the command.
type options struct {
	peer, out, table, python, convert string
	rounds                            int
	length                            time.Duration
	short, render                     bool
}

func run(ctx context.Context, registry *core.Registry, args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && args[0] == pairFlag {
		return serveOther(ctx, &bench{registry: registry}, stderr)
	}
	if len(args) == 2 && args[0] == remoteFlag {
		return serveRemote(ctx, registry, args[1], os.Stdin, stdout, stderr)
	}
	machine := thisMachine()
	var o options
	flags := flag.NewFlagSet("peers", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.peer, "peer", "", "the peers to measure, as a list with commas; all but remote by default. Results of remote alone have files of their own")
	flags.StringVar(&o.out, "out", "benchmarks/results/peers-"+machineName(machine)+".json", "the file with the results; those of other peers on this machine stay in it")
	flags.StringVar(&o.table, "table", "benchmarks/lab/peers.md", "the file for the table; with -peer remote benchmarks/lab/remote.md")
	flags.StringVar(&o.python, "python", ".venv-peers/bin/python", "the Python that has the peers of Python")
	flags.IntVar(&o.rounds, "rounds", 15, "samples of each series")
	flags.DurationVar(&o.length, "sample", 20*time.Millisecond, "how long a sample is")
	flags.BoolVar(&o.short, "short", false, "take few and short samples, and mark the results")
	flags.BoolVar(&o.render, "render", false, "measure nothing, and write the table of the results that are there")
	flags.StringVar(&o.convert, "convert-nvbandwidth", "", "measure nothing, and make results of this file, which nvbandwidth -j -b 64 has printed")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "peers: %q is not understood: peers are named by -peer\n", flags.Arg(0))
		return 2
	}
	if o.short {
		o.rounds, o.length = 3, 5*time.Millisecond
	}
	if o.peer == remotePeer { // its figures and those of the others need not be of the same machine
		named := map[string]bool{}
		flags.Visit(func(f *flag.Flag) { named[f.Name] = true })
		if !named["out"] {
			o.out = "benchmarks/results/peers-remote-" + machineName(machine) + ".json"
		}
		if !named["table"] {
			o.table = "benchmarks/lab/remote.md"
		}
	}
	chosen, err := choose(o.peer)
	if err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		return 2
	}
	var report Report
	var failed int
	switch {
	case o.render:
		report, err = readReport(o.out)
	case o.convert != "":
		report, err = o.convertNVBandwidth(machine)
	default:
		report, failed, err = o.measure(ctx, registry, machine, chosen, stdout, stderr)
	}
	if err == nil && o.table != "" {
		err = replace(o.table, []byte(table(report, filepath.Base(o.out))))
	}
	if err != nil {
		fmt.Fprintln(stderr, "peers:", err)
		return 1
	}
	if failed > 0 {
		return 1 // each was told
	}
	return 0
}

// measure runs the adapters, and counts the rows that failed. The results are written after each adapter, so that a crash of
// another one does not lose them.
func (o options) measure(ctx context.Context, registry *core.Registry, machine Machine, chosen []peer, stdout, stderr io.Writer) (report Report, failed int, err error) {
	if report, err = readOrStart(o.out, machine); err != nil {
		return report, 0, err
	}
	b := &bench{registry: registry, python: o.python, rounds: o.rounds, length: o.length, log: stderr}
	before, known := loadNow() // the load of the peers themselves does not count
	quiet := isQuiet(before, known, machine.CPUs)
	for _, p := range chosen {
		started := time.Now()
		s := o.section(p, quiet)
		s.Rows = p.run(ctx, b)
		if err := ctx.Err(); err != nil { // rows of an interrupted run would be errors
			return report, failed, err
		}
		s.Load[1], _ = loadNow()
		report.put(s)
		if err := report.write(o.out); err != nil {
			return report, failed, err
		}
		without := 0
		for _, row := range s.Rows {
			if row.Status != OK {
				without++
			}
			if row.Status == Failed {
				failed++
				fmt.Fprintf(stderr, "peers: %s, %s: %s\n", row.Peer, row.Case, row.Reason)
			}
		}
		fmt.Fprintf(stdout, "%-12s %2d rows, %2d of them without a figure of the peer, in %.1f s\n", p.name, len(s.Rows), without, time.Since(started).Seconds())
	}
	return report, failed, report.check()
}

func (o options) section(p peer, quiet bool) Section {
	s := Section{
		Peer: p.name, Title: p.title, Date: time.Now().UTC().Truncate(time.Second), Revision: revision(),
		Quiet: quiet, Short: o.short, Rounds: o.rounds,
	}
	s.Load[0], _ = loadNow()
	if p.before {
		s.Quiet, s.Short, s.Rounds = true, false, 0 // the rows say what is known
	}
	return s
}

// convertNVBandwidth makes a report of what nvbandwidth printed elsewhere.
func (o options) convertNVBandwidth(machine Machine) (Report, error) {
	text, err := os.ReadFile(o.convert)
	if err != nil {
		return Report{}, err
	}
	rows, err := parseNVBandwidth(text, nvMiB<<20)
	if err != nil {
		return Report{}, fmt.Errorf("%s: %w", o.convert, err)
	}
	chosen, err := choose("nvbandwidth")
	if err != nil {
		return Report{}, err
	}
	load, known := loadNow()
	s := o.section(chosen[0], isQuiet(load, known, machine.CPUs))
	s.Rows, s.Rounds = rows, 1
	report := Report{Schema: schema, Machine: machine}
	report.put(s)
	return report, report.write(o.out)
}
