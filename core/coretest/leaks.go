package coretest

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// traceVariable switches [core.TraceTensors] on for a test binary. It is not
// always on, since benchmarks run in the same binaries.
const traceVariable = "DLX_TRACE_TENSORS"

// patience is how long releases that other goroutines still owe are waited for.
const patience = 5 * time.Second

// expected is how many leaks tests have announced.
var expected atomic.Int64

// Main is the TestMain of a package whose tests open objects of dlx:
//
//	func TestMain(m *testing.M) { coretest.Main(m) }
//
// It runs the tests and exits. Where they passed, but left a counter of
// [core.Live] above zero, or tensors that only the garbage collector closed, it
// prints which and exits with 1. With DLX_TRACE_TENSORS=1 in the environment it
// also prints the stacks that made the open tensors.
func Main(m *testing.M) {
	core.TraceTensors(os.Getenv(traceVariable) == "1")
	code := m.Run()
	if code == 0 {
		if report := leaks(nil, 0); report != "" {
			fmt.Fprintln(os.Stderr, "FAIL: the tests passed, but "+report)
			code = 1
		}
	}
	os.Exit(code)
}

// CheckNoLeaks fails tb at its end if more objects are open then than now, or if
// tensors were lost in between. It must not be used beside parallel tests, since
// the counters are the process's.
func CheckNoLeaks(tb testing.TB) {
	tb.Helper()
	before, lost := core.Live(), core.Leaked()-expected.Load()
	tb.Cleanup(func() {
		tb.Helper()
		if report := leaks(before, lost); report != "" {
			tb.Error("the test " + report)
		}
	})
}

// ExpectLeaks announces that the calling test loses n tensors on purpose, so that
// neither [Main] nor [CheckNoLeaks] complains of them.
func ExpectLeaks(n int64) { expected.Add(n) }

// leaks compares the counters with what they were, and tells the differences. It
// collects garbage first, so that lost tensors are found, and waits a moment for
// releases that follow work.
func leaks(before map[string]int64, lost int64) string {
	runtime.GC()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		var lines []string
		live := core.Live()
		for _, name := range slices.Sorted(maps.Keys(live)) {
			// Fewer than before are what an earlier test still owed. Fewer than none are a bug.
			if n := live[name] - before[name]; n > 0 || live[name] < 0 {
				lines = append(lines, fmt.Sprintf("left %d of %s open", n, name))
			}
		}
		if n := core.Leaked() - expected.Load() - lost; n > 0 {
			lines = append(lines, fmt.Sprintf("lost %d tensors, which only the garbage collector closed", n))
		}
		if len(lines) == 0 {
			return ""
		}
		if time.Now().After(deadline) {
			return strings.Join(append(lines, stacks()), "\n")
		}
	}
}

// stacks tells who made the open tensors, or how to find that out.
func stacks() string {
	open := core.OpenTensors()
	if len(open) == 0 {
		return "set " + traceVariable + "=1 to see the stacks that made the open tensors"
	}
	return "stacks that made the open tensors:\n" + strings.Join(open, "\n")
}
