package coretest

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveMarks = live.NewCounter("coretest.Mark")

// clockStep is a step of the device's clock.
const clockStep = time.Microsecond

// mark is a reading of the clock.
type mark struct {
	device *Device
	event  *event

	// Guarded by the scheduler's mutex:
	closed bool
	steps  int64 // of the clock; valid when the event is done
}

var (
	_ core.DeviceClock = (*Device)(nil)
	_ core.Mark        = (*mark)(nil)
)

// NewTimedStream returns a stream that Mark accepts.
func (d *Device) NewTimedStream(ctx context.Context) (core.Stream, error) {
	if err := d.call("NewTimedStream"); err != nil {
		return nil, err
	}
	return d.newStream(true)
}

// ClockResolution returns one microsecond.
func (d *Device) ClockResolution() time.Duration { return clockStep }

// Mark enqueues a reading of the clock. It accepts only streams of NewTimedStream.
func (d *Device) Mark(s core.Stream) (core.Mark, error) {
	const call = "Mark"
	if err := d.addMark(call); err != nil {
		return nil, err
	}
	m, err := d.mark(call, s)
	if err != nil {
		d.forget(&d.marks)
		return nil, err
	}
	liveMarks.Add(1)
	return m, nil
}

// addMark counts an open mark.
func (d *Device) addMark(call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return d.backend.errorf(core.ErrClosed, call, "the device was closed")
	}
	d.marks++
	return nil
}

func (d *Device) mark(call string, s core.Stream) (*mark, error) {
	own, ok := s.(*Stream)
	if !ok || own.device != d {
		return nil, d.backend.errorf(core.ErrDevice, call, "the stream is not of this device")
	}
	if !own.timed {
		return nil, d.backend.errorf(core.ErrNotSupported, call, "NewTimedStream did not make the stream")
	}
	m := &mark{device: d, event: &event{stream: own}}
	m.event.read = m.read
	return m, own.enter(call, step{record: m.event, keep: true})
}

// read reads the clock. The scheduler's mutex is held.
func (m *mark) read() { m.steps = int64(time.Since(epoch) / clockStep) }

// epoch is when the clock began. Its reading is never 0.
var epoch = time.Now().Add(-time.Hour)

// Event returns the event of the reading.
func (m *mark) Event() core.Event { return m.event }

// Since returns the time between two readings.
func (m *mark) Since(earlier core.Mark) (time.Duration, error) {
	const call = "Since"
	d := m.device
	from, ok := earlier.(*mark)
	if !ok || from.device != d {
		return 0, d.backend.errorf(core.ErrDevice, call, "the mark is not of this device")
	}
	if err := d.call(call); err != nil {
		return 0, err
	}
	c := d.backend.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range []*mark{m, from} {
		switch {
		case x.closed:
			return 0, d.backend.errorf(core.ErrClosed, call, "the mark was closed")
		case !x.event.done:
			return 0, d.backend.errorf(core.ErrInvalid, call, "the clock was not read yet: wait for the event of the mark")
		case x.event.err != nil:
			return 0, x.event.err
		}
	}
	return time.Duration(m.steps-from.steps) * clockStep, nil
}

// Close releases the mark.
func (m *mark) Close() error {
	c := m.device.backend.scheduler
	c.mu.Lock()
	first := !m.closed
	m.closed = true
	c.mu.Unlock()
	if first {
		m.device.forget(&m.device.marks)
		liveMarks.Add(-1)
	}
	return nil
}
