package coretest

import (
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// openTimed opens a device with a stream that it can time, until the test ends.
func openTimed(t *testing.T) (*Backend, core.DeviceClock, core.Stream) {
	t.Helper()
	b := NewBackend(Options{Log: t.Logf})
	d, err := b.Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	clock, ok := core.As[core.DeviceClock](d)
	if !ok {
		t.Fatal("the device has no clock")
	}
	s, err := clock.NewTimedStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return b, clock, s
}

func TestAMarkThatCannotBeMadeIsNotOpen(t *testing.T) {
	b, clock, s := openTimed(t)
	b.Fail("Mark", 1, core.ErrOutOfMemory)
	if _, err := clock.Mark(s); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("Mark: error %v", err)
	}
	if n := core.Live()["coretest.Mark"]; n != 0 {
		t.Errorf("%d marks are open", n)
	}
}

func TestAMarkReportsTheErrorsOfTheWorkAndLeavesThemToTheNextEvent(t *testing.T) {
	b, clock, s := openTimed(t)
	b.Fail("work", 1, core.ErrInvalid)
	if err := s.(backendkit.HostWorker).Enqueue(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	m, err := clock.Mark(s)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	next, err := s.Record()
	if err != nil {
		t.Fatal(err)
	}
	WantError(t, m.Event().Wait(t.Context()), core.ErrInvalid, "the event of the mark")
	WantError(t, next.Wait(t.Context()), core.ErrInvalid, "the next event")
	_, err = m.Since(m)
	WantError(t, err, core.ErrInvalid, "Since of a mark behind failed work")
	_ = s.Synchronize(t.Context()) // takes the error
}

func TestALostDeviceHasNoTimes(t *testing.T) {
	b, clock, s := openTimed(t)
	m, err := clock.Mark(s)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Lose(0)
	_, err = m.Since(m)
	WantError(t, err, core.ErrDeviceLost, "Since")
	_, err = clock.Mark(s)
	WantError(t, err, core.ErrDeviceLost, "Mark")
	if step := clock.ClockResolution(); step != time.Microsecond {
		t.Errorf("a step of the clock is %v", step)
	}
}
