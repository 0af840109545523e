package blockpool_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// newDivided makes a system whose pool divides blocks.
func newDivided() *system {
	s := newSystem()
	s.Resize = func(_ class, bytes int64) class { return class(bytes) }
	return s
}

// takes takes memory of a size, and fails the test if that is impossible.
func (s *system) takes(t testing.TB, size class) part {
	t.Helper()
	x, pending, err := s.Take(size, int64(size), nil)
	if err != nil || len(pending) > 0 {
		t.Fatalf("Take of %d bytes: %v, %d events", size, err, len(pending))
	}
	return x
}

// wantPlace fails the test unless a part is where it should be.
func wantPlace(t testing.TB, x part, block int, offset, size int64) {
	t.Helper()
	if x.Block != block || x.Offset != offset || x.Size != size {
		t.Errorf("%d bytes at %d of block %d, want %d at %d of block %d", x.Size, x.Offset, x.Block, size, offset, block)
	}
}

func TestALargerBlockIsDividedAndBecomesWholeAgain(t *testing.T) {
	s := newDivided()
	a := s.takes(t, 8192)
	s.Put(a, 8192, nil)
	x, y, z := s.takes(t, 2048), s.takes(t, 4096), s.takes(t, 2048)
	wantPlace(t, x, 1, 0, 2048)
	wantPlace(t, y, 1, 2048, 4096)
	wantPlace(t, z, 1, 6144, 2048)
	if want := (core.PoolStats{InUse: 8192, Requested: 8192, Peak: 8192, Hits: 3}); s.Stats != want {
		t.Errorf("%+v, want %+v", s.Stats, want)
	}
	s.Put(x, 2048, nil)
	s.Put(z, 2048, nil)
	s.TrimPool()
	if len(s.destroyed) > 0 || s.Stats.Cached != 4096 {
		t.Fatalf("destroyed %v, %+v: a part of the block is in use", s.destroyed, s.Stats)
	}
	s.Put(y, 4096, nil)
	wantPlace(t, s.takes(t, 8192), 1, 0, 8192)
}

// Else a small tensor would keep a large block from the system.
func TestABlockIsNotDividedForMuchLess(t *testing.T) {
	s := newDivided()
	s.Put(s.takes(t, 8192), 8192, nil)
	wantPlace(t, s.takes(t, 768), 2, 0, 768)       // less than an eighth
	wantPlace(t, s.takes(t, 7680), 3, 0, 7680)     // what were left is less than an eighth
	wantPlace(t, s.takes(t, 1024), 1, 0, 1024)     // an eighth
	wantPlace(t, s.takes(t, 7168), 1, 1024, 7168)  // the rest
	if other := newSystem(); other.Resize == nil { // a pool that cannot divide does not
		other.Put(other.takes(t, 8192), 8192, nil)
		wantPlace(t, other.takes(t, 4096), 2, 0, 4096)
	}
}

func TestPartsOfABusyBlockWaitForItsWork(t *testing.T) {
	s := newDivided()
	e := stream.NewEvent()
	x := s.takes(t, 8192)
	s.Put(x, 8192, []core.Event{e})
	wantPlace(t, s.takes(t, 4096), 2, 0, 4096) // nobody waits for the work
	e.Complete(nil)
	low := s.takes(t, 2048)
	wantPlace(t, low, 1, 0, 2048)

	// A part of each half is freed with work of its own: they join when both are idle.
	high := s.takes(t, 6144)
	wantPlace(t, high, 1, 2048, 6144)
	first, second := stream.NewEvent(), stream.NewEvent()
	s.Put(low, 2048, []core.Event{first})
	s.Put(high, 6144, []core.Event{second})
	first.Complete(nil)
	wantPlace(t, s.takes(t, 8192), 3, 0, 8192)
	second.Complete(nil)
	wantPlace(t, s.takes(t, 8192), 1, 0, 8192)
}

func TestABusyPartGoesToWhoWaitsForItsWork(t *testing.T) {
	s := newDivided()
	whole := s.takes(t, 8192)
	s.Put(whole, 8192, nil)
	low, e := s.takes(t, 2048), stream.NewEvent()
	wantPlace(t, s.takes(t, 6144), 1, 2048, 6144)
	s.Put(low, 2048, []core.Event{e})
	accept := func(p []core.Event) bool { return slices.Equal(p, []core.Event{e}) }
	x, pending, err := s.Take(2048, 2048, accept)
	if err != nil || len(pending) != 1 || x != low {
		t.Errorf("%v, %d events, error %v", x, len(pending), err)
	}
}

func TestThePoolKeepsLittleWithoutWork(t *testing.T) {
	s := newDivided()
	s.Keep = 4096
	a, b, c, d := s.takes(t, 2048), s.takes(t, 2048), s.takes(t, 2048), s.takes(t, 2048)
	s.Put(a, 2048, []core.Event{stream.NewEvent()})
	s.Put(b, 2048, nil)
	s.Put(c, 2048, nil)
	if len(s.destroyed) > 0 || s.Stats.Cached != 6144 {
		t.Errorf("destroyed %v, %+v: only 4096 bytes have no work", s.destroyed, s.Stats)
	}
	s.Put(d, 2048, nil)
	if !slices.Equal(s.destroyed, []int{b.Block}) || s.Stats.Cached != 6144 {
		t.Errorf("destroyed %v, %+v: want the block that was freed first", s.destroyed, s.Stats)
	}
}

func TestWhatNobodyUsesForAPeriodIsDestroyed(t *testing.T) {
	s := newDivided()
	a, b := s.takes(t, 2048), s.takes(t, 65536)
	e := stream.NewEvent()
	s.Put(a, 2048, nil)
	s.Put(b, 65536, []core.Event{e})
	s.Tick() // ends the period in which both were freed
	if len(s.destroyed) > 0 {
		t.Fatalf("destroyed %v", s.destroyed)
	}
	s.Put(s.takes(t, 2048), 2048, nil)
	e.Complete(nil)
	s.Tick() // a was used in this period, and b had work
	if len(s.destroyed) > 0 {
		t.Fatalf("destroyed %v", s.destroyed)
	}
	s.Tick()
	slices.Sort(s.destroyed)
	if !slices.Equal(s.destroyed, []int{1, 2}) || s.PoolStats().Cached != 0 {
		t.Errorf("destroyed %v, %+v", s.destroyed, s.Stats)
	}
}

func TestTheTimerEndsPeriodsUntilNothingIsKept(t *testing.T) {
	s := newDivided()
	s.Idle = time.Millisecond
	for range 2 { // it starts again
		s.mu.Lock()
		s.Put(s.takes(t, 2048), 2048, nil)
		s.mu.Unlock()
		for end := time.Now().Add(30 * time.Second); s.PoolStats().Cached > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the pool keeps what nobody uses")
			}
		}
	}
	s.mu.Lock()
	s.Put(s.takes(t, 2048), 2048, nil)
	s.Drain()
	n := len(s.destroyed)
	s.mu.Unlock()
	s.Tick() // as if the timer had just expired
	if len(s.destroyed) != n || s.PoolStats().Cached != 0 {
		t.Errorf("destroyed %v, %+v after Drain", s.destroyed, s.Stats)
	}
}

// Random calls, compared with a model of which bytes are in use.
func TestPartsInUseNeverOverlap(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	sizes := make(map[int]int64) // of blocks
	s := newDivided()
	type use struct {
		part
		pending []core.Event
	}
	type work struct { // on bytes of a block
		block     int
		low, high int64
		*stream.Event
	}
	var all []work
	unfinished := func(w work) bool {
		done, _ := w.Done()
		return !done
	}
	var used []use
	var events []*stream.Event
	for step := range 20_000 {
		switch rng.IntN(8) {
		case 0, 1, 2:
			if len(used) > 40 {
				break
			}
			size := class(blockpool.RoundUp(1+rng.Int64N(1<<(8+rng.IntN(8))), 256))
			var accept func([]core.Event) bool
			if rng.IntN(2) == 0 {
				accept = func([]core.Event) bool { return rng.IntN(3) > 0 }
			}
			x, pending, err := s.Take(size, 1, accept)
			if err != nil {
				t.Fatal(err)
			}
			if _, known := sizes[x.Block]; !known {
				sizes[x.Block] = x.Size
			}
			if x.Size < int64(size) || x.Offset < 0 || x.Offset+x.Size > sizes[x.Block] || x.Offset%256 != 0 || x.Size%256 != 0 {
				t.Fatalf("step %d: %d bytes at %d of a block of %d for %d", step, x.Size, x.Offset, sizes[x.Block], size)
			}
			if x.Size*8 < sizes[x.Block] {
				t.Fatalf("step %d: a part of %d bytes in a block of %d", step, x.Size, sizes[x.Block])
			}
			for _, w := range all {
				known := accept != nil && slices.Contains(pending, core.Event(w.Event))
				if w.block == x.Block && w.low < x.Offset+x.Size && x.Offset < w.high && unfinished(w) && !known {
					t.Fatalf("step %d: memory with unfinished work, for which nobody waits", step)
				}
			}
			for _, y := range used {
				if y.Block == x.Block && y.Offset < x.Offset+x.Size && x.Offset < y.Offset+y.Size {
					t.Fatalf("step %d: two parts overlap", step)
				}
			}
			used = append(used, use{x, pending})
		case 3, 4:
			if len(used) == 0 {
				break
			}
			i := rng.IntN(len(used))
			x := used[i]
			used = slices.Delete(used, i, i+1)
			pending := slices.Clone(x.pending)
			if rng.IntN(2) == 0 {
				e := stream.NewEvent()
				events, pending = append(events, e), append(pending, e)
				all = append(slices.DeleteFunc(all, func(w work) bool { return !unfinished(w) }), work{x.Block, x.Offset, x.Offset + x.Size, e})
			}
			s.Put(x.part, 1, pending)
		case 5, 6:
			if len(events) > 0 {
				events[0].Complete(nil)
				events = events[1:]
			}
		default:
			if rng.IntN(20) == 0 {
				s.Tick()
			}
		}
		for _, b := range s.destroyed {
			if slices.ContainsFunc(used, func(x use) bool { return x.Block == b }) {
				t.Fatalf("step %d: block %d was destroyed while a part of it is in use", step, b)
			}
			if slices.ContainsFunc(all, func(w work) bool { return w.block == b && unfinished(w) }) {
				t.Fatalf("step %d: block %d was destroyed before its work was done", step, b)
			}
		}
		bytes := int64(0)
		for b, size := range sizes {
			if !slices.Contains(s.destroyed, b) {
				bytes += size
			}
		}
		if now := s.PoolStats(); now.InUse+now.Cached != bytes {
			t.Fatalf("step %d: %+v, but the blocks have %d bytes", step, now, bytes)
		}
		for _, b := range s.destroyed {
			delete(sizes, b)
		}
		s.destroyed = nil
	}
	for _, x := range used {
		s.Put(x.part, 1, nil)
	}
	for _, e := range events {
		e.Complete(nil)
	}
	s.TrimPool()
	if now := s.PoolStats(); now.Cached != 0 || now.InUse != 0 || len(s.destroyed) != len(sizes) {
		t.Errorf("%+v: %d of %d blocks were destroyed", now, len(s.destroyed), len(sizes))
	}
}

func TestRoundDown(t *testing.T) {
	for size := int64(1); size < 1<<20; size += 37 {
		got := blockpool.RoundDown(size)
		if got > size || got < size-size/8 || blockpool.RoundUp(got, 1) != got || size > got && blockpool.RoundUp(got+1, 1) <= size {
			t.Fatalf("%d becomes %d", size, got)
		}
	}
}
