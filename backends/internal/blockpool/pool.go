package blockpool

import (
	"context"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
)

// Class is what blocks must have in common to stand in for each other.
type Class interface {
	comparable
	// Bytes is the size of each block of the class.
	Bytes() int64
}

// Pool keeps blocks B that were freed, by class C. A block may come back while work
// on it is unfinished: it is handed out when that is over, or at once to whoever
// makes his own work wait for it, and not destroyed before. InUse + Cached of its
// stats stays within Limit, except for blocks whose work is unfinished.
//
// All is guarded by the mutex that [New] got, which callers hold; see [Ledger].
type Pool[C Class, B any] struct {
	Ledger
	make    func(C) (B, error)
	destroy func(B)
	shelves map[C]*shelf[B]
	leaving int64      // bytes that are being destroyed, which nothing else counts
	left    *sync.Cond // leaving is less
}

// shelf has the blocks of a class.
type shelf[B any] struct {
	idle []B       // the one freed last, whose cache lines are warmest, at the end
	busy []used[B] // the one freed first, whose work is over soonest, at the start
}

// used is a block with its unfinished work.
type used[B any] struct {
	block   B
	pending []core.Event
}

// over reports whether the work is over. What of it is, at its start, is forgotten, so
// that a block that goes on and on behind a stream does not gather events.
func (u *used[B]) over() bool {
	for len(u.pending) > 0 && reaper.Over(u.pending[:1]) {
		u.pending = u.pending[1:]
	}
	return len(u.pending) == 0
}

// New makes an empty pool without a limit. Its errors name the backend; mu guards
// it. create has the driver make a block, and destroy give it back; both are called
// with mu held, and may let go of it meanwhile: where the driver waits for the device.
func New[C Class, B any](backend string, mu sync.Locker, create func(C) (B, error), destroy func(B)) *Pool[C, B] {
	p := &Pool[C, B]{make: create, destroy: destroy, shelves: make(map[C]*shelf[B]), left: sync.NewCond(mu)}
	p.Ledger = *NewLedger(backend, mu, p.shrink)
	return p
}

// Take hands out a block of class c, of which requested bytes were asked for: one
// that is kept, without work, else the first whose unfinished work accept says yes to, else
// a new one. accept, which may be nil, makes what the taker does wait for all of
// pending, where it can. pending is what it said yes to: as long as that is not over,
// it belongs among what the block is given back with, since the next taker may be another.
//
// Where the driver has no room, what is kept is given back first. Take fails with
// what create fails with, and with ErrOutOfMemory under a limit; [Pool.Await] may help then.
func (p *Pool[C, B]) Take(c C, requested int64, accept func(pending []core.Event) bool) (b B, pending []core.Event, err error) {
	u, ok := p.find(c, accept)
	if ok {
		p.Stats.Cached -= c.Bytes()
		p.Stats.Hits++
	} else if u.block, err = p.grow(c); err != nil {
		return b, nil, err
	}
	p.Charge(c.Bytes(), requested)
	return u.block, u.pending, nil
}

// find takes a block off its shelf.
func (p *Pool[C, B]) find(c C, accept func(pending []core.Event) bool) (u used[B], ok bool) {
	s := p.shelves[c]
	if s == nil {
		return u, false
	}
	if last := len(s.idle) - 1; last >= 0 {
		u.block = s.idle[last]
		s.idle = s.idle[:last]
		return u, true
	}
	i := s.free(accept)
	if i < 0 {
		return u, false
	}
	u = s.busy[i]
	s.busy = slices.Delete(s.busy, i, i+1)
	return u, true
}

// free is the place of the first block whose work is over, else of the first whose
// work accept says yes to, -1 if there is neither.
func (s *shelf[B]) free(accept func(pending []core.Event) bool) int {
	for i := range s.busy {
		if s.busy[i].over() {
			return i
		}
	}
	if accept == nil {
		return -1
	}
	return slices.IndexFunc(s.busy, func(u used[B]) bool { return accept(u.pending) })
}

// MakeRoom is [Ledger.MakeRoom], and waits until what leaves makes room at the driver, too.
func (p *Pool[C, B]) MakeRoom(bytes int64) error {
	if err := p.Ledger.MakeRoom(bytes); err != nil {
		return err
	}
	s := &p.Stats
	s.InUse += bytes
	for s.Limit > 0 && p.leaving > 0 && s.InUse+s.Cached+p.leaving > s.Limit {
		p.left.Wait()
	}
	s.InUse -= bytes
	return nil
}

// grow has the driver make a block, for which there is room meanwhile.
func (p *Pool[C, B]) grow(c C) (b B, err error) {
	if err := p.MakeRoom(c.Bytes()); err != nil {
		return b, err
	}
	p.Stats.InUse += c.Bytes()
	defer func() { p.Stats.InUse -= c.Bytes() }()
	b, err = p.make(c)
	if err != nil && p.Reclaim() {
		b, err = p.make(c)
	}
	return b, err
}

// Put takes a block of class c back, of which requested bytes had been asked for.
// pending is work on it that may be unfinished, which the pool takes over; with the
// mutex held, it asks those events whether they are done. What is beyond the limit is destroyed.
func (p *Pool[C, B]) Put(c C, b B, requested int64, pending []core.Event) {
	p.Charge(-c.Bytes(), -requested)
	s := p.shelves[c]
	if s == nil {
		s = new(shelf[B])
		p.shelves[c] = s
	}
	if len(pending) == 0 {
		s.idle = append(s.idle, b)
	} else {
		s.busy = append(s.busy, used[B]{b, pending})
	}
	p.Stats.Cached += c.Bytes()
	p.KeepLimit()
}

// Await waits until the work on all blocks that are kept now is over, or ctx ends. It
// reports whether there was any and it is over: then memory can be had that could not
// be had before. It lets go of the mutex while it waits.
func (p *Pool[C, B]) Await(ctx context.Context) bool {
	var pending []core.Event
	for _, s := range p.shelves {
		for _, u := range s.busy {
			pending = append(pending, u.pending...)
		}
	}
	p.mu.Unlock()
	defer p.mu.Lock()
	for _, e := range pending {
		if e != nil {
			_ = e.Wait(ctx) // that the work failed is its stream's to tell
		}
	}
	return len(pending) > 0 && ctx.Err() == nil
}

// Drain waits for the work on what is kept and destroys all of it, for Close. It
// lets go of the mutex while it waits.
func (p *Pool[C, B]) Drain() {
	p.Await(context.Background())
	p.Reclaim()
}

// Reclaim is Trim for whom the driver had no room: it also waits for what others are
// giving back. It reports whether there was anything.
func (p *Pool[C, B]) Reclaim() bool {
	kept := p.Stats.Cached > 0 || p.leaving > 0
	p.Trim()
	for p.leaving > 0 {
		p.left.Wait()
	}
	return kept
}

// shrink destroys at least want bytes of what is kept, if it can: of each class the
// blocks that were freed longest ago, and none whose work is unfinished.
func (p *Pool[C, B]) shrink(want int64) {
	var gone []B
	cached := p.Stats.Cached
	for c, s := range p.shelves {
		leaves := func(b B) bool {
			gone = append(gone, b)
			p.Stats.Cached -= c.Bytes()
			want -= c.Bytes()
			return true
		}
		s.idle = slices.DeleteFunc(s.idle, func(b B) bool { return want > 0 && leaves(b) })
		s.busy = slices.DeleteFunc(s.busy, func(u used[B]) bool { return want > 0 && u.over() && leaves(u.block) })
	}
	leaving := cached - p.Stats.Cached
	p.leaving += leaving
	for _, b := range gone {
		p.destroy(b) // the shelves may be others' meanwhile
	}
	p.leaving -= leaving
	p.left.Broadcast()
}
