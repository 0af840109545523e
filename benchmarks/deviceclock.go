package benchmarks

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dlx-go/dlx/core"
)

// timedStream opens a stream for [deviceTimed]: one that the device can time, if it has a clock. The caller closes it.
func timedStream(ctx context.Context, d core.Device) (core.Stream, error) {
	if clock, ok := core.As[core.DeviceClock](d); ok {
		return clock.NewTimedStream(ctx)
	}
	return d.NewStream(ctx)
}

// deviceTimed makes a sampler of a loop that enqueues n operations on s, a stream of d. The sampler waits for them. It
// takes the time on the clock of the device, between marks before and behind the operations. If the device has no
// clock, or cannot time s, it takes the time on the host, from the first call until the host knows that all is done.
// wrong is how much a sample may be wrong: for the device a step of its clock, and for the host at least the time that it
// takes to wait for a stream without work, which the sample contains.
//
// The sampler fails if the device's time is longer than the host's around it, which proves one of them wrong.
func deviceTimed(ctx context.Context, d core.Device, s core.Stream, loop func(n int) error) (sample sampler, by Clock, wrong time.Duration) {
	clock, ok := core.As[core.DeviceClock](d)
	if ok {
		m, err := clock.Mark(s)
		if err == nil {
			err = m.Close()
		}
		ok = !errors.Is(err, core.ErrNotSupported) // the sampler reports other errors
	}
	if !ok {
		return timed(func(n int) error {
			if err := loop(n); err != nil {
				return err
			}
			return s.Synchronize(ctx)
		}), HostClock, emptyWait(ctx, s)
	}
	return func(n int) (time.Duration, error) {
		start := time.Now()
		took, err := betweenMarks(ctx, clock, s, func() error { return loop(n) })
		if err != nil {
			return 0, err
		}
		return took, checkClock(took, time.Since(start), clock.ClockResolution())
	}, DeviceClock, clock.ClockResolution()
}

// betweenMarks returns the time on the device between the beginning and the end of the work that f enqueues on s.
func betweenMarks(ctx context.Context, clock core.DeviceClock, s core.Stream, f func() error) (time.Duration, error) {
	first, err := clock.Mark(s)
	if err != nil {
		return 0, err
	}
	defer first.Close() // releases it, and cannot fail in a way that matters
	if err := f(); err != nil {
		return 0, err
	}
	last, err := clock.Mark(s)
	if err != nil {
		return 0, err
	}
	defer last.Close()
	if err := s.Synchronize(ctx); err != nil {
		return 0, err
	}
	return last.Since(first)
}

// checkClock fails if a time of the device is not possible. around is the time on the host, which began earlier and
// ended later. Two clocks of quartz run at the same speed within a thousandth.
func checkClock(took, around, step time.Duration) error {
	if took >= -step && took <= around+step+around/1000 {
		return nil
	}
	return core.Errorf(core.ErrInvalid, "benchmarks", "deviceTimed",
		"the device's clock says that the work took %v, but the host waited for %v in all: one of the clocks is wrong, and the sample cannot be used", took, around)
}

// emptyWait returns how long the host takes to wait for a stream without work: the median of a few times. If that
// fails, so will the sampler, and the result does not matter.
func emptyWait(ctx context.Context, s core.Stream) time.Duration {
	times := make([]time.Duration, 15)
	for i := range times {
		start := time.Now()
		if s.Synchronize(ctx) != nil {
			return 0
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return max(times[len(times)/2], time.Nanosecond)
}
