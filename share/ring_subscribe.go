package share

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/live"
)

// announcedRing is a ring of the peer.
type announcedRing struct {
	message ringMessage
	fd      int         // of the ring's file
	memory  *openMemory // of the slots; nil if they are in the file
}

// SubscribeOptions controls a subscription.
type SubscribeOptions struct {
	// Device is where frames are used. If the memory of the slots can be opened or mapped there,
	// nothing is copied. With nil, frames are used where the memory is opened, on a device of
	// Options.Devices, or in memory of the host that belongs to no device.
	Device core.Device
	// Hold is how many frames of a ring of the mode Latest are held at once; 0 means 1. A
	// subscriber of a ring of the mode Queue may hold all slots.
	Hold int
}

// Subscription receives the frames of a ring. It is safe for concurrent use; of several calls of
// Receive, each gets another frame. [Conn.Subscribe] makes it, and the caller closes it.
type Subscription struct {
	conn    *Conn
	id      uint32
	message ringMessage
	hold    int
	device  core.Device // that frames are moved to; nil if they are used where they are
	words   *mapping    // of the publisher, for reading
	page    *mapping    // of this side
	own     *openMemory // closed with the subscription; nil for memory of the connection
	place   *core.Buffer
	spins

	// The connection's mutex guards these.
	answered bool
	answer   joinedMessage
	left     bool // the publisher is told that it has ended; frames may still wait for their work

	mu       sync.Mutex
	slots    []subscribedSlot
	next     uint64 // the first frame that was not received
	held     int    // frames that are not given back
	received int64  // frames
	dropped  int64  // frames of the mode Latest that newer ones have replaced
	waits    int64  // of Receive
	waited   uint64 // the last frame that waits counts; 0 if there is none
	sleepers int
	watched  <-chan struct{} // of the context whose end wakes the subscriber
	unwatch  func() bool
	over     bool // the publisher has ended the ring
	closed   bool
}

// subscribedSlot is a slot at its reader. The subscription's mutex guards it.
type subscribedSlot struct {
	tensor *core.Tensor // kept for the next frame; nil if there is none
	buffer *core.Buffer // of tensor
	owner  *subscribedOwner
	frame  uint64           // that is received and not released; 0 if none
	owed   bool             // it was released, and is given back when the tensor's memory is free
	after  *subscribedOwner // of that tensor; nil unless owed
	work   *lateWork        // that the peer has told of last; nil before
}

var liveSubscriptions = live.NewCounter("share.Subscription")

// Subscribe waits until the peer has published a ring, and begins to receive its frames. The
// caller closes the result. The end of the connection ends the subscription.
//
// Subscribe returns ctx's error; core.ErrInvalid if an option is wrong; core.ErrNotSupported if
// the peer's version of dlx has no rings, or no device of Options.Devices can open the memory of
// the slots; core.ErrOutOfMemory if the publisher has no slots for another subscriber, or there is
// no memory; and the [*ConnError] of a connection that has ended.
func (c *Conn) Subscribe(ctx context.Context, name string, o SubscribeOptions) (*Subscription, error) {
	if c == nil || c.socket == nil {
		return nil, noConn("Subscribe")
	}
	if o.Hold < 0 || o.Hold > maxSlots {
		return nil, core.Errorf(core.ErrInvalid, "share", "Subscribe", "Hold is %d: 0 to %d are possible", o.Hold, maxSlots)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for {
		s, err := c.subscribe(ctx, name, o)
		if !errors.Is(err, errGone) {
			return s, err
		}
	}
}

// errGone says that a ring has ended after it was found. There may be another one of its name.
var errGone = errors.New("share: the ring has ended")

// subscribe is Subscribe for the ring that is there. It returns errGone if the ring ends meanwhile.
func (c *Conn) subscribe(ctx context.Context, name string, o SubscribeOptions) (*Subscription, error) {
	s := &Subscription{conn: c, hold: max(o.Hold, 1)}
	memory, err := s.find(ctx, name)
	if err != nil {
		return nil, err
	}
	if s.message.mode == Queue {
		s.hold = s.message.slots
	}
	s.slots = make([]subscribedSlot, s.message.slots)
	how, err := s.open(ctx, memory, o.Device)
	if err != nil {
		s.words.release()
		return nil, c.orEnded(err)
	}
	liveSubscriptions.Add(1)
	if err := s.join(ctx, how); err != nil {
		s.end()
		return nil, c.orEnded(err)
	}
	return s, nil
}

// orEnded returns why the connection has ended, if it has, and err otherwise.
func (c *Conn) orEnded(err error) error {
	if ended := c.cause(); ended != nil {
		return ended
	}
	return err
}

// find waits for a ring, and maps its words. It returns the memory of the slots, nil if they lie in
// the file.
func (s *Subscription) find(ctx context.Context, name string) (*openMemory, error) {
	c := s.conn
	var ring *announcedRing
	err := c.await(ctx, "Subscribe", func() bool {
		for _, r := range c.announced {
			if r.message.name == name {
				ring = r
			}
		}
		return ring != nil || c.greeted && c.features&featureRings == 0
	})
	if err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if ring == nil {
		return nil, core.Errorf(core.ErrNotSupported, "share", "Subscribe", "the dlx of %v knows no rings: use a newer version there", c.peer)
	}
	s.message = ring.message
	s.words, err = openShared(ring.fd, s.message.size)
	return ring.memory, err
}

// open opens the memory of the slots where it is used, and says how frames get there. On failure
// it leaves nothing open.
func (s *Subscription) open(ctx context.Context, m *openMemory, device core.Device) (subscribeMessage, error) {
	c, how := s.conn, subscribeMessage{ring: s.message.id, hold: s.hold, how: exchange.Map}
	ctx, stop := c.bound(ctx)
	defer stop()
	if m == nil {
		home, err := hostMemory(s.words, hostOf(device, c.options.Devices), true)
		if err != nil {
			return how, err
		}
		m = &openMemory{busy: make(chan struct{}, 1), home: home, places: make(map[core.Device]*core.Tensor)}
		s.own = m
	}
	place, held, err := c.placeOf(ctx, m, device)
	if err == nil {
		s.place = held
		how.to = place.DeviceID()
		if device != nil && place.Device() != device {
			s.device = device
			if how, err = s.tryMove(ctx, how); err != nil {
				s.place.Release()
			}
		}
	}
	if err != nil && s.own != nil {
		s.own.close()
	}
	return how, err
}

// placeOf returns all of a memory on the device, if it can be opened or mapped there, and otherwise where
// it was opened. It holds the buffer, which the caller releases: the peer may free the memory at any time.
func (c *Conn) placeOf(ctx context.Context, m *openMemory, device core.Device) (*core.Tensor, *core.Buffer, error) {
	if err := c.lock(ctx, m.busy); err != nil {
		return nil, nil, err
	}
	defer func() { <-m.busy }()
	if m.closed {
		return nil, nil, errGone
	}
	if m.lost {
		return nil, nil, errLostMemory
	}
	var r Report
	if err := c.openHome(ctx, m, device, &r); err != nil {
		return nil, nil, err
	}
	place := m.home
	if device != nil && m.home.Device() != device {
		mapped, err := c.place(ctx, m, device, &r)
		if err != nil {
			return nil, nil, err
		}
		if mapped != nil {
			place = mapped
		}
	}
	held, err := place.Buffer()
	if err == nil {
		err = held.Retain()
	}
	return place, held, err
}

// tryMove moves the first slot, whatever it holds, to find out how frames get to the device.
func (s *Subscription) tryMove(ctx context.Context, how subscribeMessage) (subscribeMessage, error) {
	spec := s.message.spec
	spec.Offset, spec.Flags = s.message.slot(0), spec.Flags|core.FlagReadOnly
	t, err := core.NewTensor(s.place, spec)
	if err != nil {
		return how, err
	}
	defer t.Close()
	y, r, err := exchange.To(ctx, t, s.device, exchange.Options{Copy: exchange.Always})
	if err != nil {
		return how, err
	}
	defer y.Close()
	how.to, how.how, how.copied = s.device.ID(), r.Mechanism, r.BytesCopied
	return how, y.WaitReady(ctx)
}

// hostOf returns the device of the host that memory belongs to: the device of the caller, one of
// the options, or none.
func hostOf(device core.Device, devices []core.Device) core.Device {
	for _, d := range append([]core.Device{device}, devices...) {
		if d != nil && d.ID().Type == core.CPU.Type {
			return d
		}
	}
	return nil
}

// join tells the publisher of the subscription, and waits for the answer. On failure the caller ends s.
func (s *Subscription) join(ctx context.Context, how subscribeMessage) error {
	c := s.conn
	fd, page, err := newShared("Subscribe", wholePages(pageSize(s.message.slots)))
	if err != nil {
		return err
	}
	s.page = page
	defer closeFD(fd)
	if err := c.lock(ctx, c.writing); err != nil {
		return err
	}
	c.mu.Lock()
	c.lastSubscription++
	s.id, how.id = c.lastSubscription, c.lastSubscription
	err = c.err
	if err == nil {
		c.subscriptions[s.id] = s
	}
	c.mu.Unlock()
	if err == nil {
		err = c.flush(ctx, true)
	}
	if err == nil {
		c.begin(kindSubscribe, 1)
		c.scratch = appendSubscribe(c.scratch, &how)
		err = c.put(ctx, fd)
	}
	<-c.writing
	if err != nil { // the peer has not seen it
		c.mu.Lock()
		delete(c.subscriptions, s.id)
		c.mu.Unlock()
		return err
	}
	if err := c.await(ctx, "Subscribe", func() bool { return s.answered }); err != nil {
		return err
	}
	answer, open := s.answer, c.announced[s.message.id] != nil
	c.mu.Unlock()
	if answer.first == 0 && !open {
		return errGone
	}
	if answer.first == 0 {
		return core.Errorf(core.ErrOutOfMemory, "share", "Subscribe", "the publisher of ring %q has refused the subscription: %q", s.message.name, answer.text)
	}
	s.mu.Lock()
	s.next = answer.first
	s.mu.Unlock()
	c.mu.Lock()
	c.addSubscription(s)
	c.mu.Unlock()
	return nil
}

// takeJoined handles the answer to a subscription.
func (c *Conn) takeJoined(payload []byte) error {
	m, err := readJoined(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subscriptions[m.id]
	if s == nil || s.answered {
		return violation("subscription %d was answered, and does not wait for that", m.id)
	}
	s.answered, s.answer = true, m
	if m.first == 0 || s.isClosed() {
		s.forgetWork()
		delete(c.subscriptions, m.id)
	}
	if m.first != 0 && s.isClosed() { // Subscribe has given up meanwhile
		c.leave(kindLeave, appendLeave(nil, m.id, 0))
		c.awaken()
	}
	c.notify()
	return nil
}

func (s *Subscription) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// takeRing handles a ring of the peer. It reports whether it owns the descriptors.
func (c *Conn) takeRing(payload []byte, fds []int) (owned bool, err error) {
	m, err := readRing(payload)
	if err != nil {
		return false, err
	}
	if len(fds) != 1 {
		return false, violation("ring %q has no descriptor", m.name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r, available := &announcedRing{message: m, fd: fds[0]}, int64(-1)
	if m.memory != 0 {
		if r.memory = c.opened[m.memory]; r.memory == nil {
			return false, violation("ring %q lies in memory %d, which is not open", m.name, m.memory)
		}
		available = r.memory.external.Length
	}
	if err := m.check(available); err != nil {
		return false, err
	}
	words, err := openShared(r.fd, m.size) // only to check it
	if err != nil {
		return false, err
	}
	words.release()
	limits := &c.options.Limits
	for _, other := range c.announced {
		if other.message.name == m.name {
			return false, violation("ring %q was published twice", m.name)
		}
	}
	switch {
	case c.announced[m.id] != nil:
		return false, violation("ring %d was published twice", m.id)
	case len(c.opened)+len(c.announced) >= limits.Memories, c.openedBytes > limits.Bytes-m.size:
		return false, core.Errorf(core.ErrOutOfMemory, "share", "message",
			"ring %q of %d bytes came beside %d memories and rings of %d bytes; this process permits %d of %d bytes together", m.name, m.size, len(c.opened)+len(c.announced), c.openedBytes, limits.Memories, limits.Bytes)
	}
	if err := c.quota.take(usage{descriptors: 1, bytes: m.size}); err != nil {
		return false, err
	}
	c.announced[m.id] = r
	c.openedBytes += m.size
	if r.memory != nil {
		r.memory.tensors++
	}
	c.notify()
	return true, nil
}

// takeRingEnd handles the end of a ring of the peer. Subscriptions receive what was sent before.
func (c *Conn) takeRingEnd(payload []byte) error {
	id, err := readNumber(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.announced[id]
	if r == nil {
		return violation("ring %d has ended, and was not published", id)
	}
	delete(c.announced, id)
	c.openedBytes -= r.message.size
	c.quota.give(usage{descriptors: 1, bytes: r.message.size})
	if r.memory != nil {
		r.memory.tensors--
	}
	closeFD(r.fd)
	for _, s := range c.subscriptions {
		if s.message.id == id {
			s.finish()
		}
	}
	return nil
}

// finish notes that no frames come after those that have come.
func (s *Subscription) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.stir()
}

// stir wakes all calls that sleep. s.mu is held.
func (s *Subscription) stir() {
	if !s.closed && s.sleepers > 0 {
		stir(s.page.u32(stirAt))
	}
}

// Close ends the subscription. Frames that were received and not released stay valid until they are
// released, as long as the connection is open. A second Close does nothing. Close always returns nil.
func (s *Subscription) Close() error {
	if s == nil || s.words == nil {
		return nil
	}
	s.end()
	return nil
}

// end is Close. The publisher is told, if it has answered and does not know.
func (s *Subscription) end() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.stir()
	s.closed = true
	var kept []*core.Tensor
	for i := range s.slots {
		if x := &s.slots[i]; x.tensor != nil && x.frame == 0 {
			kept = append(kept, x.tensor)
			x.tensor, x.buffer, x.owner = nil, nil, nil
		}
	}
	if s.unwatch != nil {
		s.unwatch()
	}
	next := s.next
	s.mu.Unlock()
	for _, t := range kept {
		t.Close()
	}
	s.place.Release()
	if s.own != nil {
		s.own.close()
	}
	s.words.release()
	if s.page != nil {
		s.page.release()
	}
	c := s.conn
	c.mu.Lock()
	if c.subscriptions[s.id] == s && s.answered {
		if s.left = true; !s.forgetWork() {
			delete(c.subscriptions, s.id)
		}
		c.leave(kindLeave, appendLeave(nil, s.id, next))
	}
	c.mu.Unlock()
	c.awaken()
	liveSubscriptions.Add(-1)
}

// errOver is the error of a ring that has ended.
func (s *Subscription) errOver() error {
	return ended(io.EOF, "the publisher has ended ring %q", s.message.name)
}
