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

// Faults is a driver, usually a simulated one, whose calls can be made to fail.
type Faults interface {
	// Fail makes one call of a function of the driver fail with the driver's error code:
	// the nth one from now, where 1 is the next. An nth of 0 cancels that.
	Fail(call string, nth, code int)
	// Calls returns how often each function was called. The caller owns the map.
	Calls() map[string]int
	// Live returns the number of objects that are open at the driver, by kind. A kind that
	// is not in the map has none.
	Live() map[string]int
}

// EachCall tests that every call of a driver may fail.
type EachCall struct {
	Faults Faults
	Code   int // the error code with which calls of the driver fail
	// Life opens devices, uses them, closes everything, and returns all errors that it
	// got, joined. [Life], the type, helps to write it.
	Life func(context.Context) error
}

// lifetime is how long a call of EachCall.Life may take.
var lifetime = 20 * time.Second

// Run finds the driver functions that Life calls. For each of them it runs a subtest, which
// calls Life several times and each time makes another call of the function fail: each of the
// first eight, then the 16th, the 32nd and so on; in a [Quick] test the first, the eighth, the 64th and so on. Run returns
// the names of the functions.
//
// A subtest fails if Life
//
//   - does not return in time;
//   - returns an error that is not a [core.Error] or several joined ones;
//   - leaves an object of dlx, an object of the driver or a descriptor open;
//   - returns an error although no call failed.
func (e EachCall) Run(t *testing.T) []string {
	t.Helper()
	var before map[string]int
	for range 2 { // the first call makes what the process keeps forever
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
				if !Quick() {
					n += max(1, n/8*8)
				} else if n *= 8; n > uses[call]-before[call] {
					break // no such call is known of
				}
			}
			if n == 1 && !t.Failed() {
				t.Error("Life called it at first, and did not call it again")
			}
		})
		if !ok {
			break // a call of Life that leaks or still runs disturbs the next one
		}
	}
	return failed
}

// fails calls Life with the nth call of a function failing, and reports whether there was
// such a call.
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
		tb.Errorf("call %d: Life did not return", n)
		return false
	}
	fired := e.Faults.Calls()[call]-calls >= n
	if err != nil && !fired {
		tb.Errorf("call %d was not reached, but Life failed: %v", n, err)
	}
	if bad := untyped(err); bad != nil {
		tb.Errorf("call %d: error %v is not a *core.Error", n, bad)
	}
	for end, late := time.Now().Add(releaseTimeout), false; !late; time.Sleep(time.Millisecond) { // some objects are freed late
		late = time.Now().After(end)
		if maps.Equal(e.Faults.Live(), live) && Descriptors() == open {
			return fired
		}
	}
	tb.Errorf("call %d: open at the driver: %v, before %v; %d descriptors, before %d", n, e.Faults.Live(), live, Descriptors(), open)
	return fired
}

// untyped returns an error that is not a [core.Error], among those that err joins; nil if all
// are.
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
