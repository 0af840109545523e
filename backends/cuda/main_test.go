//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/cuda/internal/link"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/gpusim"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// Short names for helpers that the tests of all backends use.
var (
	keep        = coretest.Keep
	row         = coretest.Row
	pattern     = coretest.Pattern
	put         = coretest.Put
	get         = coretest.Get
	wantError   = coretest.WantError
	descriptors = coretest.Descriptors
)

// open opens a device. The test must close it.
func open(t testing.TB, index ...int32) core.Device {
	t.Helper()
	id := core.DeviceID{Type: core.DeviceCUDA}
	if len(index) > 0 {
		id.Index = index[0]
	}
	b := New()
	coretest.NeedDriver(t, b.Probe(context.Background()).Reason, "NVIDIA's driver, or name the simulated one in "+link.LibraryVariable+" (make gpusim)")
	d, err := b.Open(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// opened opens a device, which is closed when the test ends.
func opened(t testing.TB, index ...int32) core.Device {
	t.Helper()
	return closedAtEnd(t, open(t, index...))
}

func closedAtEnd(t testing.TB, d core.Device) core.Device {
	t.Helper()
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// simulator returns the control of the simulated driver, with which tests do what no card can be made to do. When the
// test ends, streams are not held any more, and the test fails if the driver was misused.
func simulator(t testing.TB) *gpusim.Simulator {
	t.Helper()
	sim, err := gpusim.Open()
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

// wantLive fails the test unless the driver has as many objects open as before, of all kinds or of those given. It
// waits for objects that are freed late.
func wantLive(t testing.TB, sim *gpusim.Simulator, before map[string]int, kinds ...string) {
	t.Helper()
	same := func(now map[string]int) bool {
		return len(kinds) == 0 && maps.Equal(now, before) ||
			len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k string) bool { return now[k] != before[k] })
	}
	now := sim.Live()
	for end := time.Now().Add(20 * time.Second); !same(now) && time.Now().Before(end); now = sim.Live() {
		time.Sleep(time.Millisecond)
	}
	if !same(now) {
		t.Errorf("the driver has %v open, want %v as before", now, before)
	}
}

// newStream opens a stream, which is closed when the test ends.
func newStream(t testing.TB, d core.Device) core.Stream {
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
