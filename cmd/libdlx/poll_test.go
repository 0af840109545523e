//go:build cgo

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// A call that waits ends when poll asks for it, and poll is not called again.
func TestPollStopsACall(t *testing.T) {
	calls := 0
	err := polling(t.Context(), func(ctx context.Context) error {
		<-ctx.Done() // for ever, if nothing ends it
		return ctx.Err()
	}, func() int32 { calls++; return 5 })
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "returned 5") || calls != 1 {
		t.Errorf("after %d calls of poll: %v", calls, err)
	}
}

// What a call has done before it learns that it was to stop counts.
func TestPollComesTooLate(t *testing.T) {
	for _, want := range []error{nil, core.ErrClosed} {
		err := polling(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return want
		}, func() int32 { return 1 })
		if !errors.Is(err, want) {
			t.Errorf("the error is %v, want %v", err, want)
		}
	}
}

// The end of the time of a call is no request of the program.
func TestPollAndATimeout(t *testing.T) {
	limited, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	polled := make(chan struct{})
	err := polling(limited, func(ctx context.Context) error {
		<-polled
		<-ctx.Done()
		return limited.Err()
	}, func() int32 {
		<-limited.Done()
		close(polled)
		return 1
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
}

func TestAPanicBesidePollIsAnError(t *testing.T) {
	err := polling(t.Context(), func(context.Context) error { panic("planted") }, func() int32 { return 0 })
	if err == nil || !strings.Contains(err.Error(), "planted") {
		t.Errorf("the error is %v", err)
	}
}

// A call that can begin again does so after each call of poll, on the goroutine of the caller, until it succeeds.
func TestACallBeginsAgain(t *testing.T) {
	calls, polls := 0, 0
	err := again(0, func() int32 { polls++; return 0 }, func(ctx context.Context) error {
		if calls++; calls == 3 {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	}, nil)
	if err != nil || calls != 3 || polls != 2 {
		t.Errorf("after %d calls and %d of poll: %v", calls, polls, err)
	}
}

// Only the first part of a call that moves data ends early.
func TestACallBeginsAgainOnce(t *testing.T) {
	calls, polls := 0, 0
	polled := make(chan struct{})
	call := func(ctx context.Context) error {
		if calls++; calls == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		<-polled // it does not end meanwhile
		return ctx.Err()
	}
	err := again(0, func() int32 {
		if polls++; polls == 4 {
			close(polled)
		}
		return 0
	}, call, call)
	if err != nil || calls != 2 || polls < 4 {
		t.Errorf("after %d calls and %d of poll: %v", calls, polls, err)
	}
}

func TestPollStopsACallThatBeginsAgain(t *testing.T) {
	wait := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, rest := range []func(context.Context) error{nil, wait} {
		polls := 0
		err := again(time.Hour, func() int32 {
			if polls++; polls == 2 {
				return 5
			}
			return 0
		}, wait, rest)
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "returned 5") || polls != 2 {
			t.Errorf("after %d calls of poll: %v", polls, err)
		}
	}
}

// The time of a call ends it, with poll and without, and an error of the call that is no end of its time does, too.
func TestACallThatBeginsAgainEnds(t *testing.T) {
	poll := func() int32 { return 0 }
	for _, poll := range []func() int32{nil, poll} {
		err := again(time.Millisecond, poll, func(ctx context.Context) error {
			if _, limited := ctx.Deadline(); !limited {
				t.Error("the context has no deadline")
			}
			<-ctx.Done()
			return ctx.Err()
		}, nil)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v", err)
		}
		// The work that a call waits for can have failed so.
		calls := 0
		err = again(0, poll, func(context.Context) error { calls++; return context.DeadlineExceeded }, nil)
		if !errors.Is(err, context.DeadlineExceeded) || calls != 1 {
			t.Errorf("after %d calls: %v", calls, err)
		}
	}
}

// Contexts and functions of package context end with a slice, until the call has returned.
func TestContextsOfASlice(t *testing.T) {
	s := &slice{length: time.Millisecond}
	child, cancel := context.WithCancel(s)
	defer cancel()
	ran := make(chan struct{})
	context.AfterFunc(s, func() { close(ran) })
	long := &slice{length: time.Hour}
	never := context.AfterFunc(long, func() { t.Error("a function runs that was stopped") })
	if !never() || never() {
		t.Error("a function is stopped twice, or not at all")
	}
	long.stop()
	<-ran
	<-child.Done()
	if !errors.Is(child.Err(), context.DeadlineExceeded) || !errors.Is(s.Err(), context.DeadlineExceeded) {
		t.Errorf("the errors are %v and %v", child.Err(), s.Err())
	}
	late := make(chan struct{})
	if stop := context.AfterFunc(s, func() { close(late) }); stop() {
		t.Error("a function of a context that has ended was stopped")
	}
	<-late
	stopped := &slice{length: time.Hour}
	stop := context.AfterFunc(stopped, func() { t.Error("a function runs after the call") })
	stopped.stop()
	if stopped.Err() != nil || !stop() {
		t.Error("a slice has ended with its call")
	}
}

// The end of a part is known without a timer, which only Done makes.
func TestTheDeadlineOfASlice(t *testing.T) {
	s := &slice{length: time.Millisecond}
	if s.Err() != nil {
		t.Error("it has ended before it began")
	}
	end, limited := s.Deadline()
	if !limited {
		t.Fatal("it has no deadline")
	}
	time.Sleep(time.Until(end))
	if !errors.Is(s.Err(), context.DeadlineExceeded) || s.timer != nil {
		t.Errorf("the error is %v, the timer %v", s.Err(), s.timer)
	}
	<-s.Done()
	s.stop()
}

// A call that need not wait takes one allocation, that of its context.
func TestACallThatDoesNotWait(t *testing.T) {
	poll := func() int32 { return 0 }
	call := func(ctx context.Context) error { return ctx.Err() }
	if n := testing.AllocsPerRun(100, func() { _ = again(time.Hour, poll, call, nil) }); n > 1 {
		t.Errorf("it takes %v allocations", n)
	}
}
