//go:build unix

package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

func init() {
	serveTestCases = func() error {
		out, err := WorkerOutput()
		if err != nil {
			return err
		}
		return Serve(context.Background(), workerCases(), Options{Registry: new(core.Registry)}, os.Stdin, out)
	}
}

// workerCases are what a process of these tests can measure.
func workerCases() []Case {
	does := func(name string, f func()) Case {
		return Case{Name: name, setup: func(*env) (trial, error) {
			f()
			return trial{own: fixed(time.Duration(os.Getpid()))}, nil
		}}
	}
	return []Case{
		does("good", func() {}),
		does("prints", func() { fmt.Println("a driver says hello"); fmt.Fprintln(os.Stderr, "and warns") }),
		does("exits", func() { os.Exit(3) }),
		does("panics", func() { panic("something is odd") }),
		does("crashes", func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSEGV); time.Sleep(time.Hour) }),
		does("killed", func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }),
		does("sleeps", func() { time.Sleep(time.Hour) }),
		does("last", func() {}),
	}
}

func startTestWorker(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), isWorker+"=1")
	return cmd
}

func TestACrashLosesOneCase(t *testing.T) {
	cases := slices.DeleteFunc(workerCases(), func(c Case) bool { return c.Name == "sleeps" })
	cases = slices.Insert(cases, 1, Case{Name: "unknown"})
	r, err := Run(t.Context(), cases, Options{Samples: 4, Rounds: 2, MaxTime: time.Millisecond, Worker: startTestWorker})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"good": "", "prints": "", "last": "",
		"unknown": "does not know the case",
		"exits":   "exit status 3", "panics": "panic: something is odd", "crashes": "SIGSEGV", "killed": "signal: killed",
	}
	for _, c := range r.Cases {
		reason := want[c.Name]
		if reason == "" && (c.Status != OK || len(c.Times) != 4 || c.Times[0] == c.Times[3]) {
			t.Errorf("%+v", c) // the two rounds are measured by two processes
		}
		if reason != "" && (c.Status != Failed || !strings.Contains(c.Reason, reason)) {
			t.Errorf("%s: %s %q, want %q", c.Name, c.Status, c.Reason, reason)
		}
	}
	if len(r.Cases) != len(cases) {
		t.Errorf("%d results", len(r.Cases))
	}
}

func TestTwoProgramsAreMeasuredByTurns(t *testing.T) {
	cases := slices.DeleteFunc(workerCases(), func(c Case) bool { return c.Name == "sleeps" || c.Name == "crashes" })
	const rounds = 4
	measured := make(map[string]int)
	opts := Options{Samples: 2 * rounds, Rounds: rounds, MaxTime: time.Millisecond, Worker: startTestWorker, Measured: func(r Result) { measured[r.Name]++ }}
	own, others, err := RunByTurns(t.Context(), cases, opts, startTestWorker)
	if err != nil {
		t.Fatal(err)
	}
	if len(own.Cases) != len(cases) || len(others.Cases) != len(cases) {
		t.Fatalf("%d and %d results", len(own.Cases), len(others.Cases))
	}
	for i, c := range own.Cases {
		o := others.Cases[i]
		if c.Name != o.Name || c.Status != o.Status {
			t.Errorf("%+v, the other %+v", c, o)
		}
		if c.Status != OK {
			continue
		}
		if len(c.Blocks) != rounds || len(o.Blocks) != rounds || measured[c.Name] != rounds {
			t.Errorf("%s: blocks %v and %v, %d results of its own", c.Name, c.Blocks, o.Blocks, measured[c.Name])
		}
		for _, time := range o.Times { // a time is the number of a process
			if slices.Contains(c.Times, time) {
				t.Errorf("%s: a process measured for both programs", c.Name)
			}
		}
	}
	odd := func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", `while read -r job; do echo '`+
			`{"result": {"name": "good", "status": "ok", "times_ns": [-1, 1e308], "blocks": [7, -7], "fastest_ns": [1], "reference_ns": [], "baselines": [{"baseline": "b", "times_ns": [1]}, {}]}}`+
			`' >&3; done`)
	}
	own, others, err = RunByTurns(t.Context(), cases[:1], opts, odd)
	if own.CompareByTurns(others, 0.05); err != nil || own.Cases[0].Status != OK || own.Cases[0].Change != nil && own.Cases[0].Change.Significant {
		t.Errorf("%v, %+v, %+v", err, own, others)
	}
	none := func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "/nonexistent") }
	own, others, err = RunByTurns(t.Context(), cases[:1], opts, none)
	if err != nil || own.Cases[0].Status != OK || others.Cases[0].Status != Failed || own.CompareByTurns(others, 0.05) != 0 || !slices.Equal(own.Baseline.New, []string{"good"}) {
		t.Errorf("%v, %+v, %+v", err, own, others)
	}
}

func TestAnInterruptEndsTheProcessThatMeasures(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cases := slices.DeleteFunc(workerCases(), func(c Case) bool { return c.Name != "good" && c.Name != "sleeps" })
	r, err := Run(ctx, cases, Options{Samples: 2, MaxTime: time.Millisecond, Worker: startTestWorker, Progress: func(c Case, done int) {
		if c.Name == "sleeps" {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
	}})
	if !errors.Is(err, context.Canceled) || !r.Interrupted || len(r.Cases) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestAWorkerThatCannotBeStartedIsTheReason(t *testing.T) {
	start := func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "/nonexistent") }
	r, err := Run(t.Context(), workerCases()[:1], Options{Samples: 2, MaxTime: time.Millisecond, Worker: start})
	if got := r.Cases[0]; err != nil || got.Status != Failed || !strings.Contains(got.Reason, "could not be started") {
		t.Errorf("%+v, %v", got, err)
	}
}
