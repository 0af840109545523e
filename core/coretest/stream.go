package coretest

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/core"
)

var liveStreams = core.NewLiveCounter("coretest.Stream")

// Stream is a stream of a simulated device. Its errors follow the rules of
// stream.Queue: later work runs nevertheless, an event carries the first error
// of the work since the event before it, Synchronize the first since the last one.
type Stream struct {
	device *Device
	native uintptr // on an opaque device
	of     *Stream // whose work this is, if it was imported

	// Guarded by the scheduler's mutex:
	steps  []step
	busy   bool // somebody runs a step
	closed bool
	failed error // the first error since the last event
	passed bool  // no work was done since the last event
	err    error // the first error that Synchronize has not returned
}

var _ core.Stream = (*Stream)(nil)

func (s *Stream) scheduler() *scheduler { return s.device.backend.scheduler }

// Device is the device that the stream belongs to.
func (s *Stream) Device() core.Device { return s.device }

// Native is 0, or a handle that an opaque device can import.
func (s *Stream) Native() uintptr { return s.native }

// queue is where the stream's work is.
func (s *Stream) queue() *Stream {
	if s.of != nil {
		return s.of
	}
	return s
}

// Enqueue adds work of any kind, which runs on the goroutine of somebody who waits.
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

// Wait makes later work wait for e, if e is an event of this backend and
// Options.HostWaits is off; else it fails with core.ErrNotSupported.
func (s *Stream) Wait(e core.Event) error {
	if e == nil {
		return nil
	}
	own, ok := core.UnwrapEvent(e).(*event)
	if !ok || own.stream.scheduler() != s.scheduler() || s.device.backend.options.HostWaits {
		return s.device.backend.errorf(core.ErrNotSupported, "Wait", "the device cannot wait for this %T: the host must", e)
	}
	return s.enter("Wait", step{after: own})
}

// enter adds a step, unless the call is to fail.
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

// Synchronize runs all work enqueued before, and whatever that waits for.
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

// finished notes how work ended. The scheduler's mutex is held.
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
