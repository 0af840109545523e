package engine

import (
	"sync"
	"sync/atomic"
)

// progress says which items of a queue are done. Items are numbered from 1 on. Metal may report the end of a command
// buffer before that of an earlier one; an item counts as done when all before it are, too.
type progress struct {
	reached atomic.Uint64 // all items up to this one are done; stored with mu held

	mu      sync.Mutex
	ahead   map[uint64]bool // items that are done before an earlier one
	waiting []waiter
}

type waiter struct {
	number uint64
	ready  chan struct{}
}

// has reports whether an item is done.
func (p *progress) has(number uint64) bool { return p.reached.Load() >= number }

// finish records that an item is done. If that makes an item done, and all before it, finish calls publish with the number
// of the last one before anybody sees that.
func (p *progress) finish(number uint64, publish func(reached uint64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	reached := p.reached.Load()
	if number != reached+1 {
		if p.ahead == nil {
			p.ahead = make(map[uint64]bool)
		}
		p.ahead[number] = true
		return
	}
	for reached = number; p.ahead[reached+1]; reached++ {
		delete(p.ahead, reached+1)
	}
	publish(reached)
	p.reached.Store(reached)
	kept := p.waiting[:0]
	for _, w := range p.waiting {
		if w.number <= reached {
			close(w.ready)
		} else {
			kept = append(kept, w)
		}
	}
	clear(p.waiting[len(kept):])
	p.waiting = kept
}

// done is the channel of items that are done.
var done = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// until returns a channel that is closed when an item is done.
func (p *progress) until(number uint64) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.has(number) {
		return done
	}
	for _, w := range p.waiting {
		if w.number == number {
			return w.ready
		}
	}
	w := waiter{number, make(chan struct{})}
	p.waiting = append(p.waiting, w)
	return w.ready
}
