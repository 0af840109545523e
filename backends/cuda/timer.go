//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
)

var liveTimers = core.NewLiveCounter("cuda.Timer")

// Timer measures how long work takes on the card, by two events with times. It is
// safe for concurrent use.
type Timer struct {
	device *device

	mu          sync.Mutex
	start, stop uintptr // CUevents; 0 once the timer was closed
}

// NewTimer makes a timer for streams of d, which the caller closes. It fails with
// core.ErrDevice if d is no device of CUDA, and with core.ErrClosed.
func NewTimer(ctx context.Context, d core.Device) (*Timer, error) {
	const call = "NewTimer"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inner, err := deviceOf(call, d)
	if err != nil {
		return nil, err
	}
	t := &Timer{device: inner}
	if err := inner.open(call, t.open); err != nil {
		return nil, err
	}
	liveTimers.Add(1)
	return t, nil
}

// open makes both events or none.
func (t *Timer) open() error {
	c := t.device.context
	var s driver.Status
	if t.start, s = c.NewEvent(true); s == driver.Success {
		if t.stop, s = c.NewEvent(true); s != driver.Success {
			c.DestroyEvent(t.start)
		}
	}
	return t.device.check(s, "cuEventCreate", "an event with a time")
}

// Start has the time begin when the work enqueued on s before is done. It fails with
// core.ErrDevice if s is nil or of another device, with core.ErrNotSupported while s is
// captured, and with core.ErrClosed; so does Stop.
func (t *Timer) Start(s core.Stream) error { return t.record("Start", s, &t.start) }

// Stop has the time end when the work enqueued on s before is done.
func (t *Timer) Stop(s core.Stream) error { return t.record("Stop", s, &t.stop) }

func (t *Timer) record(call string, s core.Stream, event *uintptr) error {
	q, err := t.device.streamOf(call, s)
	if err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return closedTimer(call)
	}
	return q.enqueue(call, func() error {
		return t.device.check(t.device.context.RecordEvent(*event, q.raw), "cuEventRecord", "an event with a time")
	})
}

// Elapsed waits for both ends, or until ctx ends, whose error it returns then, and
// returns the time between them, with a resolution of about half a microsecond (driver
// API, cuEventElapsedTime). It fails with core.ErrInvalid unless Start and Stop came
// before, and with core.ErrClosed.
func (t *Timer) Elapsed(ctx context.Context) (time.Duration, error) {
	for {
		d, s, err := t.elapsed()
		if err != nil || s != driver.NotReady {
			return d, err
		}
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(maxNap):
		}
	}
}

// elapsed asks once, so that the timer can be closed between.
func (t *Timer) elapsed() (time.Duration, driver.Status, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return 0, driver.Success, closedTimer("Elapsed")
	}
	d, s := t.device.context.Elapsed(t.start, t.stop)
	if s == driver.NotReady {
		return 0, s, nil
	}
	return d, s, t.device.check(s, "cuEventElapsedTime", "Start and Stop of a timer")
}

// Close gives the events back. A second Close does nothing.
func (t *Timer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return nil
	}
	c := t.device.context
	err := t.device.check(c.DestroyEvent(t.start), "cuEventDestroy", "of a timer")
	err = errors.Join(err, t.device.check(c.DestroyEvent(t.stop), "cuEventDestroy", "of a timer"))
	t.start, t.stop = 0, 0
	t.device.Drop()
	liveTimers.Add(-1)
	return err
}

func closedTimer(call string) error { return errorf(core.ErrClosed, call, "the timer was closed") }
