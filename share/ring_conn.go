package share

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// rings is what a connection keeps of rings. The connection's mutex guards it.
type rings struct {
	offers       map[uint32]*offer // rings of this side
	offeredBytes int64
	lastRing     uint32
	readers      map[uint32]*reader // subscriptions of the peer

	announced        map[uint32]*announcedRing // rings of the peer
	subscriptions    map[uint32]*Subscription
	lastSubscription uint32

	notes   []note    // messages that wait to be written
	telling []*reader // that are to be told of the work on frames
	stuck   bool      // the peer has not read when it was to get a semaphore for a frame
}

func newRings() rings {
	return rings{
		offers: make(map[uint32]*offer), readers: make(map[uint32]*reader),
		announced: make(map[uint32]*announcedRing), subscriptions: make(map[uint32]*Subscription),
	}
}

// note is a message that the reading goroutine, or a call that must not wait, leaves to the writer.
type note struct {
	kind    kind
	payload []byte
}

// maxNotes bounds the messages to a peer that does not read them.
const maxNotes = 1024

// offer is a ring that the peer may subscribe to.
type offer struct {
	publisher *Publisher
	memory    *sentMemory // of the slots; nil if they are in the ring's file
}

// offer passes a ring to the peer. The caller holds sending.
func (c *Conn) offer(ctx context.Context, p *Publisher) (err error) {
	o, m := &offer{publisher: p}, p.message
	c.mu.Lock()
	limit := c.limits.Bytes
	c.mu.Unlock()
	if m.size > limit {
		return core.Errorf(core.ErrOutOfMemory, "share", "Publish", "the ring has %d bytes, and the peer permits %d together (Limits.Bytes of its options)", m.size, limit)
	}
	if !p.ring.isHost() {
		if o.memory, err = c.passSlots(ctx, p); err != nil {
			return err
		}
		m.memory = o.memory.id
		c.mu.Lock()
		o.memory.tensors++ // the peer must not forget it to make room for the file
		c.mu.Unlock()
		defer func() {
			c.mu.Lock()
			o.memory.tensors--
			c.mu.Unlock()
		}()
		if most := c.limits; most.Memories < 2 || o.memory.bytes > most.Bytes-m.size {
			return core.Errorf(core.ErrOutOfMemory, "share", "Publish", "the ring has slots of %d bytes and a file of %d bytes, and the peer permits %d memories of %d bytes together (Limits of its options)", o.memory.bytes, m.size, most.Memories, most.Bytes)
		}
	}
	if err := c.makeRoom(ctx, m.size); err != nil {
		return err
	}
	c.mu.Lock()
	err = c.err
	for _, other := range c.offers {
		if other.publisher.message.name == m.name {
			err = core.Errorf(core.ErrExists, "share", "Publish", "this process has published a ring %q on the connection: use another name", m.name)
		}
	}
	if err != nil {
		c.mu.Unlock()
		return err
	}
	c.lastRing++
	m.id = c.lastRing
	c.offers[m.id] = o
	c.offeredBytes += m.size
	if o.memory != nil {
		o.memory.tensors++ // the peer must not forget it
	}
	c.mu.Unlock()
	if err = c.lock(ctx, c.writing); err == nil {
		if err = c.flush(ctx, true); err == nil {
			c.begin(kindRing, 1)
			c.scratch = appendRing(c.scratch, &m)
			err = c.put(ctx, p.fd)
		}
		<-c.writing
	}
	if err == nil {
		p.mu.Lock()
		if p.closed {
			err = p.isClosed("Offer")
		} else {
			p.offers[c] = m.id
		}
		p.mu.Unlock()
		if err != nil {
			c.withdraw(p, m.id)
			return err
		}
		c.mu.Lock()
		err = c.err
		c.mu.Unlock()
		if err != nil { // endRings may have run before the publisher knew of the connection
			p.mu.Lock()
			delete(p.offers, c)
			p.mu.Unlock()
		}
		return err
	}
	c.mu.Lock()
	c.takeOffer(m.id)
	c.mu.Unlock()
	return err
}

// takeOffer takes a ring out, and reports false if it was not there. c.mu is held.
func (c *Conn) takeOffer(id uint32) bool {
	o := c.offers[id]
	if o == nil {
		return false
	}
	delete(c.offers, id)
	c.offeredBytes -= o.publisher.message.size
	if o.memory != nil {
		o.memory.tensors--
	}
	c.notify()
	return true
}

// passSlots passes the memory of the slots. The caller holds sending.
func (c *Conn) passSlots(ctx context.Context, p *Publisher) (*sentMemory, error) {
	x, err := newParcel(p.whole)
	if err != nil {
		return nil, err
	}
	defer x.release()
	exported, err := c.export(x)
	if err != nil {
		return nil, err
	}
	if !exported {
		var reasons []error
		for _, r := range x.report.Refused() {
			reasons = append(reasons, errors.New(r.What+": "+r.Reason))
		}
		return nil, core.Errorf(core.ErrNotSupported, "share", "Publish", "the memory of ring %q cannot be passed: use a ring of the host, or name the same device at both sides: %v", p.message.name, joinReasons(reasons))
	}
	m, err := c.pass(ctx, x)
	if err == nil && m == nil { // cannot be: the slots have elements
		err = core.Errorf(core.ErrInvalid, "share", "Publish", "the slots of ring %q have no memory", p.message.name)
	}
	return m, err
}

// withdraw tells the peer that a ring has ended.
func (c *Conn) withdraw(p *Publisher, id uint32) {
	c.mu.Lock()
	if c.takeOffer(id) {
		maps.DeleteFunc(c.readers, func(_ uint32, r *reader) bool { return r.publisher == p })
		c.leave(kindRingEnd, appendNumber(nil, id))
	}
	c.mu.Unlock()
	c.awaken()
}

// leave leaves a message to the writer, whom the caller wakes. c.mu is held.
func (c *Conn) leave(k kind, payload []byte) {
	if c.err == nil {
		c.notes = append(c.notes, note{k, payload})
	}
}

// takeRingMessage handles a message about rings. It reports whether it owns the descriptors.
func (c *Conn) takeRingMessage(k kind, payload []byte, fds []int) (owned bool, err error) {
	switch k {
	case kindRing:
		return c.takeRing(payload, fds)
	case kindSubscribe:
		return false, c.takeSubscribe(payload, fds)
	case kindJoined:
		return false, c.takeJoined(payload)
	case kindLeave:
		return false, c.takeLeave(payload)
	case kindWork:
		return false, c.takeWork(payload)
	default:
		return false, c.takeRingEnd(payload)
	}
}

// takeSubscribe handles a subscription of the peer.
func (c *Conn) takeSubscribe(payload []byte, fds []int) error {
	m, err := readSubscribe(payload)
	if err != nil {
		return err
	}
	if len(fds) != 1 {
		return violation("subscription %d has no descriptor", m.id)
	}
	c.mu.Lock()
	o, last, twice, waiting, peer, features := c.offers[m.ring], c.lastRing, c.readers[m.id] != nil, len(c.notes)+len(c.telling), c.peer, c.features
	c.mu.Unlock()
	switch {
	case m.ring == 0 || m.ring > last:
		return violation("subscription %d is to ring %d, which was not published", m.id, m.ring)
	case twice:
		return violation("subscription %d was made twice", m.id)
	case waiting >= maxNotes:
		return core.Errorf(core.ErrOutOfMemory, "share", "message", "the peer has not read %d answers", waiting)
	}
	answer := joinedMessage{id: m.id, text: "the ring has ended"}
	if o != nil {
		p := o.publisher
		page, err := openShared(fds[0], wholePages(pageSize(p.message.slots)))
		if err != nil {
			return err
		}
		r := &reader{publisher: p, conn: c, id: m.id, page: page, process: -1, hold: m.hold, mayWait: features&featureWork != 0, info: Reader{Peer: peer, To: m.to, Mechanism: m.how, BytesCopied: m.copied}}
		if !p.ring.isHost() {
			r.process = c.socket.process(peer)
		}
		c.mu.Lock()
		c.readers[m.id] = r
		c.mu.Unlock()
		if answer.text = p.join(r); answer.text == "" {
			answer.first = r.first
			p.mu.Lock()
			due := len(r.due) > 0 // of the newest frame
			p.mu.Unlock()
			c.mu.Lock()
			c.addReader(r)
			if due && !slices.Contains(c.telling, r) {
				c.telling = append(c.telling, r)
			}
			c.mu.Unlock()
		} else {
			c.mu.Lock()
			delete(c.readers, m.id)
			c.mu.Unlock()
			page.release()
			if r.process >= 0 {
				closeFD(r.process)
			}
		}
	}
	c.mu.Lock()
	c.leave(kindJoined, appendJoined(nil, &answer))
	c.mu.Unlock()
	c.awaken()
	return nil
}

// takeLeave handles the end of a subscription of the peer, which the end of the ring may have
// ended before.
func (c *Conn) takeLeave(payload []byte) error {
	id, next, err := readLeave(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	r := c.readers[id]
	delete(c.readers, id)
	c.mu.Unlock()
	if r != nil {
		r.publisher.leave(r, next)
	}
	return nil
}

// endRings ends all that the connection has to do with rings, when it has ended. The slots of
// the peer are free at once.
func (c *Conn) endRings() {
	c.mu.Lock()
	offers, rings, subscriptions, cause := c.offers, c.announced, slices.Collect(maps.Values(c.subscriptions)), c.err
	c.rings = newRings()
	c.mu.Unlock()
	for _, o := range offers {
		o.publisher.drop(c)
	}
	for _, s := range subscriptions {
		s.end()
		s.abandon(cause)
	}
	for _, r := range rings {
		closeFD(r.fd)
	}
}
