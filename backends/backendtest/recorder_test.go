package backendtest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// recorder is a test whose failure is a result, not the failure of the test that
// it runs in.
type recorder struct {
	testing.TB // for what is not overridden

	mu       sync.Mutex
	failed   bool
	skipped  bool
	log      []string
	cleanups []func()
}

// record runs a case on a recorder, by default without options.
func record(tb testing.TB, c Case, open func(testing.TB) core.Device, options ...Options) *recorder {
	return recordWith(tb, c, open, newConfig(append(options, Options{})[0]))
}

func recordWith(tb testing.TB, c Case, open func(testing.TB) core.Device, cfg config) *recorder {
	r := &recorder{TB: tb}
	r.run(func() { c.check(r, open, cfg) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		r.run(last)
	}
	return r
}

// run calls f on a goroutine of its own, which FailNow may end.
func (r *recorder) run(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		panic("a case hangs")
	}
}

func (r *recorder) note(failed bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || failed
	r.log = append(r.log, text)
}

func (r *recorder) said(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.log, func(line string) bool { return strings.Contains(line, text) })
}

func (r *recorder) Helper() {}
func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}
func (r *recorder) Logf(format string, args ...any)   { r.note(false, fmt.Sprintf(format, args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.note(true, fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprintln(args...)) }
func (r *recorder) Skipf(format string, args ...any) {
	r.Logf(format, args...)
	r.skipped = true
	runtime.Goexit()
}
