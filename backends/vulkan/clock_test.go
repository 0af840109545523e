//go:build vulkan && linux && cgo

package vulkan

import (
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

func TestTimestampsCountOnFromZero(t *testing.T) {
	for _, x := range []struct {
		start, end uint64
		bits       int
		period     float64
		want       time.Duration
	}{
		{5, 12, 64, 1, 7},
		{12, 5, 64, 1, -7},
		{1<<36 - 5, 2, 36, 1, 7},
		{2, 1<<36 - 5, 36, 1, -7},
		{1<<36 - 5 | 1<<50, 2 | 1<<60, 36, 1, 7}, // the other bits mean nothing
		{1<<64 - 5, 2, 64, 1, 7},
		{10, 22, 64, 83.333333, 1000},
		{22, 10, 64, 83.333333, -1000},
	} {
		if d := elapsed(x.start, x.end, x.bits, x.period); d != x.want {
			t.Errorf("from %#x to %#x, of %d bits, in steps of %v ns: %v, want %v", x.start, x.end, x.bits, x.period, d, x.want)
		}
	}
}

// A timestamp whose mark was closed early is not given to another mark before it was taken.
func TestATimestampInUseIsNotTakenAgain(t *testing.T) {
	d := opened(t)
	inner := inner(d)
	clock := d.(core.DeviceClock)
	s, err := clock.NewTimedStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	gone := make(chan struct{})
	q := s.(*queue)
	q.Mu.Lock()
	err = q.Add(item{Host: func() error { <-gone; return nil }})
	q.Mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[[2]uint64]bool)
	for range 2 * timestampsOfPool {
		m, err := clock.Mark(s)
		if err != nil {
			t.Fatal(err)
		}
		inner.timestamps.mu.Lock()
		spare := len(inner.timestamps.spare)
		inner.timestamps.mu.Unlock()
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
		inner.timestamps.mu.Lock()
		last := inner.timestamps.spare[len(inner.timestamps.spare)-1]
		if len(inner.timestamps.spare) != spare+1 || used[[2]uint64{last.pool, uint64(last.index)}] {
			t.Errorf("timestamp %d of pool %#x was taken again before it was read", last.index, last.pool)
		}
		used[[2]uint64{last.pool, uint64(last.index)}] = true
		inner.timestamps.mu.Unlock()
	}
	close(gone)
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	pools := len(inner.timestamps.pools)
	for range 2 * timestampsOfPool {
		m, err := clock.Mark(s)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Synchronize(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := m.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(inner.timestamps.pools); n != pools {
		t.Errorf("there are %d pools, and were %d: timestamps are not used again", n, pools)
	}
}

// Vulkan compares the timestamps of one VkQueue only, if the device has no time domain for all of them.
func TestClocksOfTwoQueuesAreNotCompared(t *testing.T) {
	d := &device{physical: new(driver.Physical)} // without extensions
	first, second := new(timestamp), new(timestamp)
	second.queue.Store(1)
	_, err := d.between(first, second)
	wantError(t, err, core.ErrNotSupported, "the time between timestamps of two VkQueues")
}
