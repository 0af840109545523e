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

type timer struct {
	device *device

	mu          sync.Mutex
	start, stop uintptr // CUevents; 0 once the timer was closed
}

func newTimer(ctx context.Context, d core.Device) (*Timer, error) {
	const call = "NewTimer"
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	inner, err := deviceOf(call, d)
	if err != nil {
		return nil, err
	}
	t := &Timer{timer{device: inner}}
	if err := inner.open(call, t.events); err != nil {
		return nil, err
	}
	liveTimers.Add(1)
	return t, nil
}

// events makes both events or none.
func (t *timer) events() error {
	c := t.device.context
	var s driver.Status
	if t.start, s = c.NewEvent(true); s == driver.Success {
		if t.stop, s = c.NewEvent(true); s != driver.Success {
			c.DestroyEvent(t.start)
		}
	}
	return t.device.check(s, "cuEventCreate", "an event with a time")
}

func (t *timer) begin(s core.Stream) error { return t.record("Start", s, &t.start) }

func (t *timer) end(s core.Stream) error { return t.record("Stop", s, &t.stop) }

func (t *timer) record(call string, s core.Stream, event *uintptr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start == 0 {
		return closedTimer(call)
	}
	q, err := t.device.streamOf(call, s)
	if err != nil {
		return err
	}
	return q.enqueue(call, func() error {
		return t.device.check(t.device.context.RecordEvent(*event, q.raw), "cuEventRecord", "an event with a time")
	})
}

func (t *timer) elapsed(ctx context.Context) (time.Duration, error) {
	for {
		d, s, err := t.now()
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

// now asks once, so that the timer can be closed between.
func (t *timer) now() (time.Duration, driver.Status, error) {
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

func (t *timer) close() error {
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
