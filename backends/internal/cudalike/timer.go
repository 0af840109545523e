package cudalike

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// Timer measures how long work takes on a device, by two events of the driver. Its zero value is closed.
type Timer struct {
	device *device
	opened backendkit.OpenItem

	mu          sync.Mutex
	start, stop uintptr // events; 0 once the timer is closed
}

// OpenTimer opens t, which is the zero value, as a timer for streams of d.
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
	opened, err := inner.open(call, "timer", t.makeEvents)
	if err != nil {
		return err
	}
	t.opened = opened
	return nil
}

// makeEvents makes both events or none.
func (t *Timer) makeEvents() error {
	c := t.device.context
	var s Status
	if t.start, s = c.NewEvent(true); s.OK() {
		if t.stop, s = c.NewEvent(true); !s.OK() {
			c.DestroyEvent(t.start)
		}
	}
	return t.device.check(s, "an event of a timer")
}

// Start makes the time begin when the work that was enqueued on s before is done.
func (t *Timer) Start(s core.Stream) error { return t.record("Start", s, &t.start) }

// Stop makes the time end when the work that was enqueued on s before is done.
func (t *Timer) Stop(s core.Stream) error { return t.record("Stop", s, &t.stop) }

func (t *Timer) record(call string, s core.Stream, event *uintptr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return t.device.closedError(call, "timer")
	}
	q, err := t.device.streamOf(call, s)
	if err != nil {
		return err
	}
	return q.enqueue(call, func() error {
		return t.device.check(t.device.context.RecordEvent(*event, q.raw), "an event of a timer")
	})
}

// Elapsed waits until the time has ended, or ctx has, and returns the time.
func (t *Timer) Elapsed(ctx context.Context) (time.Duration, error) {
	for {
		d, s, err := t.query()
		if err != nil || s.Kind != NotReady {
			return d, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(maxPause):
		}
	}
}

// query asks the driver once. It does not wait, so that the timer can be closed meanwhile.
func (t *Timer) query() (time.Duration, Status, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return 0, Status{}, t.device.closedError("Elapsed", "timer")
	}
	d, s := t.device.context.Elapsed(t.start, t.stop)
	if s.Kind == NotReady {
		return 0, s, nil
	}
	return d, s, t.device.check(s, "the time between Start and Stop")
}

// Close destroys the events. A second Close does nothing.
func (t *Timer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return nil
	}
	c := t.device.context
	err := t.device.check(c.DestroyEvent(t.start), "an event of a timer")
	err = errors.Join(err, t.device.check(c.DestroyEvent(t.stop), "an event of a timer"))
	t.start, t.stop = 0, 0
	t.opened.Close()
	return err
}
