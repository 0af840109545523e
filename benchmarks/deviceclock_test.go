package benchmarks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/cpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// simulatedDevice opens a device with a clock, until the test ends.
func simulatedDevice(t *testing.T) core.Device {
	t.Helper()
	d, err := coretest.NewBackend(coretest.Options{Submit: stream.Submit}).Open(t.Context(), core.DeviceID{Type: core.DeviceExt})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// clockedStream opens a stream for deviceTimed, until the test ends.
func clockedStream(t *testing.T, d core.Device) core.Stream {
	t.Helper()
	s, err := timedStream(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// sleeping returns a loop that enqueues work of a known time.
func sleeping(s core.Stream, d time.Duration) func(n int) error {
	return func(n int) error {
		for range n {
			if err := s.(backendkit.HostWorker).Enqueue(func() error { time.Sleep(d); return nil }); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestTheDevicesClockTimesTheWorkOnly(t *testing.T) {
	d := simulatedDevice(t)
	s := clockedStream(t, d)
	const each, late = 3 * time.Millisecond, 200 * time.Millisecond
	began := time.Now()
	work := sleeping(s, each)
	sample, by, wrong := deviceTimed(t.Context(), d, s, func(n int) error {
		time.Sleep(late) // the simulated device begins when the host waits
		return work(n)
	})
	took, err := sample(2)
	if whole := time.Since(began); err != nil || took < 2*each-wrong || took > whole-late+wrong {
		t.Errorf("2 operations of %v took %v of %v, %v of which the host slept: %v", each, took, whole, late, err)
	}
	if by != DeviceClock || wrong != time.Microsecond {
		t.Errorf("the clock is %q, and may be wrong by %v", by, wrong)
	}
}

func TestTheHostsClockTimesWhatTheDeviceCannot(t *testing.T) {
	simulated := simulatedDevice(t)
	host, err := cpu.New().Open(t.Context(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	for name, d := range map[string]core.Device{"no clock": host, "a plain stream": simulated} {
		s, err := d.NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		const each = time.Millisecond
		sample, by, wrong := deviceTimed(t.Context(), d, s, sleeping(s, each))
		took, err := sample(3)
		if err != nil || took < 3*each || by != HostClock || wrong <= 0 {
			t.Errorf("%s: 3 operations of %v took %v on the clock %q, which may be wrong by %v: %v", name, each, took, by, wrong, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// lyingDevice is a device whose clock shows other times.
type lyingDevice struct {
	*coretest.Device
	lie func(time.Duration) time.Duration
}

type lyingMark struct {
	core.Mark
	lie func(time.Duration) time.Duration
}

func (d lyingDevice) Mark(s core.Stream) (core.Mark, error) {
	m, err := d.Device.Mark(s)
	return lyingMark{m, d.lie}, err
}

func (m lyingMark) Since(earlier core.Mark) (time.Duration, error) {
	d, err := m.Mark.Since(earlier.(lyingMark).Mark)
	return m.lie(d), err
}

func TestAClockThatCannotBeRightIsAnError(t *testing.T) {
	for name, lie := range map[string]func(time.Duration) time.Duration{
		"too fast":  func(d time.Duration) time.Duration { return 1000 * d },
		"backwards": func(d time.Duration) time.Duration { return -d },
	} {
		d := lyingDevice{simulatedDevice(t).(*coretest.Device), lie}
		s := clockedStream(t, d)
		sample, _, _ := deviceTimed(t.Context(), d, s, sleeping(s, time.Millisecond))
		_, err := sample(1)
		coretest.WantError(t, err, core.ErrInvalid, name)
	}
}

func TestAFailedOperationIsAFailedSample(t *testing.T) {
	d := simulatedDevice(t)
	for call, want := range map[string]error{"the loop": errors.New("the loop"), "Synchronize": context.Canceled} {
		ctx, cancel := context.WithCancel(t.Context())
		s := clockedStream(t, d)
		sample, _, _ := deviceTimed(ctx, d, s, func(int) error {
			if call == "the loop" {
				return want
			}
			cancel()
			return nil
		})
		if _, err := sample(1); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", call, err, want)
		}
		cancel()
	}
}
