package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/doctor"
)

func init() { documentedRuns = append(documentedRuns, "doctor "+strconv.Itoa(os.Getpid())) }

// startingItself runs the program, which can start itself again, with some backends.
func startingItself(t *testing.T, registry *core.Registry, args ...string) outcome {
	t.Helper()
	t.Setenv(programVariable, "1")
	var stdout, stderr bytes.Buffer
	a := &app{registry: registry, stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, executable: "/proc/self/exe"}
	code := a.run(t.Context(), args)
	return outcome{code, stdout.String(), stderr.String()}
}

// host returns a registry with the host only.
func host(t *testing.T) *core.Registry {
	t.Helper()
	r := new(core.Registry)
	if err := r.Register(cpu.New()); err != nil {
		t.Fatal(err)
	}
	return r
}

// worked fails unless the ways that work everywhere work.
func worked(t *testing.T, r doctorResult) {
	t.Helper()
	left := map[string]bool{"memfd over a socket": true, "memory as mem_fd": true, "descriptor over a socket (SCM_RIGHTS)": true}
	for _, f := range r.Findings {
		if f.Verdict == doctor.Works {
			delete(left, f.Way)
		}
	}
	if len(left) > 0 || !r.HostShared {
		t.Errorf("%v do not work: %+v", left, r)
	}
}

func TestDoctor(t *testing.T) {
	o := startingItself(t, host(t), "doctor", "--json", "--device", "cpu")
	r := decode[doctorResult](t, o, "doctor")
	worked(t, r)
	if r.Mode != "child" || r.This.PID != os.Getpid() {
		t.Errorf("%+v", r)
	}
	o = startingItself(t, host(t), "doctor")
	for _, want := range []string{"WAY", "memfd over a socket", "works", "this process", "other process"} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("no %q in\n%s", want, o.stdout)
		}
	}
	if o := dlx(t, "doctor"); o.code != exitFailed || !strings.Contains(o.stderr, "cannot be started again") {
		t.Errorf("a program that cannot start itself: exit code %d: %s", o.code, o.stderr)
	}
}

// The other process listens; it answers two processes, and ends.
func TestDoctorOfASocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan outcome, 1)
	go func() {
		done <- dlxWith(t, ctx, []core.Backend{cpu.New()}, "doctor", "--listen", socket, "--mode", "0660", "--count", "2")
	}()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if info, err := os.Lstat(socket); err == nil && info.Mode().Perm() == 0o660 {
			break
		}
	}
	for range 2 {
		r := decode[doctorResult](t, dlx(t, "doctor", socket, "--json"), "doctor")
		worked(t, r)
		if r.Mode != "doctor" {
			t.Errorf("%+v", r)
		}
	}
	if o := <-done; o.code != exitOK || o.stdout != "" || strings.Count(o.stderr, "answered a process") != 2 {
		t.Errorf("%+v", o)
	}
}

// Where no memory of the host can be shared, the command fails, and the result has the reasons.
func TestDoctorWithoutAWay(t *testing.T) {
	r := doctorResult{doctor.Result{Findings: []doctor.Finding{
		{Way: "memfd over a socket", Host: true, ZeroCopy: true, Verdict: doctor.Fails, Why: "a filter", Probably: true, Remedy: "permit it"},
		{Way: "memory as opaque_fd", From: "cuda:0", To: "cuda:1", Verdict: doctor.Works},
	}}}
	if r.failure() == nil || r.This.PID != 0 {
		t.Errorf("%+v", r)
	}
	r.HostShared = true
	if err := r.failure(); err != nil {
		t.Error(err)
	}
	var out bytes.Buffer
	if err := (&app{stdout: &out}).showText(r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"probably: a filter", "cuda:0 -> cuda:1", "memfd over a socket: permit it", "no number here"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// The result says how unfinished work is ordered.
func TestDoctorSaysTheOrder(t *testing.T) {
	memory := doctor.Finding{Way: "memory as opaque_fd", From: "cuda:0", ZeroCopy: true, Verdict: doctor.Works}
	here := doctor.Finding{Way: "memory as mem_fd", From: "cpu", ZeroCopy: true, Host: true, Verdict: doctor.Works}
	semaphore := doctor.Finding{Way: "semaphore as opaque_fd", From: "vulkan:0", To: "cuda:0", Verdict: doctor.Works}
	broken := semaphore
	broken.Verdict = doctor.Fails
	for _, c := range []struct {
		findings []doctor.Finding
		want     string
	}{
		{[]doctor.Finding{here}, ""},
		{[]doctor.Finding{memory, broken}, "waits on the host (host_wait), since no device"},
		{[]doctor.Finding{memory, semaphore}, "(semaphore_wait) on cards with a semaphore: vulkan:0 -> cuda:0; otherwise Send waits on the host (host_wait); frames of rings are sent at once"},
	} {
		got := doctorResult{doctor.Result{Findings: c.findings}}.order()
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestDoctorFails(t *testing.T) {
	nobody := filepath.Join(t.TempDir(), "nobody")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"doctor a b", exitUsage, "accepts at most 1 arg"},
		{"doctor a --listen b", exitUsage, "leave one of them out"},
		{"doctor --mode 0660", exitUsage, "without --listen"},
		{"doctor --listen x --mode 9", exitUsage, "must be permissions"},
		{"doctor --listen x --count -1", exitUsage, "at least 0"},
		{"doctor --timeout 0s", exitUsage, "more than 0"},
		{"doctor --device gpu", exitUsage, `"gpu"`},
		{"doctor " + nobody, exitFailed, "start dlx doctor --listen there"},
		{"doctor " + digits, exitFailed, "no connection"},
		{"doctor 4194309", exitFailed, "there is no process 4194309"},
		{"doctor 1 --device cuda:0", exitFailed, "cuda"},
		{"doctor --listen " + digits, exitFailed, "exists"},
	} {
		if o := dlx(t, strings.Fields(c.args)...); o.code != c.code || !strings.Contains(o.stderr, c.says) {
			t.Errorf("%s: exit code %d, want %d, with %q in\n%s", c.args, o.code, c.code, c.says, o.stderr)
		}
	}
}
