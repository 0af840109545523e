package coretest

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveStreams = live.NewCounter("coretest.Stream")

// Stream is a stream of a simulated device. It reports errors as Queue of package stream
// does. Work that is enqueued after failed work still runs. An event reports the first error
// of the work since the previous event, and Synchronize the first error since the last
// Synchronize.
type Stream struct {
	device *Device
	native uintptr // on an opaque device
	timed  bool    // Mark accepts it
	of     *Stream // the stream whose queue this one uses, if it was imported

	// Guarded by the scheduler's mutex:
	steps  []step
	busy   bool // a goroutine runs a step
	closed bool
	failed error // the first error since the last event
	passed bool  // no work ran since the last event
	err    error // the first error that Synchronize has not returned
}

var _ core.Stream = (*Stream)(nil)

func (s *Stream) scheduler() *scheduler { return s.device.backend.scheduler }

// Device returns the device that the stream belongs to.
func (s *Stream) Device() core.Device { return s.device }

// Native returns a handle that ImportStream accepts, or 0 if the device is not opaque.
func (s *Stream) Native() uintptr { return s.native }

// queue returns the stream that holds the work: s or the stream that it was imported from.
func (s *Stream) queue() *Stream {
	if s.of != nil {
		return s.of
	}
	return s
}

// Enqueue adds work, which runs on a goroutine that waits for it.
func (s *Stream) Enqueue(work func() error) error {
	if work == nil {
		return s.device.backend.errorf(core.ErrInvalid, "Enqueue", "work is nil")
	}
	return s.enter("Enqueue", step{work: work})
}

// Record returns an event that is done when all work enqueued before is done.
func (s *Stream) Record() (core.Event, error) {
	e := &event{stream: s.queue()}
	if err := s.enter("Record", step{record: e}); err != nil {
		return nil, err
	}
	return e, nil
}

// Wait makes later work wait for e. It returns core.ErrNotSupported if e is not an event of
// this backend or Options.HostWaits is set.
func (s *Stream) Wait(e core.Event) error {
	if e == nil {
		return nil
	}
	own, ok := backendkit.UnwrapEvent(e).(*event)
	if !ok || own.stream.scheduler() != s.scheduler() || s.device.backend.options.HostWaits {
		return s.device.backend.errorf(core.ErrNotSupported, "Wait", "the device cannot wait for this %T: the host must", e)
	}
	return s.enter("Wait", step{after: own})
}

// enter adds a step, or returns an error if the call is to fail.
func (s *Stream) enter(call string, t step) error {
	if err := s.device.call(call); err != nil {
		return err
	}
	c := s.scheduler()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.closed || s.queue().closed {
		return s.device.backend.errorf(core.ErrClosed, call, "the stream was closed")
	}
	c.add(s.queue(), t)
	return nil
}

// Synchronize runs all work enqueued before, and the work that it waits for.
func (s *Stream) Synchronize(ctx context.Context) error {
	e := &event{stream: s.queue()}
	if err := s.enter("Synchronize", step{record: e}); err != nil {
		return err
	}
	if err := s.scheduler().await(ctx, e.stream, func() bool { return e.done }); err != nil {
		return err
	}
	return e.stream.takeError()
}

// Close runs all work, and returns the first error that no Synchronize returned.
func (s *Stream) Close() error {
	c, q := s.scheduler(), s.queue()
	c.mu.Lock()
	first := !s.closed
	s.closed = true
	c.mu.Unlock()

	_ = c.await(context.Background(), q, func() bool { return len(q.steps) == 0 && !q.busy })
	if !first {
		return nil
	}
	c.mu.Lock()
	c.streams = slices.DeleteFunc(c.streams, func(o *Stream) bool { return o == s })
	c.mu.Unlock()
	s.device.forget(&s.device.streams)
	liveStreams.Add(-1)
	return q.takeError()
}

func (s *Stream) takeError() error {
	c := s.scheduler()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := s.err
	s.err = nil
	return err
}

// ready reports whether the next step can run. The scheduler's mutex is held.
func (s *Stream) ready() bool {
	return !s.busy && len(s.steps) > 0 && (!s.steps[0].blocked() || s.device.lost())
}

// finished records the result of work. The scheduler's mutex is held.
func (s *Stream) finished(err error) {
	if s.passed {
		s.failed, s.passed = nil, false
	}
	if s.failed == nil {
		s.failed = err
	}
	if s.err == nil {
		s.err = err
	}
}
