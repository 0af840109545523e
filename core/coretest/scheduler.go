package coretest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/core"
)

// scheduler runs the work of all streams of a backend on the goroutines that wait for it. It
// runs as little as possible: only the work that a wait needs, and at random some other work.
type scheduler struct {
	mu      sync.Mutex
	changed sync.Cond  // signaled when work was added or is done
	random  *rand.Rand // guarded by mu
	streams []*Stream  // the open streams
}

// step is one entry of a stream: work, a wait for an event or a semaphore, or an event to
// complete.
type step struct {
	work   func() error
	after  *event
	reach  *semaphore
	value  uint64 // of reach
	record *event
	keep   bool // the event after record reports the same errors again
}

// blocked reports whether the step has to wait. The scheduler's mutex is held.
func (t *step) blocked() bool {
	return t.after != nil && !t.after.done || t.reach != nil && t.reach.value < t.value
}

// event is a point in a stream's work.
type event struct {
	stream *Stream
	done   bool // this and the following fields are guarded by the scheduler's mutex
	err    error
	read   func()   // called just before the event is done; it may be nil
	then   []func() // called when the event is done
}

var _ core.Event = (*event)(nil)

// Done reports whether the event is done. It does not run work, so a program that only polls
// waits forever, unless another goroutine waits or calls [Backend.Step].
func (e *event) Done() (bool, error) {
	c := e.stream.scheduler()
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.done, e.err
}

// Wait runs work until the event is done.
func (e *event) Wait(ctx context.Context) error {
	if err := e.stream.scheduler().await(ctx, e.stream, func() bool { return e.done }); err != nil {
		return err
	}
	return e.err
}

// add appends a step to a stream. The mutex is held.
func (c *scheduler) add(s *Stream, t step) {
	s.steps = append(s.steps, t)
	c.changed.Broadcast()
}

// await runs work until reached returns true or ctx ends. It prefers the work that the stream
// wanted needs; wanted may be nil. The mutex is held while reached is called.
func (c *scheduler) await(ctx context.Context, wanted *Stream, reached func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for !reached() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s := c.choose(wanted); s != nil {
			c.run(s)
		} else {
			c.changed.Wait()
		}
	}
	return nil
}

// choose returns the stream whose next step to run, nil if the caller has to wait for other
// goroutines. The mutex is held.
func (c *scheduler) choose(wanted *Stream) *Stream {
	if c.random.IntN(4) == 0 {
		if s := c.anyReady(); s != nil {
			return s
		}
	}
	for s := wanted; s != nil; {
		switch {
		case s.ready():
			return s
		case s.busy || len(s.steps) == 0:
			return nil
		case s.steps[0].after == nil: // it waits for a semaphore, which any stream may signal
			return c.anyReady()
		}
		s = s.steps[0].after.stream
	}
	return c.anyReady()
}

// anyReady returns a random stream that is ready, nil if there is none. The mutex is held.
func (c *scheduler) anyReady() *Stream {
	for _, i := range c.random.Perm(len(c.streams)) {
		if c.streams[i].ready() {
			return c.streams[i]
		}
	}
	return nil
}

// find returns the open stream of a device with the given native handle, nil if there is none.
func (c *scheduler) find(d *Device, native uintptr) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.streams, func(s *Stream) bool { return s.device == d && s.native == native && native != 0 })
	if i < 0 {
		return nil
	}
	return c.streams[i]
}

// run runs the next step of s. The mutex is held, but not while work and functions of events
// are called.
func (c *scheduler) run(s *Stream) {
	t := s.steps[0]
	s.steps = slices.Delete(s.steps, 0, 1)
	s.busy = true
	var then []func()
	switch {
	case t.work != nil:
		c.mu.Unlock()
		err := s.device.do(t.work)
		c.mu.Lock()
		s.finished(err)
	case t.record != nil:
		if t.record.read != nil {
			t.record.read()
		}
		t.record.done, t.record.err = true, s.failed
		then, t.record.then = t.record.then, nil
		s.passed = s.passed || !t.keep
	}
	c.changed.Broadcast()
	if then != nil {
		c.mu.Unlock()
		for _, f := range then {
			f()
		}
		c.mu.Lock()
	}
	s.busy = false
	c.changed.Broadcast()
}

// whenDone calls f when all of pending are done. It does not make work of this scheduler run
// sooner.
func (c *scheduler) whenDone(pending []core.Event, f func()) {
	for i, e := range pending {
		rest := func() { c.whenDone(pending[i+1:], f) }
		own, ok := e.(*event)
		if !ok || own.stream.scheduler() != c {
			if done, _ := e.Done(); done {
				continue
			}
			go func() {
				_ = e.Wait(context.Background()) // the stream reports the error
				rest()
			}()
			return
		}
		c.mu.Lock()
		done := own.done
		if !done {
			own.then = append(own.then, rest)
		}
		c.mu.Unlock()
		if !done {
			return
		}
	}
	f()
}

// shuffled returns the numbers below n in a random order.
func (c *scheduler) shuffled(n int) []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Perm(n)
}
