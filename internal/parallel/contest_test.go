package parallel

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// nothing is work in no time.
func nothing(int) error { return nil }

// A contest chooses the way whose median was the fastest, after so many trials.
func TestContest(t *testing.T) {
	for ways := 2; ways <= mostWays; ways++ {
		for fastest := range ways {
			var c Contest
			for trial := range ways * trials {
				if c.Over() {
					t.Fatal("a way was chosen too early")
				}
				if trial < ways*trials-1 {
					c.begun.Add(1)
				}
				took := time.Microsecond
				switch k := trial / ways; {
				case turn(trial, ways) != fastest && k > 1: // it is as fast as the fastest at first only
					took = time.Millisecond
				case turn(trial, ways) == fastest && k > trials-3: // it is interrupted
					took = time.Second
				}
				c.note(turn(trial, ways), trial/ways, 1<<20, took)
			}
			c.choose(ways, 0, 4)
			if err := c.Run(1, ways, 0, 4, func(way int) error {
				if way != fastest {
					t.Errorf("way %d was chosen, and %d is the fastest of %d", way, fastest, ways)
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The usual way stays unless another one is clearly faster.
func TestTheUsualWayStays(t *testing.T) {
	for usual := range 2 {
		for _, c := range []struct {
			percent int64 // the speed of the other way
			chosen  bool
		}{{200, true}, {133, true}, {110, false}, {100, false}, {33, false}} {
			var x Contest
			for trial := range trials {
				x.note(usual, trial, 1<<20, 100*time.Microsecond)
				x.note(1-usual, trial, (1<<20)*c.percent/100, 100*time.Microsecond)
			}
			x.choose(2, usual, 8)
			if other := x.chosen.Load() == uint32(2-usual); other != c.chosen {
				t.Errorf("usual %d, the other one has %d %% of the speed: it is chosen: %v", usual, c.percent, other)
			}
		}
	}
	var unknown Contest // every trial has failed
	unknown.choose(3, 1, 8)
	if unknown.chosen.Load() != 2 {
		t.Error("a way of which nothing is known was chosen")
	}
}

// All ways are tried equally often, one after the other in changing order.
func TestTurns(t *testing.T) {
	for ways := 2; ways <= mostWays; ways++ {
		for k := range trials {
			tried := make(map[int]bool)
			for trial := k * ways; trial < (k+1)*ways; trial++ {
				tried[turn(trial, ways)] = true
			}
			if len(tried) != ways {
				t.Errorf("of %d ways, %d were tried in round %d", ways, len(tried), k)
			}
		}
	}
}

// Work is done once in each call, errors are returned, and the number of ways may change.
func TestContestOfManyGoroutines(t *testing.T) {
	failed := errors.New("failed")
	var c Contest
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 200 {
				ways, calls := 1+(g+i)%mostWays, 0
				err := c.Run(100, ways, 0, 8, func(way int) error {
					calls++
					if way < 0 || way >= ways {
						t.Errorf("way %d of %d", way, ways)
					}
					if i%3 == 0 {
						return failed
					}
					return nil
				})
				if calls != 1 || errors.Is(err, failed) != (i%3 == 0) {
					t.Errorf("%d calls, error %v", calls, err)
				}
			}
		})
	}
	all.Wait()
	if !c.Over() {
		t.Error("no way was chosen")
	}
}

// BenchmarkContest is what a chosen way costs.
func BenchmarkContest(b *testing.B) {
	var c Contest
	for b.Loop() {
		_ = c.Run(1, 2, 0, 8, nothing)
	}
}
