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

// result is a line of a test binary that says how a test went, heading one that says which runs.
var (
	result  = regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	heading = regexp.MustCompile(`^=== (?:RUN|NAME|CONT|PAUSE) +(\S+)`)
)

// Child runs a test of this binary in a process of its own, whose environment has more
// variables ("NAME=value"): what a process can do only once, or in one way, is tested
// there, and what naps can be tested in several at once. The process runs when Child
// returns. The result waits for it, and is to be called once, for t or by t.Run: the subtests
// of its test say what those of the process said. If the process fails, so does the test, with all that it printed.
func Child(t *testing.T, test string, env ...string) (wait func(*testing.T)) {
	t.Helper()
	args := []string{"-test.run=^" + test + "$", "-test.v", "-test.count=1"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	if end, ok := t.Deadline(); ok {
		args = append(args, "-test.timeout="+(time.Until(end)*9/10).String()) // it tells where it hangs before t ends
	}
	child := exec.CommandContext(t.Context(), os.Args[0], args...)
	child.Env = append(os.Environ(), env...)
	out, err := os.CreateTemp(t.TempDir(), "") // no pipe, which would be closed whenever the process ends
	if err != nil {
		t.Fatal(err)
	}
	child.Stdout, child.Stderr = out, out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	waited := false
	t.Cleanup(func() {
		if !waited { // t ended before, or not all of it was run; its context has ended the process
			_ = child.Wait()
		}
		_ = out.Close()
	})
	return func(t *testing.T) {
		t.Helper()
		waited = true
		err := child.Wait()
		said, failed := os.ReadFile(out.Name())
		if err = cmp.Or(err, failed); err == nil && !strings.Contains(string(said), ": "+test+" (") {
			err = errors.New("there is no such test")
		}
		if err != nil {
			t.Errorf("%s with %q: %v\n%s", test, env, err, said)
		}
		repeat(t, test, string(said))
	}
}

// repeat runs subtests of t that end as those of a test did, by the output of its process.
func repeat(t *testing.T, test, out string) {
	running, said := "", make(map[string]string)
	for line := range strings.Lines(out) {
		if h := heading.FindStringSubmatch(line); h != nil {
			running = h[1]
			continue
		}
		r := result.FindStringSubmatch(line)
		if r == nil {
			said[running] += line
			continue
		}
		name, sub := strings.CutPrefix(r[2], test+"/")
		switch {
		case sub:
			t.Run(name, func(t *testing.T) { end(t, r[1], said[r[2]]) })
		case r[1] == "SKIP":
			t.Skip(said[r[2]])
		}
	}
}

// end is how a test ends that went and said as another did.
func end(t *testing.T, how, said string) {
	switch how {
	case "SKIP":
		t.Skip(said)
	case "FAIL":
		t.Error(said)
	}
}
