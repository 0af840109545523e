package blockpool_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// part is what the pool of a system hands out.
type part = *blockpool.Part[class, int]

// class is a size.
type class int64

func (c class) Bytes() int64 { return int64(c) }

// system makes blocks, which are numbers, for a pool that a test looks into.
type system struct {
	*blockpool.Pool[class, int]
	mu        sync.Mutex
	made      int
	destroyed []int
	room      int64 // bytes that can be made; less than 0 is no bound
}

var errNoRoom = errors.New("the driver has no room")

func newSystem() *system {
	s := &system{room: -1}
	s.Pool = blockpool.New("test", &s.mu, func(c class) (int, error) {
		if s.room >= 0 && s.Stats.InUse+s.Stats.Cached > s.room { // InUse has it already
			return 0, errNoRoom
		}
		s.made++
		return s.made, nil
	}, func(b int) { s.destroyed = append(s.destroyed, b) })
	return s
}

// take takes a block of 256 bytes.
func (s *system) take(t testing.TB, accept func([]core.Event) bool) (part, []core.Event) {
	t.Helper()
	b, pending, err := s.Take(256, 200, accept)
	if err != nil {
		t.Fatal(err)
	}
	return b, pending
}

// busy puts a new block with unfinished work into the pool.
func (s *system) busy(t testing.TB) (part, *stream.Event) {
	t.Helper()
	b, _ := s.take(t, nil)
	e := stream.NewEvent()
	s.Put(b, 200, []core.Event{e})
	return b, e
}

func TestTheBlockFreedLastIsTakenFirst(t *testing.T) {
	s := newSystem()
	a, _ := s.take(t, nil)
	b, _ := s.take(t, nil)
	s.Put(a, 200, nil)
	s.Put(b, 200, nil)
	if got, _ := s.take(t, nil); got != b {
		t.Errorf("took %v, want %v", got, b)
	}
	if _, _, err := s.Take(512, 512, nil); err != nil || s.made != 3 {
		t.Errorf("another class: %v, %d blocks made; want a third", err, s.made)
	}
	want := core.PoolStats{InUse: 768, Requested: 712, Cached: 256, Peak: 768, Hits: 1}
	if s.Stats != want {
		t.Errorf("%+v, want %+v", s.Stats, want)
	}
}

func TestABlockInUseByWorkIsNotHandedOut(t *testing.T) {
	s := newSystem()
	first, event := s.busy(t)
	if got, _ := s.take(t, nil); got == first {
		t.Fatal("the block was handed out while work on it was unfinished")
	}
	event.Complete(errors.New("the work failed")) // which is over all the same
	if got, pending := s.take(t, nil); got != first || len(pending) != 0 {
		t.Errorf("took %v with %v events, want %v with none", got, len(pending), first)
	}
}

func TestABlockInUseByWorkGoesToWhoWaitsForIt(t *testing.T) {
	s := newSystem()
	_, first := s.busy(t)
	own, second := s.busy(t)
	var offered []core.Event
	got, pending := s.take(t, func(pending []core.Event) bool {
		offered = append(offered, pending...)
		return pending[0] == second
	})
	if got != own || len(pending) != 1 || pending[0] != second {
		t.Errorf("took %v with %v, want %v with its event", got, pending, own)
	}
	if !slices.Equal(offered, []core.Event{first, second}) {
		t.Errorf("offered %v, want what was freed first before what was freed later", offered)
	}
	late := stream.NewEvent()
	s.Put(got, 200, append(pending, late))
	second.Complete(nil)
	if _, pending = s.take(t, func(pending []core.Event) bool { return pending[0] == late }); len(pending) != 1 {
		t.Errorf("%d events are pending, want only that which is not passed", len(pending))
	}
	idle, _ := s.take(t, nil)
	s.Put(idle, 200, nil)
	if got, pending := s.take(t, func([]core.Event) bool { t.Error("asked, although a block has no work"); return true }); got != idle || pending != nil {
		t.Errorf("took %v with %v, want %v", got, pending, idle)
	}
}

func TestNothingIsDestroyedUnderItsWork(t *testing.T) {
	s := newSystem()
	first, event := s.busy(t)
	idle, _ := s.take(t, nil)
	s.Put(idle, 200, nil)
	s.TrimPool()
	if !slices.Equal(s.destroyed, []int{idle.Block}) || s.PoolStats().Cached != 256 {
		t.Fatalf("destroyed %v, %v bytes kept; want %v only", s.destroyed, s.Stats.Cached, idle)
	}
	s.SetPoolLimit(100)
	if len(s.destroyed) != 1 {
		t.Fatal("destroyed for a limit")
	}
	event.Complete(nil)
	s.TrimPool()
	if !slices.Equal(s.destroyed, []int{idle.Block, first.Block}) || s.PoolStats().Cached != 0 {
		t.Errorf("destroyed %v, %d bytes kept", s.destroyed, s.Stats.Cached)
	}
}

func TestTheOldestGoFirst(t *testing.T) {
	s := newSystem()
	var blocks []part
	for range 3 {
		b, _ := s.take(t, nil)
		blocks = append(blocks, b)
	}
	for _, b := range blocks {
		s.Put(b, 200, nil)
	}
	s.SetPoolLimit(300)
	if want := []int{blocks[0].Block, blocks[1].Block}; !slices.Equal(s.destroyed, want) || s.PoolStats().Cached != 256 {
		t.Errorf("destroyed %v, want %v", s.destroyed, want)
	}
}

func TestTheLimitCountsWhatIsKept(t *testing.T) {
	s := newSystem()
	s.SetPoolLimit(1000)
	b, _, err := s.Take(600, 600, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = s.Take(500, 500, nil)
	var typed *core.Error
	if !errors.As(err, &typed) || !errors.Is(err, core.ErrOutOfMemory) || typed.Backend != "test" || typed.Call != "Alloc" ||
		!strings.Contains(typed.Detail, "500 bytes are needed, but 600 are in use and 0 cached of the pool's limit of 1000") {
		t.Errorf("%v", err)
	}
	s.Put(b, 600, nil)
	if _, _, err := s.Take(1<<63-1, 1, nil); !errors.Is(err, core.ErrOutOfMemory) || len(s.destroyed) > 0 {
		t.Errorf("%v, destroyed %v; what cannot fit costs nothing that is kept", err, s.destroyed)
	}
	if _, _, err := s.Take(500, 500, nil); err != nil || len(s.destroyed) != 1 {
		t.Errorf("%v, destroyed %v; want room made", err, s.destroyed)
	}
	s.SetPoolLimit(-1)
	if s.PoolStats().Limit != 0 {
		t.Error("a negative limit is none")
	}
}

func TestAFullDriverGetsBackWhatIsKept(t *testing.T) {
	s := newSystem()
	s.room = 1000
	b, _, err := s.Take(600, 600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Take(500, 500, nil); err != errNoRoom {
		t.Errorf("%v, want the driver's error", err)
	}
	s.Put(b, 600, nil)
	if _, _, err := s.Take(500, 500, nil); err != nil || !slices.Equal(s.destroyed, []int{b.Block}) {
		t.Errorf("%v, destroyed %v", err, s.destroyed)
	}
}

func TestAwaitMakesRoomThatUnfinishedWorkHolds(t *testing.T) {
	s := newSystem()
	s.SetPoolLimit(512)
	_, event := s.busy(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, _, err := s.Take(512, 512, nil); !errors.Is(err, core.ErrOutOfMemory) {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if s.Await(short) {
		t.Error("Await says that work is over which is not")
	}
	time.AfterFunc(5*time.Millisecond, func() {
		s.mu.Lock() // which Await has let go of
		defer s.mu.Unlock()
		event.Complete(nil)
	})
	if !s.Await(t.Context()) {
		t.Error("Await has waited for nothing")
	}
	if _, _, err := s.Take(512, 512, nil); err != nil {
		t.Error(err)
	}
	if s.Await(t.Context()) {
		t.Error("there is no work to wait for")
	}
}

func TestDrainWaitsAndDestroysAll(t *testing.T) {
	s := newSystem()
	_, event := s.busy(t)
	idle, _ := s.take(t, nil)
	s.Put(idle, 200, []core.Event{nil}) // a nil event has been passed
	time.AfterFunc(5*time.Millisecond, func() { event.Complete(nil) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Drain()
	if len(s.destroyed) != 2 || s.Stats.Cached != 0 || s.Stats.InUse != 0 {
		t.Errorf("destroyed %v; %+v", s.destroyed, s.Stats)
	}
}

// A driver may wait for the device before it takes a block back. The mutex is free
// meanwhile, and who has no room waits for what is on its way.
func TestNobodyIsHeldUpByABlockThatLeaves(t *testing.T) {
	var mu sync.Mutex
	room := 1
	leaves, proceed := make(chan struct{}), make(chan struct{})
	p := blockpool.New("test", &mu, func(class) (int, error) {
		if room == 0 {
			return 0, errNoRoom
		}
		room--
		return 0, nil
	}, func(int) {
		mu.Unlock()
		close(leaves)
		<-proceed
		mu.Lock()
		room++
	})
	mu.Lock()
	x, _, err := p.Take(256, 256, nil)
	if err != nil {
		t.Fatal(err)
	}
	p.Put(x, 256, nil)
	mu.Unlock()
	trimmed := make(chan struct{})
	go func() {
		p.TrimPool()
		close(trimmed)
	}()
	<-leaves
	if got := p.PoolStats(); got.Cached != 0 {
		t.Errorf("%+v: what leaves is not kept", got)
	}
	time.AfterFunc(5*time.Millisecond, func() { close(proceed) })
	mu.Lock()
	defer mu.Unlock()
	if _, _, err := p.Take(512, 512, nil); err != nil {
		t.Errorf("%v, though a block is on its way back", err)
	}
	if want := (core.PoolStats{InUse: 512, Requested: 512, Peak: 512}); p.Stats != want {
		t.Errorf("%+v, want %+v", p.Stats, want)
	}
	mu.Unlock()
	<-trimmed
	mu.Lock()
}

// What leaves is the driver's until it has left: the limit holds there, too.
func TestTheLimitCountsWhatLeaves(t *testing.T) {
	var mu sync.Mutex
	var held, most int64
	leaves, proceed := make(chan struct{}), make(chan struct{})
	p := blockpool.New("test", &mu, func(c class) (class, error) {
		held += c.Bytes()
		most = max(most, held)
		return c, nil
	}, func(c class) {
		mu.Unlock()
		close(leaves)
		<-proceed
		mu.Lock()
		held -= c.Bytes()
	})
	p.SetPoolLimit(1000)
	mu.Lock()
	var last *blockpool.Part[class, class]
	for _, c := range []class{500, 400} {
		var err error
		if last, _, err = p.Take(c, c.Bytes(), nil); err != nil {
			t.Fatal(err)
		}
	}
	p.Put(last, 400, nil)
	mu.Unlock()
	trimmed := make(chan struct{})
	go func() {
		p.TrimPool()
		close(trimmed)
	}()
	<-leaves
	time.AfterFunc(5*time.Millisecond, func() { close(proceed) })
	mu.Lock()
	_, _, err := p.Take(450, 450, nil)
	mu.Unlock()
	<-trimmed
	if err != nil || most > 1000 {
		t.Errorf("%v; the driver held %d bytes", err, most)
	}
}

// What somebody makes room for is his, whatever others take and put back meanwhile.
func TestRoomIsKeptWhileTheMutexIsLetGo(t *testing.T) {
	var mu sync.Mutex
	leaves, proceed := make(chan struct{}), make(chan struct{})
	wait := sync.OnceFunc(func() {
		mu.Unlock()
		close(leaves)
		<-proceed
		mu.Lock()
	})
	p := blockpool.New("test", &mu, func(class) (int, error) { return 0, nil }, func(int) { wait() })
	var last part
	take := func(bytes class) (err error) {
		last, _, err = p.Take(bytes, int64(bytes), nil)
		return err
	}
	p.SetPoolLimit(1000)
	mu.Lock()
	if err := errors.Join(take(500), take(400)); err != nil {
		t.Fatal(err)
	}
	p.Put(last, 400, nil)
	mu.Unlock()
	done := make(chan error, 1)
	go func() {
		mu.Lock()
		defer mu.Unlock()
		done <- take(300) // the 400 must go
	}()
	<-leaves
	mu.Lock()
	if err := take(450); !errors.Is(err, core.ErrOutOfMemory) {
		t.Errorf("%v: 500 are in use, and 300 are spoken for", err)
	}
	close(proceed)
	if err := take(150); err != nil {
		t.Error(err)
	}
	p.Put(last, 150, nil)
	mu.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s := p.PoolStats(); s.InUse != 800 || s.InUse+s.Cached > s.Limit {
		t.Errorf("%+v", s)
	}
}

func TestCountTellsCallsFromFailures(t *testing.T) {
	s := newSystem()
	s.Count(nil)
	s.Count(errNoRoom)
	if s.Stats.Allocs != 2 || s.Stats.Failures != 1 {
		t.Errorf("%+v", s.Stats)
	}
}

func TestRoundUp(t *testing.T) {
	for _, c := range []struct{ size, want int64 }{
		{1, 256}, {256, 256}, {257, 512}, {4096, 4096}, {4097, 4608}, {8193, 9216}, {1 << 40, 1 << 40}, {1<<40 + 1, 1<<40 + 1<<37}, {1 << 62, 1 << 62},
	} {
		if got := blockpool.RoundUp(c.size, 256); got != c.want {
			t.Errorf("%d becomes %d, want %d", c.size, got, c.want)
		}
	}
	for size := int64(1); size < 1<<20; size += 97 {
		if got := blockpool.RoundUp(size, 256); got < size || got%256 != 0 || got > max(size+size/8, size+255) || blockpool.RoundUp(got, 256) != got {
			t.Fatalf("%d becomes %d", size, got)
		}
	}
}

func BenchmarkTakeAndPut(b *testing.B) {
	s := newSystem()
	first, _ := s.take(b, nil)
	s.Put(first, 200, nil)
	b.Run("idle", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			s.mu.Lock()
			x, _, _ := s.Take(256, 200, nil)
			s.mu.Unlock()
			s.mu.Lock()
			s.Put(x, 200, nil)
			s.mu.Unlock()
		}
	})
	b.Run("accepted", func(b *testing.B) {
		x, _ := s.take(b, nil)
		s.Put(x, 200, []core.Event{stream.NewEvent()})
		b.ReportAllocs()
		for b.Loop() {
			s.mu.Lock()
			x, pending, _ := s.Take(256, 200, func([]core.Event) bool { return true })
			s.mu.Unlock()
			s.mu.Lock()
			s.Put(x, 200, pending)
			s.mu.Unlock()
		}
	})
}
