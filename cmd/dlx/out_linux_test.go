package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// wantNames fails the test unless a folder holds exactly these names, which are sorted.
func wantNames(t *testing.T, folder string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, e := range entries {
		found = append(found, e.Name())
	}
	if strings.Join(found, "|") != strings.Join(names, "|") {
		t.Errorf("the folder holds %q, want %q", found, names)
	}
}

// writers are the commands that write a file, without its path.
var writers = map[string][]string{
	"r.json": append(quick, "-t", "core/slice", "--out"),
	"r.npz":  {"move", archive, "--via", "cpu", "--out"},
}

func TestAPathThatCannotBeWrittenIsFoundBeforeTheWork(t *testing.T) {
	for name, command := range writers {
		for _, c := range []struct{ path, want string }{
			{filepath.Join(t.TempDir(), "missing", name), "no such file"},
			{t.TempDir(), "is a directory"},
			{filepath.Join(t.TempDir(), strings.Repeat("n", 255)+name), "name too long"},
		} {
			if filepath.Ext(c.path) == "" && command[0] == "move" {
				c.path = filepath.Join(c.path, name)
				if err := os.Mkdir(c.path, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			command := slices.Concat(command, []string{c.path})
			if command[0] == "move" {
				command[1] = "missing.npz" // which would be found first otherwise
			}
			o := dlx(t, append(command, "--log-level", "debug")...)
			if o.code != exitFailed || o.stdout != "" || !strings.Contains(o.stderr, c.want) || strings.Contains(o.stderr, "measuring") {
				t.Errorf("%s: %+v", c.path, o)
			}
		}
	}
}

func TestAReplacedFileKeepsItsPermissions(t *testing.T) {
	for name, command := range writers {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		if o := dlx(t, slices.Concat(command, []string{path})...); o.code != exitOK {
			t.Fatalf("%s: %+v", name, o)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 || info.Size() == int64(len("secret")) {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

func TestAReportGoesToAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no pipes here: %v", err)
	}
	read := make(chan string)
	go func() {
		file, err := os.Open(path)
		if err != nil {
			t.Error(err)
		}
		defer file.Close()
		text, err := io.ReadAll(file)
		if err != nil {
			t.Error(err)
		}
		read <- string(text)
	}()
	o := dlx(t, append(quick, "-t", "core/slice", "--json", "--out", path)...)
	if got := <-read; o.code != exitOK || got != o.stdout {
		t.Errorf("the pipe got %q; %+v", got, o)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		t.Errorf("the pipe has become %v, %v", info.Mode(), err)
	}
}

// A report that goes where the results go, too, does not replace the file that they are in.
func TestAReportGoesToAnOutputThatIsOpen(t *testing.T) {
	program := buildDLX(t)
	for _, c := range []struct{ name, redirected string }{
		{"standard output by its device", `exec "$@" --out /dev/stdout >r.json`},
		{"standard output by its name", `exec "$@" --out r.json >r.json`},
		{"standard output by its descriptor, appended", `echo before >r.json; exec "$@" --out /proc/self/fd/1 >>r.json`},
		{"standard error", `exec "$@" --out /dev/stderr 2>r.json >&2`},
		{"another descriptor", `exec "$@" --out /dev/fd/3 3>r.json`},
		{"a pipe", `"$@" --out /dev/stdout | cat >r.json`},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			command := exec.CommandContext(t.Context(), "sh", slices.Concat([]string{"-c", c.redirected, "sh", program}, quick, []string{"-t", "core/slice"})...)
			command.Dir = folder
			printed, err := command.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, printed)
			}
			content, err := os.ReadFile(filepath.Join(folder, "r.json"))
			if err != nil {
				t.Fatal(err)
			}
			text := strings.TrimPrefix(string(content), "before\n")
			end := strings.Index(text, "\n}\n") + len("\n}\n")
			decode[benchResult](t, outcome{stdout: text[:end]}, "bench")
			if table := text[end:] + string(printed); !strings.HasPrefix(table, "dlx ") || !strings.Contains(table, "core/slice") {
				t.Errorf("after the report comes %q", table)
			}
			if strings.Contains(c.redirected, "before") && len(text) == len(content) {
				t.Error("what was there before is gone")
			}
			wantNames(t, folder, "r.json")
		})
	}
}

func TestFilesAreWholeOrAsTheyWere(t *testing.T) {
	program := buildDLX(t)

	t.Run("nobody reads the output", func(t *testing.T) {
		for name, command := range writers {
			folder := t.TempDir()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			cmd := exec.CommandContext(t.Context(), program, slices.Concat(command, []string{filepath.Join(folder, name)})...)
			cmd.Stdout = w
			err = cmd.Run()
			w.Close()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGPIPE {
				t.Errorf("%s: it ended with %v", name, err)
			}
			wantNames(t, folder, name)
		}
	})

	t.Run("no room on the disk", func(t *testing.T) {
		for name, command := range writers {
			folder := t.TempDir()
			path := filepath.Join(folder, name)
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			// A limit on the size of files cuts a write short as a full disk does.
			limited := exec.CommandContext(t.Context(), "sh", slices.Concat([]string{"-c", `ulimit -f 1 && exec "$@"`, "sh", program}, command, []string{path})...)
			out, err := limited.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(string(out), "file too large") {
				t.Errorf("%s: it ended with %v:\n%s", name, err, out)
			}
			if content, err := os.ReadFile(path); err != nil || string(content) != "old" {
				t.Errorf("%s holds %d bytes, %v; the old content is gone", name, len(content), err)
			}
			left := []string{name}
			if name == "r.json" { // what was measured is not lost
				left = append(left, name+partial)
			}
			wantNames(t, folder, left...)
		}
	})

	t.Run("a signal while the file is written", func(t *testing.T) {
		for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT} {
			if signal.Ignored(s) {
				t.Logf("%v: these tests run under nohup, or its like", s)
				continue
			}
			folder := t.TempDir()
			source := filepath.Join(folder, "big.npy")
			large(t, source, false)
			kept := filepath.Join(folder, "kept")
			if err := os.Mkdir(kept, 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(program, "move", source, "--via", "cpu", "--out", filepath.Join(kept, "x.npy"))
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			start(t, cmd)
			begun := func() bool { // the file has some content, but not all
				entries, _ := os.ReadDir(kept)
				for _, e := range entries {
					if info, err := e.Info(); err == nil && info.Size() > 0 {
						return true
					}
				}
				return false
			}
			for deadline := time.Now().Add(20 * time.Second); !begun(); {
				if time.Now().After(deadline) {
					t.Fatal("it does not begin to write")
				}
			}
			for range 2 { // the shell sends a second hang-up
				if err := cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
				if s != syscall.SIGHUP {
					break
				}
				time.Sleep(time.Millisecond)
			}
			text, _ := io.ReadAll(bufio.NewReader(stderr))
			var exit *exec.ExitError
			if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitFailed || !strings.Contains(string(text), "interrupted") {
				t.Errorf("%v: it ended with %v: %s", s, err, text)
			}
			wantNames(t, kept)
		}
	})

	t.Run("nohup", func(t *testing.T) {
		cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$@"`, "sh", program, "move", digits, "--via", "cpu", "--copy", "always", "--repeat", "2000")
		start(t, cmd)
		time.Sleep(100 * time.Millisecond)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("it ended with %v", err)
		}
	})
}

// large makes a file of a tensor that takes a while to be written. It has a hole.
func large(t *testing.T, path string, columnMajor bool) {
	t.Helper()
	const rows, size = 1 << 14, 256 << 20
	order := "False"
	if columnMajor {
		order = "True"
	}
	dict := fmt.Sprintf("{'descr': '|u1', 'fortran_order': %s, 'shape': (%d, %d), }", order, rows, size/rows)
	dict += strings.Repeat(" ", 117-len(dict)) + "\n"
	if err := os.WriteFile(path, []byte("\x93NUMPY\x01\x00"+string([]byte{byte(len(dict)), 0})+dict), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(10+len(dict)+size)); err != nil {
		t.Fatal(err)
	}
}
