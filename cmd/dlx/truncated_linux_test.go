package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A file that is truncated while it is in use is a failure of the work, whichever
// part of the program reads it.
func TestAFileThatIsTruncatedMeanwhileIsAFailure(t *testing.T) {
	program := buildDLX(t)
	for _, c := range []struct {
		name        string
		columnMajor bool
		flags       []string
	}{
		{"copied", false, []string{"--copy", "always"}},
		{"gathered", true, []string{"--verify"}},
		{"copied and compared", false, []string{"--copy", "always", "--verify"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "big.npy")
			large(t, path, c.columnMajor)
			var stdout, stderr bytes.Buffer
			cmd := exec.Command(program, append([]string{"move", path, "--via", "cpu", "--repeat", "1000000"}, c.flags...)...)
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			start(t, cmd)
			maps := fmt.Sprintf("/proc/%d/maps", cmd.Process.Pid)
			for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
				if content, err := os.ReadFile(maps); err == nil && strings.Contains(string(content), path) {
					break
				}
				if time.Now().After(deadline) {
					t.Fatal("it does not map the file")
				}
			}
			time.Sleep(20 * time.Millisecond) // the header is read
			if err := os.Truncate(path, 1<<20); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed ||
				!strings.Contains(stderr.String(), "truncated") || strings.Contains(stderr.String(), "goroutine") {
				t.Errorf("it ended with %v: %.500s", err, stderr.String())
			}
		})
	}
}
