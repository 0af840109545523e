package cudalike

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Timer measures how long work takes on a card. Its zero value is closed.
type Timer struct {
	device *device

	mu          sync.Mutex
	start, stop uintptr // events; 0 once the timer was closed
}

// OpenTimer makes t, which is the zero value, a timer for streams of d.
func (b *Backend) OpenTimer(ctx context.Context, d core.Device, t *Timer) error {
	const call = "NewTimer"
	if err := ctx.Err(); err != nil {
		return err
	}
	inner, err := b.deviceOf(call, d)
	if err != nil {
		return err
	}
	t.device = inner
	if err := inner.open(call, t.events); err != nil {
		return err
	}
	b.timers.Add(1)
	return nil
}

// events makes both events or none.
func (t *Timer) events() error {
	c := t.device.context
	var s Status
	if t.start, s = c.NewEvent(true); s.OK() {
		if t.stop, s = c.NewEvent(true); !s.OK() {
			c.DestroyEvent(t.start)
		}
	}
	return t.device.check(s, "an event with a time")
}

// Start has the time begin behind the work of s so far.
func (t *Timer) Start(s core.Stream) error { return t.record("Start", s, &t.start) }

// Stop has the time end behind the work of s so far.
func (t *Timer) Stop(s core.Stream) error { return t.record("Stop", s, &t.stop) }

func (t *Timer) record(call string, s core.Stream, event *uintptr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return t.device.closed(call, "timer")
	}
	q, err := t.device.streamOf(call, s)
	if err != nil {
		return err
	}
	return q.enqueue(call, func() error {
		return t.device.check(t.device.context.RecordEvent(*event, q.raw), "an event with a time")
	})
}

// Elapsed waits for both ends and returns the time between them.
func (t *Timer) Elapsed(ctx context.Context) (time.Duration, error) {
	for {
		d, s, err := t.now()
		if err != nil || s.Kind != NotReady {
			return d, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(maxNap):
		}
	}
}

// now asks once, so that the timer can be closed between.
func (t *Timer) now() (time.Duration, Status, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return 0, Status{}, t.device.closed("Elapsed", "timer")
	}
	d, s := t.device.context.Elapsed(t.start, t.stop)
	if s.Kind == NotReady {
		return 0, s, nil
	}
	return d, s, t.device.check(s, "Start and Stop of a timer")
}

// Close gives the events back.
func (t *Timer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return nil
	}
	c := t.device.context
	err := t.device.check(c.DestroyEvent(t.start), "of a timer")
	err = errors.Join(err, t.device.check(c.DestroyEvent(t.stop), "of a timer"))
	t.start, t.stop = 0, 0
	t.device.Drop()
	t.device.backend.timers.Add(-1)
	return err
}
