package microsleep_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/microsleep"
)

// Signals end a few sleeps early, not most.
func TestSleepIsNotShorter(t *testing.T) {
	const sleeps = 50
	for _, d := range []time.Duration{0, time.Microsecond, 200 * time.Microsecond, 6 * time.Millisecond} {
		start := time.Now()
		for range sleeps {
			microsleep.Sleep(d)
		}
		if got := time.Since(start); got < sleeps*d/2 {
			t.Errorf("%d times Sleep(%v) took %v", sleeps, d, got)
		}
	}
}

func TestManyGoroutinesSleep(t *testing.T) {
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			for range 20 {
				microsleep.Sleep(50 * time.Microsecond)
			}
		})
	}
	group.Wait()
}

// BenchmarkLateness reports how much later than asked a sleep returns, beside time.Sleep.
func BenchmarkLateness(b *testing.B) {
	for name, sleep := range map[string]func(time.Duration){"microsleep": microsleep.Sleep, "time": time.Sleep} {
		for _, d := range []time.Duration{10 * time.Microsecond, 100 * time.Microsecond, time.Millisecond} {
			b.Run(fmt.Sprintf("%s/%v", name, d), func(b *testing.B) {
				for b.Loop() {
					sleep(d)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)-float64(d), "ns-late/op")
			})
		}
	}
}
