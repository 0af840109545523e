package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core/coretest"
)

// asCommand makes this test binary the command.
const asCommand = "DLX_TEST_FIRST_SESSION"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) == "1" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// load reads a report. It must be complete JSON with a status of each experiment, and a reason for all that is not done.
func load(t *testing.T, path string) report {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	for _, o := range r.Experiments {
		switch {
		case o.Status == Done && len(o.Rows) == 0:
			t.Errorf("%s is done and found nothing", o.Name)
		case o.Status != Done && o.Reason == "":
			t.Errorf("%s is %q and has no reason", o.Name, o.Status)
		}
	}
	return r
}

// watcher checks the report each time that an experiment has ended.
type watcher struct {
	t    *testing.T
	path string
	n    int
}

func (w *watcher) Write(p []byte) (int, error) {
	w.n++
	if r := load(w.t, w.path); len(r.Experiments) != w.n {
		w.t.Errorf("after experiment %d the report has %d", w.n, len(r.Experiments))
	}
	return len(p), nil
}

func TestWhatHangsOrCrashesLosesNothing(t *testing.T) {
	coretest.SkipQuick(t, "it waits for 20 s; TestOnTheSimulator runs sessions, too")
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	const report = `echo '{"row":{"n":1}}' >&3; `
	cases := []struct {
		script, reason string
		status         Status
		rows           int
	}{
		{report + `echo '{"status":"done"}' >&3`, "", Done, 1},
		{`echo '{"status":"skipped","reason":"no card"}' >&3`, "no card", Skipped, 0},
		{report + `echo '{"status":"failed","reason":"cuInit"}' >&3`, "cuInit", Failed, 1},
		{report + `echo 'in a call' >&2; exec sleep 1000`, "not done after 5s: in a call", Killed, 1},
		{report + `printf '{"row":{"n"' >&3; echo 'an assertion' >&2; kill -ABRT $$`, "aborted: an assertion", Crashed, 1},
		{`echo '{"status":"done"}' >&3; exit 7`, "exit status 7", Crashed, 0},
		{report + `exit 0`, "exit status 0", Crashed, 1},
		{`sleep 1000 & ` + report + `echo '{"status":"done"}' >&3; echo "$!" >"$0"`, "", Done, 1},
	}
	path := filepath.Join(t.TempDir(), "report.json")
	orphan := filepath.Join(t.TempDir(), "orphan")
	t.Cleanup(func() {
		if id, err := os.ReadFile(orphan); err == nil {
			_ = exec.Command("kill", strings.TrimSpace(string(id))).Run()
		}
	})
	w := &watcher{t: t, path: path}
	var all []experiment
	for _, c := range cases {
		all = append(all, experiment{name: c.script, limit: time.Minute})
		if c.status == Killed {
			all[len(all)-1].limit = 5 * time.Second
		}
	}
	s := newSession(path, func(x experiment) []string { return []string{sh, "-c", x.name, orphan} }, w)
	s.grace = 8 * time.Second // a busy machine takes long to end a process
	if err := s.run(t.Context(), all, time.Hour); err == nil || !strings.Contains(err.Error(), "5 of 8 experiments") {
		t.Errorf("error %v, want that 5 of 8 experiments failed, crashed or were killed", err)
	}
	r := load(t, path)
	if !r.Complete || len(r.Experiments) != len(cases) || w.n != len(cases) {
		t.Fatalf("complete: %v, with %d experiments, want %d", r.Complete, len(r.Experiments), len(cases))
	}
	for i, o := range r.Experiments {
		c := cases[i]
		if o.Status != c.status || !strings.Contains(o.Reason, c.reason) || len(o.Rows) != c.rows {
			t.Errorf("%s: %q with %d rows, because %q; want %q with %d, because %q", c.script, o.Status, len(o.Rows), o.Reason, c.status, c.rows, c.reason)
		}
	}
}

func TestWhatHasNoTimeIsSkipped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	s := newSession(path, func(experiment) []string { return []string{"/nonexistent"} }, new(strings.Builder))
	if err := s.run(t.Context(), []experiment{{name: "a"}, {name: "b"}}, 0); err != nil {
		t.Error(err)
	}
	for _, o := range load(t, path).Experiments {
		if o.Status != Skipped || !strings.Contains(o.Reason, "no time is left") {
			t.Errorf("%s is %s, because %q", o.Name, o.Status, o.Reason)
		}
	}
}

func TestACommandThatCannotStartIsAFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	s := newSession(path, func(experiment) []string { return []string{"/nonexistent"} }, new(strings.Builder))
	if err := s.run(t.Context(), []experiment{{name: "a", limit: time.Minute}}, time.Hour); err == nil {
		t.Error("no error")
	}
	if o := load(t, path).Experiments[0]; o.Status != Failed || !strings.Contains(o.Reason, "/nonexistent") {
		t.Errorf("%s, because %q", o.Status, o.Reason)
	}
}

func TestWhatAnExperimentReportsArrives(t *testing.T) {
	var sent bytes.Buffer
	r := &reporter{out: json.NewEncoder(&sent)}
	r.row(row{"n": 1})
	r.drives("cuda", "a card", false)
	if r.small {
		t.Error("a card is examined with small sizes")
	}
	r.drives("vulkan", "a processor", true)
	if !r.small {
		t.Error("a simulated device is not examined with small sizes")
	}
	var got inbox
	got.read(&sent)
	o := got.outcome()
	if len(o.Rows) != 1 || string(o.Rows[0]) != `{"n":1}` || !o.Simulated || len(o.Driven) != 2 || o.Driven["vulkan"] != "a processor" {
		t.Errorf("%+v", o)
	}
}

func TestACommandLineThatIsWrong(t *testing.T) {
	for _, args := range [][]string{{}, {"a", "b"}, {"-nonsense", "a"}, {"-experiment", "nonsense", "a"}, {"-child", "nonsense"}} {
		var out strings.Builder
		if code := run(args, &out, &out); code != 2 {
			t.Errorf("%q: exit status %d, want 2: %s", args, code, out.String())
		}
	}
}
