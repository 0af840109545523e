//go:build cgo

package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// pollInterval is how long a call waits before it calls dlx_poll, and between two calls of it.
const pollInterval = 50 * time.Millisecond

// A call that waits, and that the program can stop by dlx_poll, runs in one of three ways. dlx_poll is always called on
// the thread of the program.
//
//   - resume: call ends after pollInterval and begins again, on the thread of the program. It is for calls that have done
//     nothing when they return the error of their context, and that take no time but that of waiting.
//   - hasten: as resume for the first pollInterval, then as polling. It is for calls that also move data: a second
//     attempt begins from the start, and would not end if each had no more than pollInterval.
//   - polling: call runs on another goroutine. It is for calls that lose something when they are given up, such as a
//     connection whose first messages were exchanged.
//
// A goroutine on another thread costs two wake-ups of threads for each call, which is more than a message takes.

// again calls call with a context that ends after the timeout, or never if it is 0. If poll is not nil, each call has
// pollInterval of it, after which again calls poll and then call once more, or rest, if that is not nil.
func again(timeout time.Duration, poll func() int32, call, rest func(context.Context) error) error {
	var end time.Time
	if timeout > 0 {
		end = time.Now().Add(timeout)
	}
	for {
		part := &slice{end: end}
		if poll != nil {
			part.length = pollInterval
		}
		err := call(part)
		part.stop()
		if poll == nil || part.Err() == nil || !errors.Is(err, context.DeadlineExceeded) || !end.IsZero() && !time.Now().Before(end) {
			return err
		}
		if stopped := poll(); stopped != 0 {
			return stoppedBy(stopped)
		}
		if rest != nil {
			last := &slice{end: end}
			defer last.stop()
			return polling(last, rest, poll)
		}
	}
}

// stoppedBy returns the error of a call that poll has stopped.
func stoppedBy(result int32) error {
	return core.Errorf(context.Canceled, origin, "", "poll returned %d, and not 0: the call was stopped", result)
}

// slice is the context of a part of a call. It ends at its deadline, and not before. Only a call that asks for Done makes a timer.
type slice struct {
	end    time.Time     // of the call; zero for none
	length time.Duration // of the part, from when the call begins to wait; 0 for none

	mu    sync.Mutex // guards what is below
	begun bool
	until time.Time // when the part ends, once it has begun; zero if it does not
	done  chan struct{}
	over  bool // done is closed
	timer *time.Timer
	after []*func()
}

// EndsAtDeadline tells package share that a call which returns at the deadline need not be woken for the end of the context.
func (s *slice) EndsAtDeadline() {}

// begin sets the end of the part once. s.mu is held.
func (s *slice) begin() {
	if s.begun {
		return
	}
	s.begun, s.until = true, s.end
	if s.length != 0 {
		if until := time.Now().Add(s.length); s.end.IsZero() || until.Before(s.end) {
			s.until = until
		}
	}
}

// watch makes the channel and the timer once. s.mu is held.
func (s *slice) watch() {
	if s.done != nil {
		return
	}
	s.begin()
	s.done = make(chan struct{})
	if !s.until.IsZero() {
		s.timer = time.AfterFunc(time.Until(s.until), s.expire)
	}
}

// expire ends the context for those that wait for Done.
func (s *slice) expire() {
	s.mu.Lock()
	after := s.after
	s.after, s.over = nil, true
	close(s.done)
	s.mu.Unlock()
	for _, f := range after {
		go (*f)()
	}
}

// stop ends the use of the context by a call that has returned. Nothing is woken afterwards.
func (s *slice) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// Deadline implements [context.Context].
func (s *slice) Deadline() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begin()
	return s.until, !s.until.IsZero()
}

// Done implements [context.Context].
func (s *slice) Done() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch()
	return s.done
}

// Err implements [context.Context].
func (s *slice) Err() error {
	s.mu.Lock()
	until := s.until
	s.mu.Unlock()
	if until.IsZero() {
		until = s.end
	}
	if !until.IsZero() && !time.Now().Before(until) {
		return context.DeadlineExceeded
	}
	return nil
}

// Value implements [context.Context].
func (s *slice) Value(any) any { return nil }

// AfterFunc is what [context.AfterFunc] calls, which would otherwise start a goroutine to wait for Done.
func (s *slice) AfterFunc(f func()) (stop func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watch()
	if s.over {
		go f()
		return func() bool { return false }
	}
	s.after = append(s.after, &f)
	return func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		i := slices.Index(s.after, &f)
		if i >= 0 {
			s.after = slices.Delete(s.after, i, i+1)
		}
		return i >= 0
	}
}

// polling runs call on another goroutine, and poll on this one about every pollInterval until call returns. poll is so
// called on the thread of the program. After poll has returned something other than 0 it is not called any more, and
// ctx of call ends: if call then fails with the error of ctx, polling returns one that wraps context.Canceled and says so.
func polling(ctx context.Context, call func(context.Context) error, poll func() int32) error {
	limited := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		var err error
		defer func() {
			if p := recover(); p != nil {
				err = defect(p)
			}
			ended <- err
		}()
		err = call(ctx)
	}()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	ticks := ticker.C
	var stopped int32
	for {
		select {
		case <-ticks:
			if stopped = poll(); stopped != 0 {
				ticks = nil
				cancel()
			}
		case err := <-ended:
			if stopped != 0 && limited.Err() == nil && errors.Is(err, context.Canceled) {
				return stoppedBy(stopped)
			}
			return err
		}
	}
}
