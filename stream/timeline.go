package stream

import (
	"context"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveTimelines = live.NewCounter("stream.Timeline")

// Timeline is a [core.Semaphore] of the host: a counter that starts at 0 and only grows.
// Goroutines and streams wait until it reaches a value. It is safe for concurrent use. The
// caller of [NewTimeline] closes it.
type Timeline struct {
	signalMu sync.Mutex // held while Signal enqueues work, so that values are enqueued in order; locked before mu

	mu       sync.Mutex // not held while a stream is called, which may run the work at once
	value    uint64
	promised uint64 // the largest value set or enqueued to be set
	closed   bool
	changed  chan struct{} // closed at the next change; nil while nobody waits
}

var _ core.Semaphore = (*Timeline)(nil)

// NewTimeline returns a timeline at value 0.
func NewTimeline() *Timeline {
	liveTimelines.Add(1)
	return new(Timeline)
}

// Value returns the present value of the counter. It returns core.ErrClosed if the timeline
// was closed.
func (t *Timeline) Value() (uint64, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, closedTimeline("Value")
	}
	return t.value, nil
}

// Set sets the counter at once. It returns core.ErrInvalid if value is not larger than the
// counter, and core.ErrClosed if the timeline was closed.
func (t *Timeline) Set(value uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return closedTimeline("Set")
	}
	if value <= t.value {
		return notLarger("Set", value, t.value)
	}
	t.value = value
	t.promised = max(t.promised, value)
	t.wake()
	return nil
}

// Signal enqueues work on s that sets the counter to value. s must be a HostWorker of package backendkit,
// such as a [Queue]. Signal returns core.ErrNotSupported if it is not, core.ErrInvalid if
// value is not larger than all values that were set or signaled before, and core.ErrClosed
// if the timeline or s was closed. If Set has set a larger value by the time the work runs,
// the work fails with core.ErrInvalid.
func (t *Timeline) Signal(s core.Stream, value uint64) error {
	q, ok := s.(hostWorker)
	if !ok {
		return core.Errorf(core.ErrNotSupported, "stream", "Signal", "%T cannot run work of the host: record an event on it, wait for that on a Queue and signal there", s)
	}
	t.signalMu.Lock()
	defer t.signalMu.Unlock()
	if err := t.canSignal(value); err != nil {
		return err
	}
	if err := q.Enqueue(func() error { return t.Set(value) }); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.promised = max(t.promised, value)
	return nil
}

// canSignal returns the error of Signal if value cannot be enqueued.
func (t *Timeline) canSignal(value uint64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return closedTimeline("Signal")
	}
	if value <= t.promised {
		return notLarger("Signal", value, t.promised)
	}
	return nil
}

// WaitOn makes work that is enqueued on s later wait until the counter has reached value.
// It returns core.ErrInvalid if s is nil, core.ErrClosed if the timeline was closed, and
// the error of Wait of s, which is core.ErrNotSupported if the device of s cannot wait for
// the host.
func (t *Timeline) WaitOn(s core.Stream, value uint64) error {
	if s == nil {
		return core.Errorf(core.ErrInvalid, "stream", "WaitOn", "the stream is nil")
	}
	if _, err := t.Value(); err != nil {
		return err
	}
	return s.Wait(t.At(value))
}

// Wait blocks until the counter has reached value, and returns nil. If ctx ends first, it
// returns ctx's error. If the timeline is closed first, it returns core.ErrClosed.
func (t *Timeline) Wait(ctx context.Context, value uint64) error {
	return t.At(value).Wait(ctx)
}

// At returns an event that is done when the counter has reached value. If the timeline is
// closed first, the event fails with core.ErrClosed.
func (t *Timeline) At(value uint64) core.Event { return timelineEvent{t, value} }

// Close closes the timeline and ends all waits for it. It always returns nil; the result
// makes Timeline a core.Semaphore. A second Close does nothing.
func (t *Timeline) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		liveTimelines.Add(-1)
		t.wake()
	}
	return nil
}

// wake has everyone who waits read the state again. t.mu is held.
func (t *Timeline) wake() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

// timelineEvent is the event that a timeline has reached a value.
type timelineEvent struct {
	t     *Timeline
	value uint64
}

var _ core.Event = timelineEvent{}

func (e timelineEvent) Done() (bool, error) {
	done, _, err := e.state(false)
	return done, err
}

func (e timelineEvent) Wait(ctx context.Context) error {
	for {
		done, changed, err := e.state(true)
		if done {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// state reports what Done does and, if wait is set, returns a channel that is closed
// when the state may have changed.
func (e timelineEvent) state(wait bool) (done bool, changed <-chan struct{}, err error) {
	t := e.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.value >= e.value {
		return true, nil, nil
	}
	if t.closed {
		return true, nil, closedTimeline("Wait")
	}
	if wait && t.changed == nil {
		t.changed = make(chan struct{})
	}
	return false, t.changed, nil
}

func closedTimeline(call string) error {
	return core.Errorf(core.ErrClosed, "stream", call, "the timeline was closed")
}

func notLarger(call string, value, than uint64) error {
	return core.Errorf(core.ErrInvalid, "stream", call, "value %d must be larger than %d: a timeline only grows", value, than)
}
