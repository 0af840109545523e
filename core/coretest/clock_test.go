package coretest

import (
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// openTimed opens a device with a stream that it can time, until the test ends.
func openTimed(t *testing.T) (*Backend, core.DeviceClock, core.Stream) {
	t.Helper()
	b := NewBackend(Options{Log: t.Logf})
	clock, ok := core.As[core.DeviceClock](open(t, b, 0))
	if !ok {
		t.Fatal("the device has no clock")
	}
	s, err := clock.NewTimedStream(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return b, clock, s
}

// openMark makes a mark that is closed when the test ends.
func openMark(t *testing.T, clock core.DeviceClock, s core.Stream) core.Mark {
	t.Helper()
	m, err := clock.Mark(s)
	must(t, err)
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestAMarkThatCannotBeMadeIsNotOpen(t *testing.T) {
	b, clock, s := openTimed(t)
	b.Fail("Mark", 1, core.ErrOutOfMemory)
	WantError(t, errOf(clock.Mark(s)), core.ErrOutOfMemory, "Mark")
	if n := core.Live()["coretest.Mark"]; n != 0 {
		t.Errorf("%d marks are open", n)
	}
}

func TestAMarkReportsTheErrorsOfTheWorkAndLeavesThemToTheNextEvent(t *testing.T) {
	b, clock, s := openTimed(t)
	b.Fail("work", 1, core.ErrInvalid)
	must(t, s.(backendkit.HostWorker).Enqueue(nothing))
	m := openMark(t, clock, s)
	next := record(t, s)
	WantError(t, m.Event().Wait(t.Context()), core.ErrInvalid, "the event of the mark")
	WantError(t, next.Wait(t.Context()), core.ErrInvalid, "the next event")
	WantError(t, errOf(m.Since(m)), core.ErrInvalid, "Since of a mark behind failed work")
	_ = s.Synchronize(t.Context()) // takes the error
}

func TestALostDeviceHasNoTimes(t *testing.T) {
	b, clock, s := openTimed(t)
	m := openMark(t, clock, s)
	must(t, s.Synchronize(t.Context()))
	b.Lose(0)
	WantError(t, errOf(m.Since(m)), core.ErrDeviceLost, "Since")
	WantError(t, errOf(clock.Mark(s)), core.ErrDeviceLost, "Mark")
	if step := clock.ClockResolution(); step != time.Microsecond {
		t.Errorf("a step of the clock is %v", step)
	}
}
