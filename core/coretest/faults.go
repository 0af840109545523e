package coretest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Faults is a driver, most often a simulated one, whose calls can be made to fail.
type Faults interface {
	// Fail has the nth call from now on of a function fail once, with a code of the driver's;
	// nth 1 is the next, and 0 takes that back.
	Fail(call string, nth, code int)
	// Calls is how often each function was called. The map is the caller's.
	Calls() map[string]int
	// Live is what is open at the driver, by its kind. What is not there is 0.
	Live() map[string]int
}

// EachCall proves that every call to a driver may fail.
type EachCall struct {
	Faults Faults
	Code   int // that the driver answers
	// Life opens devices, does on them what is to be proved, closes all, and returns the errors
	// that it met, joined: see [Life].
	Life func(context.Context) error
}

// lifetime is how long a life may take.
var lifetime = 20 * time.Second

// Run has each call that a life makes fail, in a subtest, in one life after the other: at each
// of its first eight places, and at the 16th, the 32nd and so on. Whatever comes of it has to end,
// has to be a [core.Error] or several, and may leave nothing open: not of dlx, not at the driver,
// no descriptor. Lives without a fault may not fail. Run returns the names of the calls that failed.
func (e EachCall) Run(t *testing.T) []string {
	t.Helper()
	var before map[string]int
	for range 2 { // the first makes what the process keeps
		before = e.Faults.Calls()
		if err := e.Life(t.Context()); err != nil {
			t.Errorf("without a fault: %v", err)
			return nil
		}
	}
	uses := e.Faults.Calls()
	maps.DeleteFunc(uses, func(call string, n int) bool { return n == before[call] })
	failed := slices.Sorted(maps.Keys(uses))
	for _, call := range failed {
		ok := t.Run(call, func(t *testing.T) {
			CheckNoLeaks(t)
			n := 1
			for e.fails(t, call, n) && !t.Failed() {
				n += max(1, n/8*8)
			}
			if n == 1 && !t.Failed() {
				t.Error("it was called in one life, and not in the next")
			}
		})
		if !ok {
			break // a life that leaks, or goes on, disturbs the next
		}
	}
	return failed
}

// fails has the nth call of a function fail in a life, and reports whether there was one.
func (e EachCall) fails(tb testing.TB, call string, n int) bool {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), lifetime)
	defer cancel()
	live, open, calls := e.Faults.Live(), Descriptors(), e.Faults.Calls()[call]
	done := make(chan error, 1)
	e.Faults.Fail(call, n, e.Code)
	defer e.Faults.Fail(call, 0, 0)
	go func() { done <- e.Life(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		tb.Errorf("call %d: nothing went on", n)
		return false
	}
	fired := e.Faults.Calls()[call]-calls >= n
	if err != nil && !fired {
		tb.Errorf("without call %d: %v", n, err)
	}
	if bad := untyped(err); bad != nil {
		tb.Errorf("call %d: error %v is no *core.Error", n, bad)
	}
	for end, late := time.Now().Add(patience), false; !late; time.Sleep(time.Millisecond) { // what is freed late
		late = time.Now().After(end)
		if maps.Equal(e.Faults.Live(), live) && Descriptors() == open {
			return fired
		}
	}
	tb.Errorf("call %d: open at the driver: %v, before %v; %d descriptors, before %d", n, e.Faults.Live(), live, Descriptors(), open)
	return fired
}

// untyped finds an error that is no [core.Error] among those that were joined.
func untyped(err error) error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if bad := untyped(e); bad != nil {
				return bad
			}
		}
		return nil
	}
	if typed := (*core.Error)(nil); err == nil || errors.As(err, &typed) {
		return nil
	}
	return err
}
