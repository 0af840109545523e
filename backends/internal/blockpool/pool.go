package blockpool

import (
	"context"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
)

// Class is what blocks must have in common to replace each other.
type Class interface {
	comparable
	// Bytes returns the size of each block of the class.
	Bytes() int64
}

// Pool keeps freed blocks of type B, by class C, and hands out parts of them. A part may be freed while work on it is
// unfinished. It is then reused after that work, or at once by a caller whose own work waits for it, and its block is
// not destroyed before. InUse + Cached of the stats stays within the limit, except for blocks with unfinished work.
//
// The mutex of [New] guards everything, and callers hold it; see [Ledger].
type Pool[C Class, B any] struct {
	Ledger

	// These fields are set before the first call of Take.
	Resize func(c C, bytes int64) C // returns the class c with another size; if nil, blocks are not divided
	Keep   int64                    // the most bytes without work that are kept; 0 means no bound
	Idle   time.Duration            // after this time without use, or twice it at most, a free block is destroyed; 0 means never

	make    func(C) (B, error)
	destroy func(B)
	shelves map[C]*shelf[C, B]
	idle    int64      // bytes in the idle lists of all shelves
	leaving int64      // bytes that are being destroyed, which nothing else counts
	left    *sync.Cond // signalled when leaving decreases
	clock   clock
}

// Part is a part of a block, or all of it. While it is in use, it belongs to whoever took it.
type Part[C Class, B any] struct {
	Block  B
	Offset int64 // of the part in the block
	Size   int64 // bytes, at least those of the class that was asked for

	class   C // of the block
	before  *Part[C, B]
	after   *Part[C, B] // the neighbours in the block
	pending []core.Event
	period  int // in which the part came to its shelf

	shelf        *shelf[C, B] // nil while the part is in use
	busy         bool         // it is in the busy list of its shelf
	older, newer *Part[C, B]  // in that list
}

// shelf holds the free parts of a class, and those that are larger by less than the next class.
type shelf[C Class, B any] struct {
	idle list[C, B] // the last one is reused first, since it may still be in the processor's caches
	busy list[C, B] // with unfinished work: that of the oldest ends soonest
}

// share is the part of a block that is worth a part of its own: an eighth. So nothing in use keeps more than eight times
// its size from being returned to the system, and a block has at most eight parts.
const share = 8

// over reports whether the work is done. It drops the events at the start that are done, so that a part that
// always has work does not collect events.
func (x *Part[C, B]) over() bool {
	for len(x.pending) > 0 && reaper.Over(x.pending[:1]) {
		x.pending = x.pending[1:]
	}
	return len(x.pending) == 0
}

// whole reports whether the part is all of its block.
func (x *Part[C, B]) whole() bool { return x.Size == x.class.Bytes() }

// idle reports whether the part is in an idle list. x may be nil.
func (x *Part[C, B]) idle() bool { return x != nil && x.shelf != nil && !x.busy }

// New makes an empty pool without a limit. backend is named in errors, and mu guards the pool. create makes a
// block by the driver, and destroy returns it to the driver. Both are called with mu held, and may unlock it
// for a time where the driver waits for the device.
func New[C Class, B any](backend string, mu sync.Locker, create func(C) (B, error), destroy func(B)) *Pool[C, B] {
	p := &Pool[C, B]{make: create, destroy: destroy, shelves: make(map[C]*shelf[C, B]), left: sync.NewCond(mu)}
	p.Ledger = *NewLedger(backend, mu, p.shrink)
	return p
}

// Take returns memory for requested bytes, which are at most those of class c. It prefers free memory without work, then
// the first part whose unfinished work accept takes, then a new block. accept, which may be nil, makes the caller's
// work wait for all of pending, and reports whether it could. Take returns the pending work that accept took.
// Until that work is done, the caller passes it to Put with the part, since the next user may be another
// one.
//
// If the driver is out of memory, Take frees cached memory and tries again. It fails as create does, and with
// ErrOutOfMemory if the limit is exceeded; [Pool.Await] may then help.
func (p *Pool[C, B]) Take(c C, requested int64, accept func(pending []core.Event) bool) (x *Part[C, B], pending []core.Event, err error) {
	if x = p.find(c, accept); x != nil {
		p.unshelve(x)
		if x.pending, pending = nil, x.pending; len(pending) == 0 {
			p.split(x, c.Bytes())
		}
		p.Stats.Hits++
	} else if x, err = p.grow(c); err != nil {
		return nil, nil, err
	}
	p.Charge(x.Size, requested)
	return x, pending, nil
}

// find returns a free part, which is still on its shelf, or nil.
func (p *Pool[C, B]) find(c C, accept func(pending []core.Event) bool) *Part[C, B] {
	s := p.shelves[c]
	if s != nil {
		if s.idle.newest != nil {
			return s.idle.newest
		}
		for x := s.busy.oldest; x != nil; x = x.newer {
			if x.over() {
				return x
			}
		}
	}
	if x := p.larger(c); x != nil {
		return x
	}
	if s != nil && accept != nil {
		for x := s.busy.oldest; x != nil; x = x.newer {
			if accept(x.pending) {
				return x
			}
		}
	}
	if p.Resize == nil || !p.settle() { // else parts may have joined
		return nil
	}
	if s = p.shelves[c]; s != nil && s.idle.newest != nil {
		return s.idle.newest
	}
	return p.larger(c)
}

// grow makes a block by the driver. The block counts against the limit meanwhile.
func (p *Pool[C, B]) grow(c C) (x *Part[C, B], err error) {
	if err := p.MakeRoom(c.Bytes()); err != nil {
		return nil, err
	}
	p.Stats.InUse += c.Bytes()
	defer func() { p.Stats.InUse -= c.Bytes() }()
	b, err := p.make(c)
	if err != nil && p.Reclaim() {
		b, err = p.make(c)
	}
	if err != nil {
		return nil, err
	}
	return &Part[C, B]{Block: b, Size: c.Bytes(), class: c}, nil
}

// Put frees a part that was taken for requested bytes. pending is work on it that may be
// unfinished; the pool owns the slice from then on, and asks the events whether they are done while the mutex
// is held. What is beyond the limit or Keep is destroyed.
func (p *Pool[C, B]) Put(x *Part[C, B], requested int64, pending []core.Event) {
	p.Charge(-x.Size, -requested)
	x.pending = pending
	p.shelve(x)
	p.KeepLimit()
	if p.Keep > 0 && p.idle > p.Keep {
		p.drop(p.idle-p.Keep, never)
	}
	p.wind()
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

// Await waits until the work on all blocks that are free now is done, or ctx ends. It reports whether there
// was such work and it is done; an allocation that failed before may then succeed. It unlocks the mutex while
// it waits.
func (p *Pool[C, B]) Await(ctx context.Context) bool {
	var pending []core.Event
	for _, s := range p.shelves {
		for x := s.busy.oldest; x != nil; x = x.newer {
			pending = append(pending, x.pending...)
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

// Drain waits for the work on all free blocks and destroys them, for Close of the device: nothing is taken any more, and
// what was taken was put back. It unlocks the mutex while it waits.
func (p *Pool[C, B]) Drain() {
	p.Await(context.Background())
	p.Reclaim()
	p.clock.stop()
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

// shrink destroys free blocks of at least want bytes if it can, and none with unfinished work.
func (p *Pool[C, B]) shrink(want int64) {
	if want -= p.drop(want, never); want > 0 && p.settle() {
		p.drop(want, never)
	}
}

// never is a period that does not end.
const never = int(^uint(0) >> 1)

// drop destroys free blocks without work of at least want bytes if it can, of each class those that were freed first, and
// only those that were freed before a period. It returns how many bytes they have.
func (p *Pool[C, B]) drop(want int64, before int) (bytes int64) {
	var gone []B
	for _, s := range p.shelves {
		var next *Part[C, B]
		for x := s.idle.oldest; x != nil && bytes < want; x = next {
			next = x.newer
			if x.whole() && x.period < before {
				p.unshelve(x)
				gone = append(gone, x.Block)
				bytes += x.Size
			}
		}
	}
	p.leaving += bytes
	for _, b := range gone {
		p.destroy(b) // may unlock the mutex, so the shelves may change
	}
	p.leaving -= bytes
	p.left.Broadcast()
	return bytes
}
