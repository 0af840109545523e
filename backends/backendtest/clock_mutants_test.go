package backendtest

import (
	"errors"
	"time"

	"github.com/dlx-go/dlx/core"
)

// changed changes the time between two marks.
func changed(f func(time.Duration) time.Duration) hooks {
	return hooks{clock: clockHooks{since: func(m, earlier core.Mark) (time.Duration, error) {
		d, err := m.Since(earlier)
		return f(d), err
	}}}
}

// earlyMark is a mark whose clock was read when it was made.
type earlyMark struct {
	core.Mark
	at time.Time
}

func (earlyMark) Event() core.Event { return passed() }

func (m earlyMark) Since(earlier core.Mark) (time.Duration, error) {
	return m.at.Sub(earlier.(earlyMark).at), nil
}

var clockMutants = []mutant[hooks]{
	{"reads the clock when a mark is enqueued", "clock/after-the-work", "before the work that was enqueued earlier",
		hooks{clock: clockHooks{mark: func(d *device, s core.Stream) (core.Mark, error) {
			m, err := d.Mark(s)
			return earlyMark{m, time.Now()}, err
		}}}},
	{"leaves out the time in which the stream waits", "clock/before-later-work", "but the marks are",
		changed(func(d time.Duration) time.Duration { return d / 1000 })},
	{"takes ticks of the clock for nanoseconds", "clock/measures", "on the host",
		changed(func(d time.Duration) time.Duration { return 83 * d })},
	{"takes nanoseconds for ticks of the clock", "clock/measures", "between the readings",
		changed(func(d time.Duration) time.Duration { return d / 83 })},
	{"has no negative times", "clock/sign", "and the first",
		changed(func(d time.Duration) time.Duration { return max(d, -d) })},
	{"takes a missing mark for its own", "clock/refused", "Since no mark: error <nil>",
		hooks{clock: clockHooks{since: func(m, earlier core.Mark) (time.Duration, error) {
			if earlier == nil {
				earlier = m
			}
			return m.Since(earlier)
		}}}},
	{"says that a stream which it cannot time is invalid", "clock/plain-stream", "Mark of a stream of NewStream: error",
		hooks{clock: clockHooks{mark: func(d *device, s core.Stream) (core.Mark, error) {
			m, err := d.Mark(s)
			if errors.Is(err, core.ErrNotSupported) {
				err = core.Errorf(core.ErrInvalid, "mutant", "Mark", "the stream")
			}
			return m, err
		}}}},
	{"goes on with a mark after Close", "clock/close", "Since of a closed mark: error <nil>",
		hooks{clock: clockHooks{close: func(d *device, m core.Mark) error {
			d.later(func() { _ = m.Close() })
			return nil
		}}}},
	{"closes with a mark open", "clock/lifetime", "Close of a device with an open mark: error <nil>", closesAnyway},
}
