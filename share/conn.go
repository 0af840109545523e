package share

import (
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

// Conn is a connection to another process. It is safe for concurrent use. [Dial],
// [Listener.Accept] or [New] makes it, and the caller closes it, before the devices of its
// options.
type Conn struct {
	options Options
	socket  *sockets
	self    []PeerDevice // of options.Devices

	// writing holds one element while a message is written, which guards scratch and sequence.
	writing  chan struct{}
	scratch  []byte
	sequence uint64

	sending chan struct{}   // holds one element while a tensor is sent: its messages stay in order
	wake    chan struct{}   // the writer has something to write
	life    context.Context // until the connection has ended
	stop    context.CancelFunc
	closed  chan struct{} // closed when the socket is
	ended   chan struct{} // closed when all that it had open is closed

	mu       sync.Mutex
	err      error           // why it has ended
	waiters  []chan struct{} // of calls of await, which get an element when something below changes
	idlers   []chan struct{} // that no call uses
	greeted  bool            // the peer has said what it can
	peer     Peer
	limits   Limits // of the peer
	features uint64 // of the peer
	stats    Stats
	// leftOver is how many tensors were in flight when the connection ended.
	leftOver int

	sender
	orderer
	receiver
	rings
	quota    *quota
	frames   frameCounts
	probe    probe // of read, like heldSlab
	heldSlab slab[heldTensor]
}

var liveConns = live.NewCounter("share.Conn")

// New makes a connection of a socket of the type SOCK_SEQPACKET, such as one end of a
// socketpair whose other end another process has. On success the connection owns socket. On
// failure the caller still owns it.
//
// New returns core.ErrInvalid if socket is nil or of another type or an option is wrong, the
// error of Options.Allow, core.ErrClosed if socket is closed, and core.ErrNotSupported on
// systems other than Linux.
func New(socket *net.UnixConn, o Options) (*Conn, error) {
	return newConn(socket, o, nil)
}

// newConn is New, and counts the connection for its user unless q is nil.
func newConn(socket *net.UnixConn, o Options, q *quotas) (_ *Conn, err error) {
	if err := available("New"); err != nil {
		return nil, err
	}
	if socket == nil {
		return nil, core.Errorf(core.ErrInvalid, "share", "New", "socket is nil")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	peer, err := checkSocket(socket)
	if err != nil {
		return nil, err
	}
	s, err := newSockets(socket)
	if err != nil {
		return nil, lost(err)
	}
	c := &Conn{
		options: o, socket: s, peer: peer,
		writing: make(chan struct{}, 1), sending: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		closed: make(chan struct{}), ended: make(chan struct{}),
		scratch: make([]byte, 0, maxMessage),
		sender:  newSender(), receiver: newReceiver(), rings: newRings(), quota: new(quota),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	if o.Allow != nil {
		if err := o.Allow(peer); err != nil {
			countRefused()
			_, _ = c.tryMessage(kindGoodbye, func(b []byte) []byte { return appendGoodbye(b, reasonRefused, "its user or process may not connect") })
			return nil, err
		}
	}
	if q != nil {
		if c.quota, err = q.connect(peer.UID); err != nil {
			countRefused()
			r, text := farewell(err)
			_, _ = c.tryMessage(kindGoodbye, func(b []byte) []byte { return appendGoodbye(b, r, text) })
			return nil, err
		}
		defer func() {
			if err != nil {
				c.quota.end()
			}
		}()
	}
	for _, d := range o.Devices {
		c.self = append(c.self, describe(d))
	}
	sent, err := c.tryMessage(kindHello, func(b []byte) []byte {
		return appendHello(b, hello{features: featureOrder | featureRings | featureWork, limits: o.Limits, devices: c.self})
	})
	if err != nil {
		return nil, c.lastWords(lost(err))
	}
	if !sent { // a socket that somebody has written to before
		return nil, core.Errorf(core.ErrInvalid, "share", "New", "the socket takes no message: pass one that nobody has used")
	}
	liveConns.Add(1)
	countMade(c)
	go c.read()
	go c.write()
	return c, nil
}

// Handshake waits until the peer has said what it can. It returns ctx's error, or why the
// connection has ended. Other calls wait for the peer, too, so that programs need not call it.
func (c *Conn) Handshake(ctx context.Context) error {
	err := c.await(ctx, "Handshake", func() bool { return c.greeted })
	if err == nil {
		c.mu.Unlock()
	}
	return err
}

// Peer returns what is known of the process at the other end.
func (c *Conn) Peer() Peer {
	if c == nil {
		return Peer{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

// Stats counts what a connection has done.
type Stats struct {
	Sent           int64 `json:"sent"`            // tensors
	Received       int64 `json:"received"`        // tensors that Receive has returned
	Released       int64 `json:"released"`        // tensors that were sent, and that the peer has released
	BytesSent      int64 `json:"bytes_sent"`      // of the elements of the tensors
	BytesReceived  int64 `json:"bytes_received"`  // of the elements of the tensors
	BytesCopied    int64 `json:"bytes_copied"`    // by Send and Receive, also of a Subscription
	MemoriesSent   int64 `json:"memories_sent"`   // that were passed, each with a descriptor
	MemoriesOpened int64 `json:"memories_opened"` // that were opened
	InFlight       int   `json:"in_flight"`       // tensors that were sent and not released, at present
	Held           int   `json:"held"`            // tensors that have arrived and are not released, at present

	// Frames of rings, once for each subscription. The publisher counts those that are sent. A frame
	// counts as released when the peer does not need it any more: in the mode Latest it only needs those
	// that it holds. What the peer releases after [Publisher.Close] does not count.
	FramesSent         int64 `json:"frames_sent"`
	FramesReleased     int64 `json:"frames_released"` // that were sent
	FramesReceived     int64 `json:"frames_received"`
	FramesDropped      int64 `json:"frames_dropped"` // in the mode Latest, not received since newer ones came
	FrameBytesSent     int64 `json:"frame_bytes_sent"`
	FrameBytesReceived int64 `json:"frame_bytes_received"`
	LoanWaits          int64 `json:"loan_waits"`       // waits of Loan while the peer still used a slot
	ReceiveWaits       int64 `json:"receive_waits"`    // frames that Subscription.Receive had to wait for
	FramesInFlight     int   `json:"frames_in_flight"` // that were sent and not released, at present
	FramesHeld         int   `json:"frames_held"`      // that were received and not released, at present
}

// Stats returns what the connection has done.
func (c *Conn) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.add(c.countFrames())
	s.InFlight, s.Held = len(c.inFlight), len(c.held)
	return s
}

// Done returns a channel that is closed when the connection has ended.
func (c *Conn) Done() <-chan struct{} {
	if c == nil || c.life == nil {
		return nil
	}
	return c.life.Done()
}

// Err returns nil while the connection is open, and then why it has ended, a [*ConnError]. It asks the
// system, so that nil means that the peer had not closed the connection before, nor overwritten what it
// has sent. If the reason is
// not known yet, the error wraps io.ErrUnexpectedEOF, and later calls may return another one.
func (c *Conn) Err() error {
	if c == nil || c.socket == nil {
		return noConn("Err")
	}
	if err := c.cause(); err != nil || !c.socket.hungUp() {
		return err
	}
	select {
	case <-c.life.Done():
		return c.cause()
	case <-time.After(10 * time.Millisecond): // the reading goroutine may be in a call of a driver
	}
	return &ConnError{Peer: c.Peer(), Err: ended(io.ErrUnexpectedEOF, "the peer has ended the connection")}
}

// cause returns why the connection has ended, as far as this side has noticed.
func (c *Conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection, and with it all calls that wait on it. Tensors that were sent are
// released, whether or not the peer still reads them; call [Conn.WaitReleased] before, so that
// the peer receives them. Tensors that were received stay open. Close waits for a second at
// most, while work is unfinished that the peer or a device of this process waits for, or that reads
// what was received. A second
// Close does nothing. Close always returns nil; the result makes Conn an io.Closer.
func (c *Conn) Close() error {
	if c == nil || c.socket == nil {
		return nil
	}
	c.drain()
	c.fail(errClosedHere)
	<-c.ended
	return nil
}

// WaitReleased waits until the peer has released all tensors that were sent. It returns ctx's
// error, or why the connection has ended, unless the peer had released all tensors before.
func (c *Conn) WaitReleased(ctx context.Context) error {
	err := c.await(ctx, "WaitReleased", func() bool { return len(c.inFlight) == 0 })
	if err == nil {
		c.mu.Unlock()
		return nil
	}
	if errors.As(err, new(*ConnError)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.leftOver == 0 {
			return nil
		}
	}
	return err
}

// noConn is the error of a call on a connection that there is not.
func noConn(call string) error {
	return core.Errorf(core.ErrInvalid, "share", call, "the connection is nil or was not made by this package")
}

// await waits until ready returns true, and then returns with c.mu held. It calls ready with
// c.mu held. On failure it returns ctx's error or that of the connection, and c.mu is not held.
func (c *Conn) await(ctx context.Context, call string, ready func() bool) error {
	if c == nil || c.socket == nil {
		return noConn(call)
	}
	var changed chan struct{}
	c.mu.Lock()
	for c.err == nil && !ready() {
		if changed == nil {
			changed = c.addWaiter()
		}
		c.mu.Unlock()
		select {
		case <-changed:
			c.mu.Lock()
		case <-ctx.Done():
			c.mu.Lock()
			c.dropWaiter(changed)
			c.mu.Unlock()
			return ctx.Err()
		}
	}
	if changed != nil {
		c.dropWaiter(changed)
	}
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	return nil
}

// addWaiter returns a channel that gets an element at each change. c.mu is held.
func (c *Conn) addWaiter() (w chan struct{}) {
	if last := len(c.idlers) - 1; last >= 0 {
		w, c.idlers = c.idlers[last], c.idlers[:last]
	} else {
		w = make(chan struct{}, 1)
	}
	c.waiters = append(c.waiters, w)
	return w
}

// dropWaiter ends the use of a channel. c.mu is held.
func (c *Conn) dropWaiter(w chan struct{}) {
	i := slices.Index(c.waiters, w)
	c.waiters = slices.Delete(c.waiters, i, i+1)
	select {
	case <-w:
	default:
	}
	c.idlers = append(c.idlers, w)
}

// notify wakes those that wait. c.mu is held.
func (c *Conn) notify() {
	for _, w := range c.waiters {
		select {
		case w <- struct{}{}:
		default: // it has one
		}
	}
}

// fail ends the connection, unless it has ended, and tells the peer why if the peer reads. The
// caller does not hold writing.
func (c *Conn) fail(err error) {
	if !c.ends(err) {
		return
	}
	_ = c.socket.SetWriteDeadline(time.Unix(1, 0)) // whoever holds writing gives it back
	c.writing <- struct{}{}
	c.mu.Lock()
	released, results, notes := slices.Clone(c.released), slices.Clone(c.results), slices.Clone(c.notes)
	c.mu.Unlock()
	for _, x := range results {
		_, _ = c.tryMessage(kindOrder, func(b []byte) []byte { return appendResult(b, x) })
	}
	for list := range slices.Chunk(released, maxReleased) {
		_, _ = c.tryMessage(kindReleased, func(b []byte) []byte { return appendReleased(b, list) })
	}
	for _, n := range notes {
		_, _ = c.tryMessage(n.kind, func(b []byte) []byte { return append(b, n.payload...) })
	}
	for m := c.nextWork(); m != nil; m = c.nextWork() {
		_, _ = c.tryMessage(kindWork, func(b []byte) []byte { return appendWork(b, &m.workMessage) })
		m.told()
	}
	r, text := farewell(err)
	_, _ = c.tryMessage(kindGoodbye, func(b []byte) []byte { return appendGoodbye(b, r, text) })
	<-c.writing
	c.hangUp()
}

// hangUp closes the socket. The call for which ends returned true calls it.
func (c *Conn) hangUp() {
	_ = c.socket.Close()
	close(c.closed)
}

// ends notes why the connection has ended, and reports false if it had ended before.
func (c *Conn) ends(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.leftOver = len(c.inFlight)
	c.err = &ConnError{Peer: c.peer, Err: err}
	c.stop()
	c.notify()
	return true
}

// lock takes one of the channels that serve as locks.
func (c *Conn) lock(ctx context.Context, l chan struct{}) error {
	select {
	case l <- struct{}{}:
		return nil
	default:
	}
	select {
	case l <- struct{}{}:
		return nil
	case <-c.life.Done():
		return c.cause()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// read handles what the peer sends until the connection ends, and then closes what is open.
func (c *Conn) read() {
	defer func() {
		<-c.closed   // another call may have to: the peer sees the end before anything that it reads is written
		c.endRings() // first: publishers wait for the slots
		c.endSender()
		c.endReceiver()
		c.endOrderer()
		c.quota.end()
		countEnded(c)
		liveConns.Add(-1)
		close(c.ended)
	}()
	b := make([]byte, maxMessage)
	for sequence := uint64(0); ; sequence++ {
		n, fds, err := c.socket.read(b)
		if err == nil && n == 0 {
			err = violation("a message is empty")
		}
		if err == nil {
			err = c.handle(b[:n], fds, sequence)
			runtime.Gosched() // the call that has waited for the message goes on before this looks for another one
		} else if errors.Is(err, errNoDescriptor) {
			closeFDs(fds)
			err = c.handleLost(b[:n], sequence)
		} else {
			closeFDs(fds)
			err = lost(err)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// handle handles a message. It owns the descriptors, on failure too.
func (c *Conn) handle(b []byte, fds []int, sequence uint64) error {
	owned := false
	defer func() {
		if !owned {
			closeFDs(fds)
		}
	}()
	h, payload, err := readHeader(b, len(fds))
	if err != nil {
		return err
	}
	if h.sequence != sequence {
		return violation("a message has the number %d, and the next one is %d", h.sequence, sequence)
	}
	switch first := sequence == 0; {
	case h.kind == kindGoodbye:
		r, text, err := readGoodbye(payload)
		if err == nil {
			err = told(r, text)
		}
		return err
	case first != (h.kind == kindHello):
		return violation("message %d is of kind %d: the first message, and no other one, is a hello", sequence, h.kind)
	case first:
		return c.greet(payload)
	}
	switch h.kind {
	case kindMemory:
		owned, err = c.takeMemory(payload, fds)
	case kindTensor:
		err = c.takeTensor(payload)
	case kindOrder:
		owned, err = c.takeOrder(payload, fds)
	case kindForget:
		err = c.takeForget(payload)
	case kindReleased:
		err = c.takeReleased(payload)
	case kindRing, kindSubscribe, kindJoined, kindLeave, kindRingEnd, kindWork:
		owned, err = c.takeRingMessage(h.kind, payload, fds)
	default:
		err = violation("kind %d of messages is not known to version %d", h.kind, wireVersion)
	}
	return err
}

// describe is the function describe, but remembers the devices of the options.
func (c *Conn) describe(d core.Device) PeerDevice {
	for i, x := range c.options.Devices {
		if x == d {
			return c.self[i]
		}
	}
	return describe(d)
}

// greet notes what the peer can.
func (c *Conn) greet(payload []byte) error {
	h, err := readHello(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.greeted, c.features, c.limits, c.peer.Devices = true, h.features, h.limits, h.devices
	c.notify()
	return nil
}

// isOf reports whether err is of the ctx of a call, and not of what it did.
func isOf(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err())
}
