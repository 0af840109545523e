package blockpool

import (
	"context"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
)

// Class is what blocks must have in common to replace each other.
type Class interface {
	comparable
	// Bytes returns the size of each block of the class.
	Bytes() int64
}

// Pool keeps freed blocks of type B, by class C. A block may be freed while work on it is unfinished. It is
// then reused after that work, or at once by a caller whose own work waits for it, and it is not destroyed
// before. InUse + Cached of the stats stays within the limit, except for blocks with unfinished work.
//
// The mutex of [New] guards everything, and callers hold it; see [Ledger].
type Pool[C Class, B any] struct {
	Ledger
	make    func(C) (B, error)
	destroy func(B)
	shelves map[C]*shelf[B]
	leaving int64      // bytes that are being destroyed, which nothing else counts
	left    *sync.Cond // signalled when leaving decreases
}

// shelf holds the free blocks of a class.
type shelf[B any] struct {
	idle []B       // in the order of release: the last one is reused first, since it may still be in the processor's caches
	busy []used[B] // in the order of release: the work of the first one ends soonest
}

// used is a block with its unfinished work.
type used[B any] struct {
	block   B
	pending []core.Event
}

// over reports whether the work is done. It drops the events at the start that are done, so that a block that
// always has work does not collect events.
func (u *used[B]) over() bool {
	for len(u.pending) > 0 && reaper.Over(u.pending[:1]) {
		u.pending = u.pending[1:]
	}
	return len(u.pending) == 0
}

// New makes an empty pool without a limit. backend is named in errors, and mu guards the pool. create makes a
// block by the driver, and destroy returns it to the driver. Both are called with mu held, and may unlock it
// for a time where the driver waits for the device.
func New[C Class, B any](backend string, mu sync.Locker, create func(C) (B, error), destroy func(B)) *Pool[C, B] {
	p := &Pool[C, B]{make: create, destroy: destroy, shelves: make(map[C]*shelf[B]), left: sync.NewCond(mu)}
	p.Ledger = *NewLedger(backend, mu, p.shrink)
	return p
}

// Take returns a block of class c for requested bytes. It prefers a free block without work, then the first
// block whose unfinished work accept takes, then a new block. accept, which may be nil, makes the caller's
// work wait for all of pending, and reports whether it could. Take returns the pending work that accept took.
// Until that work is done, the caller passes it to Put with the block, since the next user may be another
// one.
//
// If the driver is out of memory, Take frees cached memory and tries again. It fails as create does, and with
// ErrOutOfMemory if the limit is exceeded; [Pool.Await] may then help.
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

// find takes a free block from its shelf.
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

// free returns the index of the first busy block whose work is done, or else of the first whose work accept
// takes, or -1.
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

// MakeRoom is [Ledger.MakeRoom], and also waits until the driver has freed the memory.
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

// grow makes a block by the driver. The block counts against the limit meanwhile.
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

// Put frees a block of class c that was taken for requested bytes. pending is work on it that may be
// unfinished; the pool owns the slice from then on, and asks the events whether they are done while the mutex
// is held. A block beyond the limit is destroyed.
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

// Await waits until the work on all blocks that are free now is done, or ctx ends. It reports whether there
// was such work and it is done; an allocation that failed before may then succeed. It unlocks the mutex while
// it waits.
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
			_ = e.Wait(ctx) // the stream of the work reports its error
		}
	}
	return len(pending) > 0 && ctx.Err() == nil
}

// Drain waits for the work on all free blocks and destroys them, for Close of the device. It unlocks the
// mutex while it waits.
func (p *Pool[C, B]) Drain() {
	p.Await(context.Background())
	p.Reclaim()
}

// Reclaim frees all cached memory after the driver was out of memory. Unlike Trim, it also waits for blocks
// that other goroutines are destroying. It reports whether there was anything to free.
func (p *Pool[C, B]) Reclaim() bool {
	kept := p.Stats.Cached > 0 || p.leaving > 0
	p.Trim()
	for p.leaving > 0 {
		p.left.Wait()
	}
	return kept
}

// shrink destroys at least want bytes of free blocks if it can: of each class those that were freed first,
// and none with unfinished work.
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
		p.destroy(b) // may unlock the mutex, so the shelves may change
	}
	p.leaving -= leaving
	p.left.Broadcast()
}
