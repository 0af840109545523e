package cudalike

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dlx-go/dlx/backends/internal/devicebase"
	"github.com/dlx-go/dlx/core"
)

// timedEvent is an event of the driver that records the time. A mark and the event of its stream share it. Whoever
// drops it last returns it to the device.
type timedEvent struct {
	device *device
	raw    uintptr
	users  atomic.Int32
}

func (t *timedEvent) drop() {
	if t.users.Add(-1) == 0 {
		t.device.timedEvents.put(t.raw)
	}
}

// newClock makes the clock of a device.
func (d *device) newClock() devicebase.Clock[*timedEvent] {
	return devicebase.Clock[*timedEvent]{
		Device: &d.Device,
		Lost:   d.lostError,
		Between: func(from, to *timedEvent) (time.Duration, error) {
			took, s := d.context.Elapsed(from.raw, to.raw)
			return took, d.check(s, "the time between two marks")
		},
		Release: (*timedEvent).drop,
	}
}

// NewTimedStream is NewStream: every stream can be timed.
func (d *device) NewTimedStream(ctx context.Context) (core.Stream, error) { return d.NewStream(ctx) }

// ClockResolution returns what the documentation of the API says. The driver returns the time as a float32 of
// milliseconds, which is coarser from 8 s on.
func (d *device) ClockResolution() time.Duration { return d.backend.ClockStep }

// Mark records an event that records the time. The next event of the stream reports again the errors that the mark's
// event reports.
func (d *device) Mark(s core.Stream) (core.Mark, error) {
	return d.clock.Mark(func() (t *timedEvent, e core.Event, err error) {
		q, err := d.streamOf("Mark", s)
		if err != nil {
			return nil, nil, err
		}
		if err := q.begin("Mark", false); err != nil {
			return nil, nil, err
		}
		defer q.unlock()
		return q.recordTime()
	})
}

// recordTime records an event that records the time, which the caller drops. q.mu is held.
func (q *queue) recordTime() (*timedEvent, core.Event, error) {
	d := q.device
	raw, s := d.timedEvents.take()
	if err := d.check(s, "an event that records the time"); err != nil {
		return nil, nil, err
	}
	if err := d.check(d.context.RecordEvent(raw, q.raw), "an event that records the time"); err != nil {
		d.timedEvents.put(raw)
		return nil, nil, err
	}
	t := &timedEvent{device: d, raw: raw}
	t.users.Store(2)
	e := q.recorded(raw)
	e.timed = t
	return t, e, nil
}
