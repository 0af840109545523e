package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/dlx-go/dlx/core/coretest"
)

// TestTheRealProgram is about what only a process shows: signals, pipes, terminals.
func TestTheRealProgram(t *testing.T) {
	program := buildDLX(t)

	t.Run("moves a real tensor", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), program, "move", digits, "--via", "cpu,cpu", "--copy", "always", "--verify", "--json").Output()
		if err != nil {
			t.Fatal(err)
		}
		if r := decode[moveResult](t, outcome{stdout: string(out)}, "move"); !*r.Verified || r.BytesCopied != 2*920064 {
			t.Errorf("%+v", r)
		}
	})

	t.Run("ends quietly when nobody reads its results", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		defer w.Close()
		var stderr bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, "inspect", tensors)
		cmd.Stdout, cmd.Stderr = w, &stderr
		if err := cmd.Run(); err == nil {
			t.Error("it claims success")
		}
		if stderr.Len() > 0 {
			t.Errorf("stderr: %s", stderr.String())
		}
	})

	t.Run("draws progress on a terminal and keeps it out of the results", func(t *testing.T) {
		screen, tty := openTerminal(t)
		var stdout bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, "move", digits, "--via", "cpu", "--copy", "always", "--repeat", "1000", "--json")
		cmd.Stdout, cmd.Stderr = &stdout, tty
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, screen)
		}
		screen.waitFor(t, "moved")
		decode[moveResult](t, outcome{stdout: stdout.String()}, "move")
	})

	t.Run("names the case that it measures on a terminal", func(t *testing.T) {
		screen, tty := openTerminal(t)
		var stdout bytes.Buffer
		cmd := exec.CommandContext(t.Context(), program, append(quick, "-t", "core/slice", "--json")...)
		cmd.Stdout, cmd.Stderr = &stdout, tty
		if err := cmd.Run(); err != nil {
			t.Fatalf("%v: %s", err, screen)
		}
		screen.waitFor(t, "core/slice")
		decode[benchResult](t, outcome{stdout: stdout.String()}, "bench")
	})

	t.Run("ends with 1 on Ctrl-C", func(t *testing.T) {
		screen, tty := openTerminal(t)
		cmd := exec.Command(program, "move", digits, "--via", "cpu", "--copy", "always", "--repeat", "1000000")
		cmd.Stderr = tty
		start(t, cmd)
		screen.waitFor(t, "moved") // it is at work
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
			t.Errorf("it ended with %v", err)
		}
		screen.waitFor(t, "interrupted")
	})
}

// built is the program once it was linked, which takes seconds.
var built []byte

// buildDLX builds the program with no backend but the CPU's. The tests that run it use only the host, and each of its
// processes, of which some tests start many, would load every driver.
func buildDLX(t *testing.T) string {
	t.Helper()
	coretest.BuildsProgram(t)
	program := filepath.Join(t.TempDir(), "dlx")
	if built == nil {
		if out, err := exec.CommandContext(t.Context(), "go", "build", "-tags=", "-o", program, ".").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		var err error
		if built, err = os.ReadFile(program); err != nil {
			t.Fatal(err)
		}
	} else if err := os.WriteFile(program, built, 0o700); err != nil {
		t.Fatal(err)
	}
	return program
}

// start starts a process that is gone when the test is, however that ends.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that times out has no cleanup
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has ended by now, or the test has failed
		_ = cmd.Wait()
	})
}

// screen is what was written to a pseudo terminal.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// waitFor waits until some text is on the screen.
func (s *screen) waitFor(t *testing.T, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(s.String(), text); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no %q on the terminal, but %q", text, s)
		}
	}
}

// openTerminal opens a pseudo terminal for a process to write to.
func openTerminal(t *testing.T) (*screen, *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := new(screen)
	read := make(chan struct{})
	go func() {
		defer close(read)
		buffer := make([]byte, 4096)
		for {
			n, err := master.Read(buffer)
			if err != nil {
				return // the last writer has closed the terminal
			}
			_, _ = s.Write(buffer[:n])
		}
	}()
	t.Cleanup(func() {
		tty.Close()
		<-read
		master.Close()
	})
	return s, tty
}
