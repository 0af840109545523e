package backendtest

import (
	"context"
	"errors"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// clockHooks stand in for the methods of a clock and its marks.
type clockHooks struct {
	mark  func(*device, core.Stream) (core.Mark, error)
	since func(m, earlier core.Mark) (time.Duration, error)
	close func(*device, core.Mark) error
}

// reading is a mark of a device.
type reading struct {
	core.Mark
	device *device
}

func (d *device) NewTimedStream(ctx context.Context) (core.Stream, error) {
	s, err := d.fake.NewTimedStream(ctx)
	if err != nil {
		return nil, err
	}
	return &queue{s, d}, nil
}

func (d *device) Mark(s core.Stream) (core.Mark, error) {
	mark := d.fake.Mark
	if h := d.hooks.clock.mark; h != nil {
		mark = func(s core.Stream) (core.Mark, error) { return h(d, s) }
	}
	m, err := mark(plain(s))
	if err != nil {
		return nil, err
	}
	return &reading{m, d}, nil
}

func (r *reading) Since(earlier core.Mark) (time.Duration, error) {
	if other, ok := earlier.(*reading); ok {
		earlier = other.Mark
	}
	if h := r.device.hooks.clock.since; h != nil {
		return h(r.Mark, earlier)
	}
	return r.Mark.Since(earlier)
}

func (r *reading) Close() error {
	if h := r.device.hooks.clock.close; h != nil {
		return h(r.device, r.Mark)
	}
	return r.Mark.Close()
}

// changed returns a hook that changes the time between two marks.
func changed(f func(time.Duration) time.Duration) func(m, earlier core.Mark) (time.Duration, error) {
	return func(m, earlier core.Mark) (time.Duration, error) {
		d, err := m.Since(earlier)
		return f(d), err
	}
}

// earlyMark is a mark whose clock was read when it was made.
type earlyMark struct {
	core.Mark
	at time.Time
}

func (m earlyMark) Event() core.Event {
	e := stream.NewEvent()
	e.Complete(nil)
	return e
}

func (m earlyMark) Since(earlier core.Mark) (time.Duration, error) {
	return m.at.Sub(earlier.(earlyMark).at), nil
}

var clockMutants = []mutant{
	{
		name: "reads the clock when a mark is enqueued",
		hooks: hooks{clock: clockHooks{mark: func(d *device, s core.Stream) (core.Mark, error) {
			m, err := d.fake.Mark(s)
			return earlyMark{m, time.Now()}, err
		}}},
		fails: "clock/after-the-work", says: "before the work that was enqueued earlier",
	},
	{
		name:  "leaves out the time in which the stream waits",
		hooks: hooks{clock: clockHooks{since: changed(func(d time.Duration) time.Duration { return d / 1000 })}},
		fails: "clock/before-later-work", says: "but the marks are",
	},
	{
		name:  "takes ticks of the clock for nanoseconds",
		hooks: hooks{clock: clockHooks{since: changed(func(d time.Duration) time.Duration { return 83 * d })}},
		fails: "clock/measures", says: "on the host",
	},
	{
		name:  "takes nanoseconds for ticks of the clock",
		hooks: hooks{clock: clockHooks{since: changed(func(d time.Duration) time.Duration { return d / 83 })}},
		fails: "clock/measures", says: "between the readings",
	},
	{
		name:  "has no negative times",
		hooks: hooks{clock: clockHooks{since: changed(func(d time.Duration) time.Duration { return max(d, -d) })}},
		fails: "clock/sign", says: "and the first",
	},
	{
		name: "takes a missing mark for its own",
		hooks: hooks{clock: clockHooks{since: func(m, earlier core.Mark) (time.Duration, error) {
			if earlier == nil {
				earlier = m
			}
			return m.Since(earlier)
		}}},
		fails: "clock/refused", says: "Since no mark: error <nil>",
	},
	{
		name: "says that a stream which it cannot time is invalid",
		hooks: hooks{clock: clockHooks{mark: func(d *device, s core.Stream) (core.Mark, error) {
			m, err := d.fake.Mark(s)
			if errors.Is(err, core.ErrNotSupported) {
				err = core.Errorf(core.ErrInvalid, "mutant", "Mark", "the stream")
			}
			return m, err
		}}},
		fails: "clock/plain-stream", says: "Mark of a stream of NewStream: error",
	},
	{
		name: "goes on with a mark after Close",
		hooks: hooks{clock: clockHooks{close: func(d *device, m core.Mark) error {
			d.later(func() { _ = m.Close() })
			return nil
		}}},
		fails: "clock/close", says: "Since of a closed mark: error <nil>",
	},
	{
		name:  "closes with a mark open",
		hooks: hooks{close: func(*device) error { return nil }},
		fails: "clock/lifetime", says: "Close of a device with an open mark: error <nil>",
	},
}
