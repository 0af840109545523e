package cudalike

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

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

// mark is a reading of the device's clock.
type mark struct {
	device *device
	opened core.OpenItem
	event  *event

	mu    sync.Mutex
	timed *timedEvent // nil once the mark is closed
}

var _ core.Mark = (*mark)(nil)

// NewTimedStream is NewStream: every stream can be timed.
func (d *device) NewTimedStream(ctx context.Context) (core.Stream, error) { return d.NewStream(ctx) }

// ClockResolution returns what the documentation of the API says. The driver returns the time as a float32 of
// milliseconds, which is coarser from 8 s on.
func (d *device) ClockResolution() time.Duration { return d.backend.ClockStep }

// Mark records an event that records the time.
func (d *device) Mark(s core.Stream) (core.Mark, error) {
	const call = "Mark"
	m := &mark{device: d}
	opened, err := d.open(call, "mark", func() error {
		q, err := d.streamOf(call, s)
		if err != nil {
			return err
		}
		return q.enqueueUnchecked(call, func() error { return m.record(q) })
	})
	if err != nil {
		return nil, err
	}
	m.opened = opened
	d.backend.marks.Add(1)
	return m, nil
}

// record records m on a stream. q.mu is held.
func (m *mark) record(q *queue) error {
	d := m.device
	raw, s := d.timedEvents.take()
	if err := d.check(s, "an event that records the time"); err != nil {
		return err
	}
	if err := d.check(d.context.RecordEvent(raw, q.raw), "an event that records the time"); err != nil {
		d.timedEvents.put(raw)
		return err
	}
	m.timed = &timedEvent{device: d, raw: raw}
	m.timed.users.Store(2)
	m.event = q.recorded(raw)
	m.event.timed = m.timed
	return nil
}

// Event also reports the errors of earlier work. The next event of the stream reports them again.
func (m *mark) Event() core.Event { return m.event }

// Since asks the driver for the time between two events.
func (m *mark) Since(earlier core.Mark) (time.Duration, error) {
	const call = "Since"
	d := m.device
	from, ok := earlier.(*mark)
	if !ok || from == nil || from.device != d {
		return 0, d.Errorf(core.ErrDevice, call, "the earlier mark is not one of %v", d.ID())
	}
	start, err := from.use(call)
	if err != nil {
		return 0, err
	}
	defer start.drop()
	end, err := m.use(call)
	if err != nil {
		return 0, err
	}
	defer end.drop()
	took, s := d.context.Elapsed(start.raw, end.raw)
	return took, d.check(s, "the time between two marks")
}

// use returns the event of a mark whose work has succeeded. The caller drops it.
func (m *mark) use(call string) (*timedEvent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timed == nil {
		return nil, m.device.closedError(call, "mark")
	}
	switch done, err := m.event.Done(); {
	case err != nil:
		return nil, err
	case !done:
		return nil, m.device.Errorf(core.ErrInvalid, call, "the clock was not read yet: wait for the event of the mark")
	}
	if err := m.device.lostError(); err != nil {
		return nil, err
	}
	m.timed.users.Add(1)
	return m.timed, nil
}

// Close keeps the driver's event until the stream has passed it.
func (m *mark) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timed == nil {
		return nil
	}
	m.timed.drop()
	m.timed = nil
	m.device.backend.marks.Add(-1)
	m.opened.Close()
	return nil
}
