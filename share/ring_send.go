package share

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// Loan returns the tensor of a free slot, whose elements are anything. The caller fills it,
// and passes it to [Publisher.Send], which takes it over, or closes it to give the slot back.
//
// In the mode Queue, Loan waits until all subscribers have released a slot. In the mode Latest it
// does not wait for subscribers. In both modes, a slot that was sent with unfinished work is free when that
// work is done. Loan returns ctx's error, core.ErrClosed if the publisher is closed, and in the
// mode Latest core.ErrOutOfMemory if the program itself has too many slots: those that were
// loaned, and those of which it has kept views.
func (p *Publisher) Loan(ctx context.Context) (*core.Tensor, error) {
	if p == nil || p.words == nil {
		return nil, noPublisher("Loan")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	if !p.closed {
		if t, err := p.loan(); t != nil || err != nil {
			p.mu.Unlock()
			return t, err
		}
		p.blame()
	}
	p.mu.Unlock()
	return p.loanLater(ctx)
}

// loanLater waits for a free slot.
func (p *Publisher) loanLater(ctx context.Context) (t *core.Tensor, failed error) {
	err := p.wait(ctx, "Loan", func() bool {
		t, failed = p.loan()
		return t != nil || failed != nil
	})
	if err != nil {
		return nil, err
	}
	return t, failed
}

// loan takes a free slot. It returns nil if the caller has to wait for one. p.mu is held.
func (p *Publisher) loan() (*core.Tensor, error) {
	i, err := p.find()
	if i < 0 || err != nil {
		return nil, err
	}
	s := &p.slots[i]
	if s.tensor == nil {
		if err := p.wrap(i); err != nil {
			return nil, err
		}
	}
	sequence := p.sequence(i)
	// The unlock of p.mu is the barrier that keeps writes of elements behind this store; see DESIGN.md.
	atomic.StoreUint64(sequence, *sequence&^looking|1)
	s.loaned, s.free, p.blamed = true, false, false
	if s.work != nil {
		s.work = nil
	}
	p.last, p.next = i, i+1
	if p.next == len(p.slots) {
		p.next = 0
	}
	return s.tensor, nil
}

// sequence returns the word of a slot's sequence, which only this publisher writes.
func (p *Publisher) sequence(i int) *uint64 {
	return p.words.u64(sequenceAt(len(p.slots)) + 8*int64(i))
}

// find returns a slot that may be written; -1 if there is none. p.mu is held.
func (p *Publisher) find() (int, error) {
	if p.ring.Mode == Latest {
		return p.findLatest()
	}
	for refreshed := false; ; refreshed = true {
		for i := p.next; i < len(p.slots); i++ {
			if p.slots[i].free && p.isIdle(i) {
				return i, nil
			}
		}
		for i := range p.next {
			if p.slots[i].free && p.isIdle(i) {
				return i, nil
			}
		}
		if refreshed {
			return -1, nil
		}
		if p.leaving {
			p.sweep()
		}
		// Words of subscribers are read for all slots at once: a word that another processor
		// has written takes longer to read than all of this.
		for i := range p.slots {
			s := &p.slots[i]
			s.free = s.free || !s.loaned && !p.isRead(i)
		}
	}
}

// isIdle reports whether neither the program nor its unfinished work keeps a slot from a loan. p.mu is held.
func (p *Publisher) isIdle(i int) bool {
	s := &p.slots[i]
	return !s.loaned && s.retired == 0 && s.spoiled == nil && (s.tensor == nil || isUnused(s.tensor, s.buffer))
}

// isEnding reports whether a slot becomes idle without the program: by the end of work or of a process. p.mu is held.
func (p *Publisher) isEnding(i int) bool {
	s := &p.slots[i]
	return s.retired > 0 || s.spoiled != nil && s.spoiled.ending
}

// isUnused reports whether the program has neither closed the tensor of a slot nor kept a view of it.
func isUnused(t *core.Tensor, b *core.Buffer) bool {
	_, err := t.Buffer()
	return err == nil && privateCore.Unique(b)
}

// isRead reports whether a subscriber needs the frame of a slot, in the mode Queue, or holds it. p.mu
// is held.
func (p *Publisher) isRead(i int) bool {
	for _, r := range p.readers {
		if p.reads(r, i) {
			return true
		}
	}
	return false
}

// reads is isRead for one subscriber.
func (p *Publisher) reads(r *reader, i int) bool {
	claim := atomic.LoadUint64(r.page.u64(claimsAt + 8*int64(i)))
	if p.ring.Mode == Latest {
		return claim != 0
	}
	frame := p.slots[i].frame
	return frame >= r.first && frame < r.end && claim != frame
}

// findLatest is find in the mode Latest. It marks the sequence of a slot before it looks whether a
// subscriber has claimed it, and a subscriber claims a slot before it looks at the sequence: one
// of the two notices the other one.
func (p *Publisher) findLatest() (int, error) {
	if p.leaving {
		p.sweep()
	}
	for {
		own, working := 0, false
		for _, r := range p.readers {
			r.blocked = 0
		}
		for n := range p.slots {
			i := (p.next + n) % len(p.slots)
			if i == p.latest {
				continue
			}
			if !p.isIdle(i) {
				own++
				working = working || p.isEnding(i)
				continue
			}
			sequence := p.sequence(i)
			before := *sequence
			atomic.StoreUint64(sequence, before|looking)
			if !p.isRead(i) {
				return i, nil
			}
			atomic.StoreUint64(sequence, before)
			for _, r := range p.readers {
				if p.reads(r, i) {
					r.blocked++
				}
			}
		}
		ended := false
		for _, r := range p.readers {
			if r.blocked > r.hold {
				ended = true
				p.accuse(r)
			}
		}
		if working && !ended {
			return -1, nil
		}
		if !ended {
			return -1, core.Errorf(core.ErrOutOfMemory, "share", "Loan", "this process uses %d of the %d slots of ring %q: send or close the tensors that were loaned, and close views of them", own, len(p.slots), p.message.name)
		}
	}
}

// wrap makes the tensor of a slot. p.mu is held.
func (p *Publisher) wrap(i int) error {
	if err := p.place.Retain(); err != nil {
		return err
	}
	o := &publishedOwner{publisher: p, slot: i, place: p.place}
	m, spec := p.place.Memory(), p.message.spec
	m.Owner, spec.Offset = o, p.message.slot(i)
	t, err := core.Wrap(m, spec)
	if err != nil {
		p.place.Release()
		return err
	}
	b, err := t.Buffer()
	if err != nil { // cannot be: it is open
		return err
	}
	p.slots[i].tensor, p.slots[i].buffer, p.slots[i].owner = t, b, o
	return nil
}

// Send passes the tensor of a slot, which [Publisher.Loan] has returned, to all subscribers. On
// success it takes the tensor over: the caller uses it no more. On failure the caller still has it.
//
// Work that writes the slot may be unfinished. Send then does not wait for it, and each subscriber waits for the work, on its
// device where that can; see [Reader]. Send may make a semaphore in a driver for that, and waits for a tenth of a second at most
// for each peer that does not read its messages. An error of the work goes to those that read the frame. If the
// dlx of a subscriber is too old for that, Send waits for the work, and reports HostWait.
//
// Send returns core.ErrInvalid if t is not on loan, the error of the last write to t if it is known,
// ctx's error, and core.ErrClosed if the publisher is closed.
func (p *Publisher) Send(ctx context.Context, t *core.Tensor) (RingReport, error) {
	if p == nil || p.words == nil {
		return RingReport{}, noPublisher("Send")
	}
	if e := t.Ready(); e != nil {
		if done, err := e.Done(); !done {
			return p.sendUnfinished(ctx, t, e)
		} else if err != nil {
			return RingReport{}, t.WaitReady(ctx)
		}
	}
	p.mu.Lock()
	i := p.loaned(t)
	if p.closed || i < 0 || p.count == maxFrame {
		err := p.refuses(i)
		p.mu.Unlock()
		return RingReport{}, err
	}
	p.publish(i, i)
	n, readers := p.count, p.reports
	p.mu.Unlock()
	return RingReport{Sequence: n, Readers: readers}, nil
}

// refuses returns why Send fails for slot i, or for a tensor of no slot. p.mu is held.
func (p *Publisher) refuses(i int) error {
	switch {
	case p.closed:
		return p.isClosed("Send")
	case i < 0:
		return core.Errorf(core.ErrInvalid, "share", "Send", "the tensor is not on loan from ring %q: send the tensor of a loan, once", p.message.name)
	default:
		return core.Errorf(core.ErrOutOfMemory, "share", "Send", "ring %q has passed %d frames, which is the most that it can: make another one", p.message.name, p.count)
	}
}

// loaned returns the slot of a tensor that is on loan, or -1. p.mu is held.
func (p *Publisher) loaned(t *core.Tensor) int {
	if s := &p.slots[p.last]; s.loaned && s.tensor == t { // the usual case
		return p.last
	}
	return slices.IndexFunc(p.slots, func(s publishedSlot) bool { return s.loaned && s.tensor == t })
}

// publish makes the frame of slot i visible, and wakes the subscribers that sleep. The words have the slot as marked
// says: i, perhaps with the bit unfinished. p.mu is held.
func (p *Publisher) publish(i, marked int) {
	p.count++
	if p.entry++; p.entry == len(p.slots) {
		p.entry = 0
	}
	s := &p.slots[i]
	s.loaned, s.frame, p.latest = false, p.count, i
	entry := pack(p.count, marked)
	// The store of the last word makes the others visible: subscribers read them after it.
	*p.words.u64(logAt + 8*int64(p.entry)) = entry
	*p.sequence(i) = 2 * p.count
	atomic.StoreUint64(p.words.u64(publishedAt), entry)
	for _, r := range p.readers {
		if atomic.LoadUint32(r.page.u32(sleepingAt)) != 0 {
			stir(p.words.u32(signalAt))
			break
		}
	}
}

// wait waits until ready returns true, which it calls with p.mu held. It returns ctx's error, or
// core.ErrClosed.
func (p *Publisher) wait(ctx context.Context, call string, ready func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var failed error
	look := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed {
			failed = p.isClosed(call)
			return true
		}
		return ready()
	}
	for !p.spin(look) {
		if !p.rest(ctx, ready) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return failed
}

// rest sleeps until a subscriber has released a slot, or something else has changed. It reports
// false if ready returns true.
func (p *Publisher) rest(ctx context.Context, ready func() bool) bool {
	var list [maxWords]word
	words := list[:0]
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return true
	}
	p.sleepers++
	atomic.StoreUint32(p.words.u32(waitingAt), 1)
	for _, r := range p.readers {
		at := r.page.u32(freedAt)
		words = append(words, word{at, atomic.LoadUint32(at)})
		r.page.retain() // until nobody sleeps on it
	}
	readers := p.readers // nobody changes the slice
	turn := p.words.u32(turnAt)
	words = append(words, word{turn, atomic.LoadUint32(turn)})
	p.words.retain()
	limit, noticed := sleepLimit(ctx)
	if !noticed && ctx.Done() != p.watched {
		if p.unwatch != nil {
			p.unwatch()
		}
		p.watched, p.unwatch = ctx.Done(), context.AfterFunc(ctx, func() { p.mu.Lock(); defer p.mu.Unlock(); p.stir() })
	}
	found := ready()
	p.mu.Unlock()
	if !found && ctx.Err() == nil { // else its end may have found nobody to wake
		sleep(words, limit)
	}
	p.mu.Lock()
	if p.sleepers--; p.sleepers == 0 {
		atomic.StoreUint32(p.words.u32(waitingAt), 0)
	}
	p.mu.Unlock()
	for _, r := range readers {
		r.page.release()
	}
	p.words.release()
	return !found
}

// WaitReleased waits until no subscriber needs a frame that was sent: all have released it, or have
// ended. In the mode Latest, subscribers need the frames that they hold. It returns ctx's error, or
// core.ErrClosed if the publisher is closed.
func (p *Publisher) WaitReleased(ctx context.Context) error {
	if p == nil || p.words == nil {
		return noPublisher("WaitReleased")
	}
	return p.wait(ctx, "WaitReleased", func() bool {
		for i := range p.slots {
			if s := &p.slots[i]; s.retired > 0 || s.frame > 0 && !s.loaned && p.isRead(i) {
				return false
			}
		}
		return true
	})
}

// WaitReaders waits until there are at least n subscribers. It returns ctx's error, or
// core.ErrClosed if the publisher is closed.
func (p *Publisher) WaitReaders(ctx context.Context, n int) error {
	if p == nil || p.words == nil {
		return noPublisher("WaitReaders")
	}
	return p.wait(ctx, "WaitReaders", func() bool { return len(p.reports) >= n })
}
