package share

import (
	"slices"

	"github.com/dlx-go/dlx/core"
)

// frameCounts is what [Conn.Stats] needs of rings. Publishers and subscriptions count under their own
// mutexes, which they have for a frame anyway; the connection asks them. Its mutex guards this.
type frameCounts struct {
	readers       []*reader // of the peer, that may still release frames
	subscriptions []*Subscription
	before        Stats // of those that count no more
}

// addReader counts a subscription of the peer from now on. c.mu is held.
func (c *Conn) addReader(r *reader) {
	c.countFrames() // forgets those that have ended
	c.frames.readers = append(c.frames.readers, r)
}

// addSubscription counts a subscription of this side from now on. c.mu is held.
func (c *Conn) addSubscription(s *Subscription) {
	c.countFrames()
	c.frames.subscriptions = append(c.frames.subscriptions, s)
}

// countFrames returns the counts of all frames. The mutex of a publisher or a subscription is taken
// after c.mu, which is held.
func (c *Conn) countFrames() Stats {
	x := &c.frames
	var open Stats
	count := func(s Stats, over bool) bool {
		if over {
			x.before.add(s)
		} else {
			open.add(s)
		}
		return over
	}
	x.readers = slices.DeleteFunc(x.readers, func(r *reader) bool { return count(r.stats()) })
	x.subscriptions = slices.DeleteFunc(x.subscriptions, func(s *Subscription) bool { return count(s.stats()) })
	open.add(x.before)
	if c.err != nil { // the end has released everything
		open.FramesInFlight, open.FramesHeld = 0, 0
	}
	return open
}

// tally brings the counts of a subscriber up to date. What it tells may be wrong: the counts never
// become smaller. p.mu is held, and the page is mapped.
func (p *Publisher) tally(r *reader) {
	if !r.left && p.count >= r.first {
		r.sent = int64(p.count - r.first + 1)
	}
	needed := int64(0)
	for i := range p.slots {
		if s := &p.slots[i]; s.frame > 0 && !s.loaned && p.reads(r, i) {
			needed++
		}
	}
	r.released = max(r.released, r.sent-needed)
}

// blame counts a wait of Loan for each subscriber that needs a slot, once until a slot is loaned. p.mu is held.
func (p *Publisher) blame() {
	if p.blamed {
		return
	}
	p.blamed = true
	for _, r := range p.readers {
		for i := range p.slots {
			if p.slots[i].frame > 0 && p.reads(r, i) {
				r.waits++
				break
			}
		}
	}
}

// stats returns what the publisher has counted for a subscriber, and whether that stays so.
func (r *reader) stats() (s Stats, over bool) {
	p := r.publisher
	p.mu.Lock()
	defer p.mu.Unlock()
	if !r.gone {
		p.tally(r)
	}
	s = Stats{
		FramesSent: r.sent, FramesReleased: r.released, FrameBytesSent: r.sent * p.message.slotBytes(), LoanWaits: r.waits,
	}
	if !r.gone {
		s.FramesInFlight = int(r.sent - r.released)
	}
	return s, r.gone
}

// stats returns what the subscription has counted, and whether that stays so.
func (s *Subscription) stats() (t Stats, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{
		FramesReceived: s.received, FramesDropped: s.dropped, FrameBytesReceived: s.received * s.message.slotBytes(),
		ReceiveWaits: s.waits, FramesHeld: s.held,
	}, s.closed && s.held == 0
}

// slotBytes returns the bytes of the tensor of a slot.
func (m *ringMessage) slotBytes() int64 {
	var t core.Tensor // only to compute it, on memory that has any bytes
	whole := core.Memory{ID: core.CPU, Handle: 1, Size: core.UnknownSize}
	if privateCore.Describe("Stats", &t, &whole, &m.spec) != nil { // cannot be: it was checked
		return 0
	}
	return t.NumBytes()
}
