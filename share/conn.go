package share

import (
	"context"
	"errors"
	"net"
	"os"
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
	ended   chan struct{} // closed when all that it had open is closed

	mu       sync.Mutex
	err      error         // why it has ended
	changed  chan struct{} // closed when something below changes; nil if nobody waits for that
	greeted  bool          // the peer has said what it can
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
		ended:   make(chan struct{}),
		scratch: make([]byte, 0, maxMessage),
		sender:  newSender(), receiver: newReceiver(), rings: newRings(),
	}
	c.life, c.stop = context.WithCancel(context.Background())
	if o.Allow != nil {
		if err := o.Allow(peer); err != nil {
			countRefused()
			_, _ = c.tryMessage(kindGoodbye, func(b []byte) []byte { return appendGoodbye(b, reasonRefused, "its user or process may not connect") })
			return nil, err
		}
	}
	for _, d := range o.Devices {
		c.self = append(c.self, describe(d))
	}
	sent, err := c.tryMessage(kindHello, func(b []byte) []byte {
		return appendHello(b, hello{features: featureRings | featureOrder, limits: o.Limits, devices: c.self})
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
	BytesCopied    int64 `json:"bytes_copied"`    // by Send and Receive
	MemoriesSent   int64 `json:"memories_sent"`   // that were passed, each with a descriptor
	MemoriesOpened int64 `json:"memories_opened"` // that were opened
	InFlight       int   `json:"in_flight"`       // tensors that were sent and not released, at present
	Held           int   `json:"held"`            // tensors that have arrived and are not released, at present
}

// Stats returns what the connection has done.
func (c *Conn) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
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

// Err returns nil while the connection is open, and then why it has ended, a [*ConnError].
func (c *Conn) Err() error {
	if c == nil || c.socket == nil {
		return noConn("Err")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection, and with it all calls that wait on it. Tensors that were sent are
// released, whether or not the peer still reads them; call [Conn.WaitReleased] before, so that
// the peer receives them. Tensors that were received stay open. Close waits for a second at
// most, while work is unfinished that the peer or a device of this process waits for. A second
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
	for {
		c.mu.Lock()
		if c.err != nil {
			defer c.mu.Unlock()
			return c.err
		}
		if ready() {
			return nil
		}
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// notify wakes those that wait. c.mu is held.
func (c *Conn) notify() {
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
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
	r, text := farewell(err)
	_, _ = c.tryMessage(kindGoodbye, func(b []byte) []byte { return appendGoodbye(b, r, text) })
	<-c.writing
	_ = c.socket.Close()
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

// begin begins a message in scratch. The caller holds writing.
func (c *Conn) begin(k kind, fds int) {
	c.scratch = appendHeader(c.scratch[:0], header{kind: k, fds: fds})
}

// tryMessage sends a message, unless the peer has to read first. The caller holds writing, or the
// connection has no goroutines yet.
func (c *Conn) tryMessage(k kind, payload func([]byte) []byte) (bool, error) {
	c.begin(k, 0)
	c.scratch = payload(c.scratch)
	finish(c.scratch, c.sequence)
	written, err := c.socket.try(c.scratch, -1)
	if written {
		c.sequence++
	}
	return written, err
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
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// put writes the message in scratch, with a descriptor if fd is not -1, and ends the connection if
// the socket fails. The caller holds writing. A message is written whole or not at all: if ctx ends first, the connection goes on.
func (c *Conn) put(ctx context.Context, fd int) error {
	finish(c.scratch, c.sequence)
	written, err := c.socket.try(c.scratch, fd)
	if !written && err == nil {
		err = c.putLater(ctx, fd)
	}
	if err == nil {
		c.sequence++
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case isFull(err):
		return systemError(core.ErrOutOfMemory, "sendmsg", err, "no message can be sent now")
	case isBroken(err): // what the peer has written before may say why: read finds out
		<-c.life.Done()
	case c.ends(lost(err)):
		_ = c.socket.Close()
	}
	return c.Err()
}

// putLater waits until the peer has read enough.
func (c *Conn) putLater(ctx context.Context, fd int) error {
	for {
		if err := c.socket.SetWriteDeadline(time.Time{}); err != nil {
			return err
		}
		if err := c.Err(); err != nil { // fail may have set the deadline before
			return err
		}
		stop := context.AfterFunc(ctx, func() { _ = c.socket.SetWriteDeadline(time.Unix(1, 0)) })
		err := c.socket.write(c.scratch, fd)
		stop()
		// The end of an earlier call's ctx may have set the deadline late.
		if !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil || c.life.Err() != nil {
			return err
		}
	}
}

// write sends what was released or freed until the connection ends.
func (c *Conn) write() {
	for {
		select {
		case <-c.wake:
		case <-c.life.Done():
			return
		}
		if err := c.lock(context.Background(), c.writing); err != nil {
			return
		}
		err := c.flush(context.Background())
		<-c.writing
		if err != nil {
			c.fail(err) // unless it has failed
			return
		}
	}
}

// awaken makes the writer look for something to write.
func (c *Conn) awaken() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// flush writes all that was released or freed before. The caller holds writing.
func (c *Conn) flush(ctx context.Context) error {
	for {
		c.mu.Lock()
		released, results, forgotten, notes := c.released, c.results, c.forgotten, c.notes
		n := min(len(released), maxReleased)
		switch {
		case len(notes) > 0: // before the end of a memory that a ring lies in
			c.begin(notes[0].kind, 0)
			c.scratch = append(c.scratch, notes[0].payload...)
		case n > 0:
			c.begin(kindReleased, 0)
			c.scratch = appendReleased(c.scratch, released[:n])
		case len(results) > 0: // before a semaphore is forgotten
			c.begin(kindOrder, 0)
			c.scratch = appendResult(c.scratch, results[0])
		case len(forgotten) > 0:
			c.begin(kindForget, 0)
			c.scratch = appendForget(c.scratch, forgotten[0])
		default:
			c.mu.Unlock()
			return nil
		}
		c.mu.Unlock()
		if err := c.put(ctx, -1); err != nil {
			return err
		}
		c.mu.Lock()
		switch { // unless the connection has ended, and dropped them
		case len(notes) > 0:
			c.notes = c.notes[min(1, len(c.notes)):]
		case n > 0 && len(c.released) >= n:
			c.released = c.released[:copy(c.released, c.released[n:])]
		case n > 0:
		case len(results) > 0:
			c.results = c.results[min(1, len(c.results)):]
		case len(c.forgotten) > 0:
			c.forgotten = c.forgotten[:copy(c.forgotten, c.forgotten[1:])]
		}
		c.mu.Unlock()
	}
}

// read handles what the peer sends until the connection ends, and then closes what is open.
func (c *Conn) read() {
	defer func() {
		c.endRings() // first: publishers wait for the slots
		c.endSender()
		c.endReceiver()
		c.endOrderer()
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
	case kindRing, kindSubscribe, kindJoined, kindLeave, kindRingEnd:
		owned, err = c.takeRingMessage(h.kind, payload, fds)
	default:
		err = violation("kind %d of messages is not known to version %d", h.kind, wireVersion)
	}
	return err
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

// bound returns a context that also ends with the connection.
func (c *Conn) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// isOf reports whether err is of the ctx of a call, and not of what it did.
func isOf(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, ctx.Err())
}
