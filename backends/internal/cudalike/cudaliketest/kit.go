//go:build linux && cgo

package cudaliketest

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

// Kit is a backend that is tested.
type Kit struct {
	New     func() core.Backend
	Type    core.DeviceType
	Install string                            // what a machine without the driver lacks
	Control func() (*gpusim.Simulator, error) // of the simulated driver

	Host, Managed core.DeviceType // of pinned and of managed memory; Managed is 0 if there is none
	Default       uintptr         // a stream that every thread has, by its number
	NewTimer      func(context.Context, core.Device) (Timer, error)
}

// Timer is the timer of a backend.
type Timer interface {
	Start(core.Stream) error
	Stop(core.Stream) error
	Elapsed(context.Context) (time.Duration, error)
	Close() error
}

// Open opens a device, the first one without an index. The test must close it.
func (k *Kit) Open(t testing.TB, index ...int32) core.Device {
	t.Helper()
	id := core.DeviceID{Type: k.Type}
	if len(index) > 0 {
		id.Index = index[0]
	}
	b := k.New()
	coretest.NeedDriver(t, b.Probe(context.Background()).Reason, k.Install)
	d, err := b.Open(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Opened opens a device, which is closed when the test ends.
func (k *Kit) Opened(t testing.TB, index ...int32) core.Device {
	t.Helper()
	return ClosedAtEnd(t, k.Open(t, index...))
}

// Second opens the second device. If there is only one, it opens that again: a device is its own peer.
func (k *Kit) Second(t testing.TB) core.Device {
	t.Helper()
	list, err := k.New().Devices(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return k.Open(t, int32(min(1, len(list)-1)))
}

// Simulator returns the control of the simulated driver, with which tests do what no card can be made to do. When the
// test ends, streams are not held any more, and the test fails if the driver was misused.
func (k *Kit) Simulator(t testing.TB) *gpusim.Simulator {
	t.Helper()
	sim, err := k.Control()
	if err != nil {
		t.Skip("not the simulated driver: " + err.Error())
	}
	sim.ClearMisuse()
	t.Cleanup(func() {
		sim.Hold(false)
		for _, m := range sim.Misuse() {
			t.Errorf("the driver was misused: %s", m)
		}
		sim.ClearMisuse()
	})
	return sim
}

// ClosedAtEnd closes a device when the test ends.
func ClosedAtEnd(t testing.TB, d core.Device) core.Device {
	t.Helper()
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// WantLive fails the test unless the driver has as many objects open as before, of all kinds or of those given. It
// waits for objects that are freed late.
func WantLive(t testing.TB, sim *gpusim.Simulator, before map[string]int, kinds ...string) {
	t.Helper()
	same := func(now map[string]int) bool {
		return len(kinds) == 0 && maps.Equal(now, before) ||
			len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k string) bool { return now[k] != before[k] })
	}
	now := sim.Live()
	for end := time.Now().Add(60 * time.Second); !same(now) && time.Now().Before(end); now = sim.Live() {
		time.Sleep(time.Millisecond)
	}
	if !same(now) {
		t.Errorf("the driver has %v open, want %v as before", now, before)
	}
}

// NewStream opens a stream, which is closed when the test ends.
func NewStream(t testing.TB, d core.Device) core.Stream {
	t.Helper()
	s, err := d.NewStream(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
