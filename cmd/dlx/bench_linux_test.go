package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlx-go/dlx/benchmarks"
)

func TestWhatWasMeasuredIsKept(t *testing.T) {
	program := buildDLX(t)
	// begin starts a run that does not end by itself, and returns when one case of many is measured.
	begin := func(t *testing.T, path string) (cmd *exec.Cmd, stdout *bytes.Buffer) {
		stdout = new(bytes.Buffer)
		cmd = exec.Command(program, "bench", "-t", "core/", "-t", "memory/", "-t", "stream/", "--max-time", "1h", "--budget", "10m", "-i", "100000", "--rounds", "1", "--json", "--json-file", path)
		cmd.Stdout = stdout
		start(t, cmd)
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(path + partial); err == nil {
				return cmd, stdout
			}
			if time.Now().After(deadline) {
				t.Fatal("it does not begin")
			}
		}
	}
	t.Run("by Ctrl-C", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "r.json")
		cmd, stdout := begin(t, path)
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
			t.Errorf("it ended with %v", err)
		}
		r := decode[benchResult](t, outcome{code: exitFailed, stdout: stdout.String()}, "bench")
		kept, err := readReport(path, "bench")
		if err != nil || !r.Interrupted || !kept.Interrupted || len(kept.Cases) != len(r.Cases) {
			t.Errorf("%v, printed %+v, kept %+v", err, r, kept)
		}
		wantNames(t, filepath.Dir(path), "r.json")
	})
	t.Run("when it is killed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "r.json")
		cmd, _ := begin(t, path)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		wantNames(t, filepath.Dir(path), "r.json.part")
	})
	t.Run("in processes of their own, with the same flags", func(t *testing.T) {
		cmd := exec.CommandContext(t.Context(), program, append(quick, "-t", "core/slice", "-t", "memory/alloc/4KiB", "--rounds", "2", "--slow-down", "core/slice=100000%", "-i", "4", "--json")...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		r := decode[benchResult](t, outcome{stdout: string(out)}, "bench")
		if len(r.Cases) != 2 || r.Cases[0].Status != benchmarks.OK || len(r.Cases[0].Blocks) != 2 || r.Cases[0].Median < 10*r.Cases[1].Median {
			t.Errorf("%+v", r.Cases)
		}
	})
	t.Run("by turns with another program", func(t *testing.T) {
		against := append(quick, "-t", "core/slice", "-t", "memory/alloc/4KiB", "--rounds", "11", "-i", "22", "--against")
		folder := t.TempDir()
		old := filepath.Join(folder, "dlx-old")
		if err := os.Link(program, old); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), program, append(against, old, "--slow-down", "core/slice=100000%", "--json")...).Output()
		if err == nil {
			t.Error("a loss is no failure")
		}
		var failure *errorResult
		r := decodeBoth[benchResult](t, outcome{code: exitFailed, stdout: string(out)}, "bench", &failure)
		if failure == nil || !strings.Contains(failure.Message, "slower than in "+old) || !strings.Contains(failure.Message, "core/slice (") || strings.Contains(failure.Message, "memory/") {
			t.Errorf("%+v", failure)
		}
		if b := r.Baseline; b == nil || b.File != old || !b.ByTurns || len(b.Differs) > 1 || len(r.Cases) != 2 || !r.Cases[0].Change.Slower || r.Cases[0].Change.High > 0.1 || r.Cases[1].Change.Slower {
			t.Errorf("%+v, %+v", b, r.Cases)
		}
		fails := func(name, script, want string) {
			path := filepath.Join(folder, name)
			if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), program, append(against, path)...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
				t.Errorf("%s: %v: %s", name, err, out)
			}
		}
		fails("fails", "exit 7", "exit status 7")
		fails("library", "echo 'no such library' >&2; exit 127", "exit status 127: no such library")
		fails("endless", "exec yes", "endless: signal: broken pipe")
		fails("other", "echo hello", "is not a program of dlx")
		fails("no-bench", `case "$1" in version) exec "`+old+`" version --json;; esac; exit 5`, "could measure none of these cases")
		if out, err := exec.CommandContext(t.Context(), program, append(against, "")...).CombinedOutput(); err == nil || !strings.Contains(string(out), "it is empty") {
			t.Errorf("%v: %s", err, out)
		}
		for _, args := range []string{filepath.Join(folder, "nosuch"), old + " --compare x.json", old + " --rounds 10", old + " -i 10"} {
			if out, err := exec.CommandContext(t.Context(), program, append(against, strings.Fields(args)...)...).CombinedOutput(); err == nil || len(out) == 0 {
				t.Errorf("%s: %v: %s", args, err, out)
			}
		}
	})
	t.Run("a process that measures is not for people", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), program, "bench", "--worker").CombinedOutput()
		if err == nil || !strings.Contains(string(out), "not started by a benchmark") {
			t.Errorf("%v: %s", err, out)
		}
	})
}
