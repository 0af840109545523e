package coretest

import (
	"cmp"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// result matches the line of a test binary with the result of a test. heading matches the
// line that names the test whose output follows.
var (
	result  = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	heading = regexp.MustCompile(`^=== (?:RUN|NAME|CONT|PAUSE) +(\S+)`)
)

// Child runs a test of this binary in a new process, with the additional environment
// variables env, each of the form "NAME=value". Use it to test what a process can do only
// once or in one configuration, or to run tests that mostly wait in parallel. Child returns
// when the process has started.
//
// The caller calls wait once, with t or as the function of t.Run. It waits for the process
// and repeats its subtests with their results and messages. If the process fails, the test
// fails, too, with the whole output of the process.
func Child(t *testing.T, test string, env ...string) (wait func(*testing.T)) {
	t.Helper()
	args := []string{"-test.run=^" + test + "$", "-test.v", "-test.count=1"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	if end, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+(time.Until(end)*9/10).String()) // earlier than that of t, so that the child prints where it hangs
	}
	child := exec.CommandContext(t.Context(), os.Args[0], args...)
	child.Env = append(os.Environ(), env...)
	out, err := os.CreateTemp(t.TempDir(), "") // a file has all output, also if the process ends early
	if err != nil {
		t.Fatal(err)
	}
	child.Stdout, child.Stderr = out, out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	waited := false
	t.Cleanup(func() {
		if !waited { // t ended early; the end of its context has ended the process
			_ = child.Wait()
		}
		_ = out.Close()
	})
	return func(t *testing.T) {
		t.Helper()
		waited = true
		err := child.Wait()
		output, failed := os.ReadFile(out.Name())
		if err = cmp.Or(err, failed); err == nil && !strings.Contains(string(output), ": "+test+" (") {
			err = errors.New("there is no such test")
		}
		if err != nil {
			t.Errorf("%s with %q: %v\n%s", test, env, err, output)
		}
		repeatResults(t, test, string(output))
	}
}

// repeatResults runs a subtest of t for each subtest of test in the output of its process,
// with the same result and messages.
func repeatResults(t *testing.T, test, out string) {
	running, messages := "", make(map[string]string)
	for line := range strings.Lines(out) {
		if h := heading.FindStringSubmatch(line); h != nil {
			running = h[1]
			continue
		}
		r := result.FindStringSubmatch(line)
		if r == nil {
			messages[running] += line
			continue
		}
		name, sub := strings.CutPrefix(r[2], test+"/")
		switch {
		case sub:
			t.Run(name, func(t *testing.T) { endTest(t, r[1], messages[r[2]]) })
		case r[1] == "SKIP":
			t.Skip(messages[r[2]])
		}
	}
}

// endTest gives t a result and a message.
func endTest(t *testing.T, result, message string) {
	switch result {
	case "SKIP":
		t.Skip(message)
	case "FAIL":
		t.Error(message)
	}
}
