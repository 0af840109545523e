package share

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// reader is a subscriber at the publisher. The publisher's mutex guards what is below hold.
type reader struct {
	publisher *Publisher
	conn      *Conn
	id        uint32
	page      *mapping // of the subscriber's words, for reading; the publisher holds a reference
	process   int      // descriptor of its process, or -1; the publisher owns it
	info      Reader
	hold      int  // frames that it may hold, in the mode Latest
	mayWait   bool // its dlx takes frames whose work is unfinished

	first   uint64 // frame that it gets
	end     uint64 // frames from this one on are not for it
	blocked int    // slots that it has kept from a loan
	left    bool
	gone    bool // it was removed, and its page is unmapped

	works []toldWork // of each slot; nil before the first one
	due   []int      // slots of which the subscriber is to be told

	// Counts for Stats.
	sent     int64 // frames
	released int64 // of these, those that it does not need any more
	waits    int64 // of Loan, for its slots
}

// never is the end of a subscriber that has not left.
const never = maxFrame + 1

// join adds a subscriber, to which it gives its first frame. It returns why that cannot be. On
// success the publisher owns the reference to the page and the descriptor.
func (p *Publisher) join(r *reader) (refused string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hold := r.hold
	for _, other := range p.readers {
		hold += other.hold
	}
	switch {
	case p.closed:
		return "the ring has ended"
	case len(p.readers) == maxReaders:
		return fmt.Sprintf("the ring has %d subscriptions, which is the most that it can", maxReaders)
	case p.ring.Mode == Latest && hold+2 > len(p.slots):
		return fmt.Sprintf("the subscribers would hold %d frames at once, and the ring has %d slots, of which two are for the publisher: make the ring with more slots, or hold fewer frames", hold, len(p.slots))
	}
	r.first, r.end = p.count+1, never
	if p.ring.Mode == Latest && p.count > 0 { // there is a newest frame
		switch w := p.slots[p.latest].work; {
		case w == nil:
			r.first = p.count
		case r.mayWait:
			r.first = p.count
			if !w.ended {
				w.readers = append(w.readers, r)
			}
			r.owe(w)
		}
	}
	p.setReaders(append(slices.Clone(p.readers), r))
	return ""
}

// setReaders changes the subscribers. p.mu is held.
func (p *Publisher) setReaders(list []*reader) {
	p.readers, p.reports, p.leaving = list, nil, false
	for _, r := range list {
		if r.left {
			p.leaving = true
		} else {
			p.reports = append(p.reports, r.info)
		}
	}
	p.stir()
}

// leave ends a subscription whose subscriber is alive: it still reads the frames before next that it
// has not released.
func (p *Publisher) leave(r *reader, next uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.readers, r) {
		return
	}
	p.tally(r)
	r.left, r.end = true, min(r.end, next)
	p.setReaders(p.readers)
	p.sweep()
}

// sweep removes subscribers that have left and read no slot. p.mu is held.
func (p *Publisher) sweep() {
	p.remove(func(r *reader) bool {
		if !r.left {
			return false
		}
		for i := range p.slots {
			if p.reads(r, i) {
				return false
			}
		}
		return true
	})
}

// remove removes subscribers, whose slots are free at once. p.mu is held.
func (p *Publisher) remove(gone func(*reader) bool) {
	stay := make([]*reader, 0, len(p.readers))
	for _, r := range p.readers {
		if gone(r) {
			p.forget(r)
			p.end(r)
		} else {
			stay = append(stay, r)
		}
	}
	if len(stay) < len(p.readers) {
		p.setReaders(stay)
	}
}

// forget takes a subscriber out of those that are told of unfinished work: it needs no frame any more, or has no
// connection. p.mu is held.
func (p *Publisher) forget(r *reader) {
	for i := range p.slots {
		if w := p.slots[i].work; w != nil && slices.Contains(w.readers, r) { // Send may use the old slice
			w.readers = slices.DeleteFunc(slices.Clone(w.readers), func(x *reader) bool { return x == r })
		}
	}
}

// end gives back what the publisher has of a subscriber. p.mu is held.
func (p *Publisher) end(r *reader) {
	p.tally(r)
	r.gone = true
	r.page.release()
	if r.process >= 0 {
		closeFD(r.process)
		r.process = -1
	}
}

// drop removes the subscribers of a connection that has ended. The slots that they had are free at once,
// unless the process has ended without a goodbye: its work on a device may go on until the system has
// taken the device from it.
func (p *Publisher) drop(c *Conn) {
	died := errors.Is(c.cause(), io.ErrUnexpectedEOF)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.offers, c)
	p.remove(func(r *reader) bool {
		if r.conn == c && died {
			p.retire(r)
		}
		return r.conn == c
	})
}

// accuse removes a subscriber that claims more slots than it may hold, and ends its connection.
// p.mu is held.
func (p *Publisher) accuse(r *reader) {
	err := violation("subscription %d of ring %q claims more than the %d slots that it may hold", r.id, p.message.name, r.hold)
	p.remove(func(x *reader) bool { return x == r })
	go r.conn.fail(err) // it may have to wait for the lock of the writer
}

// defaultExitTime bounds how long slots wait for the end of a process.
const defaultExitTime = time.Second

// retire keeps the slots that a subscriber needs from being written until its process has ended, as far as
// that is known: the system then has closed the devices of the process, and has stopped its work. p.mu is held.
func (p *Publisher) retire(r *reader) {
	if r.process < 0 || p.closed {
		return
	}
	var list []int
	for i := range p.slots {
		if p.reads(r, i) {
			p.slots[i].retired++
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return
	}
	process := r.process // this goroutine owns it now
	r.process = -1
	p.idle.Go(func() {
		ctx, cancel := context.WithTimeout(p.life, p.exitTime)
		defer cancel()
		awaitExit(ctx, process)
		closeFD(process)
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, i := range list {
			p.slots[i].retired--
		}
		p.stir()
	})
}
