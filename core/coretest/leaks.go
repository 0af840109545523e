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

// releaseTimeout is how long to wait for other goroutines to release objects. Tests of leaks shorten it.
var releaseTimeout = 5 * time.Second

// expected is the number of lost tensors that tests have announced with ExpectLeaks.
var expected atomic.Int64

// Main runs the tests of a package and exits. Call it from TestMain:
//
//	func TestMain(m *testing.M) { coretest.Main(m) }
//
// If the tests passed but left objects open, as counted by [core.Live], or lost tensors
// without closing them, Main prints which and exits with status 1. With DLX_TRACE_OPEN=1 in
// the environment it also prints the stacks that made the open tensors; see [core.TraceOpen].
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if report := leaks(nil, 0); report != "" {
			fmt.Fprintln(os.Stderr, "FAIL: the tests passed, but "+report)
			code = 1
		}
	}
	os.Exit(code)
}

// CheckNoLeaks fails tb at its end if more objects are open than at the call, or if tensors
// were lost in between. Do not use it while parallel tests run, because it counts the objects
// of the whole process.
func CheckNoLeaks(tb testing.TB) {
	tb.Helper()
	before, lost := core.Live(), core.ReadMetrics().LostTensors-expected.Load()
	tb.Cleanup(func() {
		tb.Helper()
		if report := leaks(before, lost); report != "" {
			tb.Error("the test " + report)
		}
	})
}

// ExpectLeaks announces that the calling test loses n tensors on purpose. [Main] and
// [CheckNoLeaks] then do not report them.
func ExpectLeaks(n int64) { expected.Add(n) }

// leaks compares the counters with earlier ones and describes the differences. It first
// collects garbage, so that lost tensors are counted, and waits for objects that other
// goroutines release. It returns "" if there are no leaks.
func leaks(before map[string]int64, lost int64) string {
	runtime.GC()
	for deadline := time.Now().Add(releaseTimeout); ; time.Sleep(time.Millisecond) {
		var lines []string
		live := core.Live()
		for _, name := range slices.Sorted(maps.Keys(live)) {
			// Fewer than before is correct: an earlier test released them late. A negative
			// number is a bug.
			if n := live[name] - before[name]; n > 0 || live[name] < 0 {
				lines = append(lines, fmt.Sprintf("left %d of %s open", n, name))
			}
		}
		if n := core.ReadMetrics().LostTensors - expected.Load() - lost; n > 0 {
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

// stacks returns the stacks that made the open tensors, or says how to record them.
func stacks() string {
	open := core.OpenTensors()
	if len(open) == 0 {
		return "set DLX_TRACE_OPEN=1 to see the stacks that made the open tensors"
	}
	return "stacks that made the open tensors:\n" + strings.Join(open, "\n")
}
