//go:build unix

package benchmarks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
		does("good", func() {
			if path := os.Getenv(isWorker + "_ORDER"); path != "" {
				f, _ := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
				fmt.Fprintln(f, os.Getpid())
				_ = f.Close()
			}
		}),
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
	unknown := cases[0]
	unknown.Name = "unknown"
	cases = slices.Insert(cases, 1, unknown)
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
	order := filepath.Join(t.TempDir(), "order")
	t.Setenv(isWorker+"_ORDER", order)
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
	text, err := os.ReadFile(order)
	if err != nil {
		t.Fatal(err)
	}
	for i, pid := range strings.Fields(string(text)) { // own, other, other, own, own, other, ...
		number, _ := strconv.ParseFloat(pid, 64)
		if isOwn := slices.Contains(own.Cases[0].Times, number); isOwn != (i%4 == 0 || i%4 == 3) {
			t.Errorf("turn %d: %v", i, isOwn)
		}
	}
	none := func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "/nonexistent") }
	own, others, err = RunByTurns(t.Context(), cases[:1], opts, none)
	if err != nil || own.Cases[0].Status != OK || others.Cases[0].Status != Failed || own.CompareByTurns(others, 0.05) != 0 || !slices.Equal(own.Baseline.New, []string{"good"}) {
		t.Errorf("%v, %+v, %+v", err, own, others)
	}
}

// A program that is measured by turns with this one may send anything.
func TestAnOddProgramIsTheReason(t *testing.T) {
	sh := func(script string) func(context.Context) *exec.Cmd {
		return func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "sh", "-c", script) }
	}
	answers := func(result string) func(context.Context) *exec.Cmd {
		return sh("while read -r job; do echo '{\"result\": {" + result + "}}' >&3; done")
	}
	opts := Options{Samples: 2, Rounds: 2, MaxTime: time.Millisecond, Worker: startTestWorker}
	for name, c := range map[string]struct {
		program func(context.Context) *exec.Cmd
		reason  string // "" if it is compared
	}{
		"huge":           {answers(`"name": "good", "status": "ok", "times_ns": [100], "fastest_ns": [1e308], "blocks": [1]`), ""},
		"baselines":      {answers(`"name": "good", "status": "ok", "times_ns": [-1], "blocks": [1], "baselines": [{"baseline": "b", "times_ns": [1, 2]}, {}]`), ""},
		"blocks":         {answers(`"name": "good", "status": "ok", "times_ns": [1, 2], "blocks": [7, -5]`), "without samples"},
		"parts":          {answers(`"name": "good", "status": "ok", "times_ns": [1, 2], "blocks": [2], "fastest_ns": [1]`), "without samples"},
		"no samples":     {answers(`"name": "good", "status": "ok"`), "without samples"},
		"another case":   {answers(`"name": "last", "status": "ok", "times_ns": [1], "blocks": [1]`), "for another case"},
		"another status": {answers(`"name": "good", "status": "fine"`), "for another case"},
		"not a result":   {sh("echo hello >&3; sleep 1000"), "not a result: invalid character"},
		"nothing":        {sh("exit 5"), "exit status 5"},
	} {
		own, others, err := RunByTurns(t.Context(), workerCases()[:1], opts, c.program)
		n := own.CompareByTurns(others, 0.05)
		got := others.Cases[0]
		if err != nil || own.Cases[0].Status != OK || !strings.Contains(got.Reason, c.reason) || (got.Status == OK) != (c.reason == "") || c.reason != "" && n != 0 {
			t.Errorf("%s: %v, %d compared, %s %q", name, err, n, got.Status, got.Reason)
		}
		if c.reason != "" && len(own.Cases[0].Blocks) != 1 {
			t.Errorf("%s: measured %d times, though there is nothing to compare with", name, len(own.Cases[0].Blocks))
		}
		if _, err := json.Marshal(own); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAProgramThatOnlyHangsIsGivenUp(t *testing.T) {
	started := 0
	w := &workers{hangs: 10 * time.Millisecond, start: func(ctx context.Context) *exec.Cmd {
		started++
		return exec.CommandContext(ctx, "sleep", "3600")
	}}
	defer w.close()
	for i, c := range workerCases() {
		want := "more than 10ms"
		if i >= mostHangs {
			want = "not tried"
		}
		if r := w.measure(t.Context(), c, block{Samples: 1}); r.Status != Failed || !strings.Contains(r.Reason, want) {
			t.Errorf("%s: %+v", c.Name, r)
		}
	}
	if started != mostHangs {
		t.Errorf("%d processes were started", started)
	}
}

// A process that hangs may have started others, which hold what it writes to.
func TestAnInterruptEndsAllProcesses(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancel(t.Context())
	hangs := func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, "sh", "-c", "sleep 1000 & echo $! >"+pids+"; wait")
	}
	go func() {
		for text := []byte(nil); len(text) == 0; time.Sleep(time.Millisecond) {
			text, _ = os.ReadFile(pids)
		}
		cancel()
	}()
	_, err := Run(ctx, workerCases()[:1], Options{Samples: 1, MaxTime: time.Millisecond, Worker: hangs})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	text, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 { // nobody waits for it, so that it may stay a zombie, which is not running
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil && syscall.Kill(pid, 0) != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("the process %d still runs", pid)
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
