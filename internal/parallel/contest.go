package parallel

import (
	"slices"
	"sync/atomic"
	"time"
)

// A Contest finds the fastest of some ways to do the same work, by timing the first times that it is done. The zero value
// is a contest that has not begun. It may be used by several goroutines.
type Contest struct {
	begun  atomic.Uint32
	speeds [mostWays][trials]atomic.Uint64 // of each way in each of its trials, in bytes per millisecond; 0 if not known
	chosen atomic.Uint32                   // the way by its position from 1 on; 0 while it is open
}

const (
	mostWays = 8
	trials   = 16 // how often each way is timed
)

// Over reports whether a way is chosen.
func (c *Contest) Over() bool { return c.chosen.Load() != 0 }

// Run does work of size bytes in the chosen way, or in one of the ways from 0 to ways-1 while none is chosen. The usual way is
// chosen unless another one is faster by one part in lead. Run returns the error of f.
func (c *Contest) Run(size int64, ways, usual int, lead uint64, f func(way int) error) error {
	if ways <= 1 {
		return f(0)
	}
	if chosen := int(c.chosen.Load()); chosen > 0 {
		return f(min(chosen, ways) - 1)
	}
	trial := c.begun.Add(1) - 1
	k := turn(int(trial), ways)
	start := time.Now()
	err := f(k)
	if err == nil {
		c.note(k, int(trial)/ways, size, time.Since(start))
	}
	if int(trial) >= ways*trials-1 {
		c.choose(ways, usual, lead)
	}
	return err
}

// turn returns the way of a trial, of at least two ways: each way once in as many trials as there are ways, in an order without a short
// period, since the work may have one.
func turn(trial, ways int) (way int) {
	for ; trial > 0; trial /= ways {
		way += trial % ways
	}
	return way % ways
}

// note notes the speed of a trial of a way.
func (c *Contest) note(way, trial int, size int64, took time.Duration) {
	if trial < trials {
		c.speeds[way][trial].Store(uint64(size) * uint64(time.Millisecond) / uint64(max(took, 1)))
	}
}

// choose compares medians: one time may be fast because the bytes are in a cache or no other thread works, and slow because
// the thread is interrupted.
func (c *Contest) choose(ways, usual int, lead uint64) {
	best, most := usual, c.median(usual)
	for way := range ways {
		if m := c.median(way); m > most+most/lead {
			best, most = way, m
		}
	}
	c.chosen.CompareAndSwap(0, uint32(best+1))
}

func (c *Contest) median(way int) uint64 {
	known := make([]uint64, 0, trials)
	for i := range c.speeds[way] {
		if s := c.speeds[way][i].Load(); s > 0 {
			known = append(known, s)
		}
	}
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[len(known)/2]
}
