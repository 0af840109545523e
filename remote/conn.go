package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// Conn is a connection to another process. It is safe for concurrent use. [Dial] or [Listener.Accept] makes it, and the
// caller closes it, before the devices that it has received tensors on.
//
// The worker of UCX calls the connection with the lock of the worker held. So nothing calls the worker with mu held.
type Conn struct {
	options Options
	raw     net.Conn // the TCP connection
	socket  net.Conn // the control connection over it
	worker  *ucx.Worker
	token   [tokenSize]byte // that data messages to this side begin with
	peer    hello

	life  context.Context // until the connection has ended
	stop  context.CancelFunc
	ended chan struct{}  // closed when all that it had open is closed
	heard chan struct{}  // closed when no control message is read any more
	work  sync.WaitGroup // goroutines that end with life

	writing chan struct{} // holds one element while a control message is written
	sending chan struct{} // holds one element while a tensor gets its number and its first piece is sent
	polling chan struct{} // holds one element while a call polls: two would take two processors, and wait for each other

	crediting sync.Mutex // held while the peer is told how many tensors were received, before the lock of the worker

	mu         sync.Mutex
	err        error         // why it has ended
	changed    chan struct{} // closed when something below changes; nil if nobody waits for that
	stats      Stats
	transports []string
	draining   int  // transfers that were given up, and whose memory UCX may still use
	drained    bool // the connection has ended, and UCX uses no memory

	sent     uint64 // tensors that were numbered, from 1 on
	credited uint64 // of them, those that the peer has received

	inbound  map[uint64]*inbound // tensors of the peer that are not there completely, by number
	next     uint64              // the tensor that Receive returns next
	received uint64              // all tensors up to this number were received, or are lost
	beyond   map[uint64]struct{} // tensors after it of which the same is true
	taking   int                 // calls of Receive that have taken a tensor, and have not ended
	parted   bool                // the peer has closed the connection: what has arrived can be received
	promised uint64              // tensors that the peer had begun to send then
	told     uint64              // how many of them the peer was told of
	spare    []*inbound          // that are used again
	asked    uint64              // the number of which the peer wants to be told

	requester
	server
}

var liveConns = live.NewCounter("remote.Conn")

// newConn makes a connection of a socket, which it owns, also on failure. Shared are the offers of the listener, if any.
func newConn(ctx context.Context, socket net.Conn, o Options, admit func(context.Context) error, host string, shared *offers) (*Conn, error) {
	c := &Conn{
		options: o, raw: socket, next: 1,
		inbound: make(map[uint64]*inbound), requester: newRequester(), server: newServer(o.Limits.Requests),
		writing: make(chan struct{}, 1), sending: make(chan struct{}, 1), polling: make(chan struct{}, 1), ended: make(chan struct{}), heard: make(chan struct{}),
	}
	c.shared = shared
	c.life, c.stop = context.WithCancel(context.Background())
	release := context.AfterFunc(ctx, func() { _ = socket.SetDeadline(time.Unix(1, 0)) })
	server := admit != nil
	var err error
	if c.socket, err = o.secure(ctx, socket, server, host); err == nil && server {
		err = admit(ctx)
	}
	if err == nil {
		err = c.shake()
	}
	if !release() && err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = o.lostIf(socket.SetDeadline(time.Time{}))
	}
	if err != nil {
		c.stop()
		_ = socket.Close()
		if c.worker != nil {
			_ = c.worker.Close()
		}
		c.dropArrived()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, &ConnError{Peer: socket.RemoteAddr().String(), Err: err}
	}
	liveConns.Add(1)
	countMade(c)
	c.work.Go(c.read)
	c.work.Go(c.ping)
	go c.finish()
	if err := c.meet(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// shake exchanges hellos, and connects UCX.
func (c *Conn) shake() (err error) {
	if _, err := rand.Read(c.token[:]); err != nil {
		return core.Errorf(core.ErrNotSupported, "remote", "token", "%v", err)
	}
	// Each unfinished transfer may have a window of messages: tensors, Puts of the peer, and Fetches of this side.
	messages := (c.options.Limits.Tensors+2*c.options.Limits.Requests)*window + 64
	c.worker, err = ucx.NewWorker(messages, ucx.Handler{
		Arrived: c.arrived,
		Broken:  c.lostPeer,
		Dropped: func() { c.fail(violation("the peer has sent more data messages than it may, or too large ones")) },
		Token:   &c.token,
		Foreign: func(n int64) {
			c.mu.Lock()
			c.stats.Dropped += n
			c.mu.Unlock()
		},
	})
	if err != nil {
		return err
	}
	h := hello{features: featureList, limits: c.options.Limits, alive: c.options.KeepAlive, token: c.token, header: c.worker.MaxHeader(), address: c.worker.Address()}
	if _, err := c.socket.Write(finishControl(appendHello(appendControl(nil, controlHello), &h))); err != nil {
		return c.options.lost(err)
	}
	k, payload, err := readControl(c.socket, make([]byte, usualControl))
	switch {
	case err != nil:
		return c.options.lost(err)
	case k == controlGoodbye:
		return c.options.toldIn(payload)
	case k != controlHello:
		return violation("the first message is of kind %d: it must be a hello", k)
	}
	if c.peer, err = readHello(payload); err != nil {
		return err
	}
	return c.worker.Connect(c.peer.address)
}

// meet waits until UCX has connected both sides over TCP; over shared memory it does not wait for the peer. UCX handles the death of a
// peer worst while it connects, and here nothing is on its way yet. A program also learns early that it cannot reach UCX's ports.
func (c *Conn) meet(ctx context.Context) (err error) {
	met := make(chan error, 1)
	if err := c.worker.Flush(func(err error) { met <- err }); err != nil {
		met <- err
	}
	select {
	case err = <-met:
		err = c.explain(err)
	case <-c.life.Done():
		err = c.Err()
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
		return core.Errorf(ctx.Err(), "remote", "connection", "UCX has not connected the processes: each must reach the ports of the other one (UCX_TCP_PORT_RANGE, UCX_NET_DEVICES)")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.parted { // what the peer has sent before it closed the connection can be received
		return nil
	}
	return err
}

// Stats counts what a connection has done.
type Stats struct {
	Sent          int64 `json:"sent"`           // tensors
	Received      int64 `json:"received"`       // tensors that Receive has returned
	BytesSent     int64 `json:"bytes_sent"`     // of the elements of tensors, also those of requests that were fulfilled
	BytesReceived int64 `json:"bytes_received"` // of the elements of tensors, also those of requests that were fulfilled
	BytesCopied   int64 `json:"bytes_copied"`   // on the way between a device or a strided tensor and UCX
	Dropped       int64 `json:"dropped"`        // data messages without the token of the connection, or of transfers that were given up
	Served        int64 `json:"served"`         // requests of the peer that were fulfilled; the last ones count if UCX had all elements when the peer closed the connection
	Refused       int64 `json:"refused"`        // requests of the peer that were refused, or have failed
	InFlight      int   `json:"in_flight"`      // tensors that were sent, and that the peer has not said to have received
	Waiting       int   `json:"waiting"`        // tensors that have begun to arrive, and are not received
}

// Stats returns what the connection has done.
func (c *Conn) Stats() Stats {
	if c == nil {
		return Stats{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.InFlight, s.Waiting = int(c.sent-c.credited), len(c.inbound)
	return s
}

// Peer returns the address of the peer. It is nil for a nil connection.
func (c *Conn) Peer() net.Addr {
	if c == nil || c.raw == nil {
		return nil
	}
	return c.raw.RemoteAddr()
}

// Transports returns the names of the transports that UCX has chosen, such as "tcp" or "sysv". UCX may choose when the first
// message is on its way; before, the result may name others.
func (c *Conn) Transports() []string {
	if c == nil || c.worker == nil {
		return nil
	}
	return c.worker.Transports()
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
	if c == nil || c.raw == nil {
		return noConn("Err")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection, and with it all calls that wait on it. Tensors that were sent may be lost, which the peer learns;
// call [Conn.WaitReceived] before. Tensors that have arrived, and were not received, are dropped. A second Close does nothing. Close always returns nil; the result makes Conn an io.Closer.
func (c *Conn) Close() error {
	if c == nil || c.raw == nil {
		return nil
	}
	c.fail(errClosedHere)
	<-c.ended
	c.dropArrived()
	return nil
}

// noConn is the error of a call on a connection that there is not.
func noConn(call string) error {
	return invalid(call, "the connection is nil or was not made by this package")
}

// fail notes why the connection has ended, unless it has ended. It does not block.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failLocked(err)
}

func (c *Conn) failLocked(err error) {
	if c.err != nil {
		return
	}
	c.err = &ConnError{Peer: c.raw.RemoteAddr().String(), Err: err}
	c.stop()
	c.notify()
}

// lostPeer ends the connection soon, because UCX has lost the peer: the control connection may know why. It does not block.
func (c *Conn) lostPeer(err error) {
	time.AfterFunc(lingers, func() { c.fail(ended(err, "UCX has lost the peer: %v", err)) })
}

// explain returns the error of a call that failed with err: that of the connection if it has ended, or UCX has lost the peer.
func (c *Conn) explain(err error) error {
	if err == nil {
		return nil
	}
	if ended := c.Err(); ended != nil {
		return ended
	}
	var e *core.Error
	if !errors.As(err, &e) || e.Backend != "ucx" || !errors.Is(err, core.ErrClosed) {
		return err
	}
	c.lostPeer(err)
	<-c.life.Done()
	return c.Err()
}

// lingers is how long the end of a connection waits for the peer to read the reason.
const lingers = 500 * time.Millisecond

// finish waits for the end of the connection, tells the peer why, and closes what is open.
func (c *Conn) finish() {
	<-c.life.Done()
	_ = c.raw.SetWriteDeadline(time.Unix(1, 0)) // whoever is writing ends
	c.writing <- struct{}{}
	_ = c.raw.SetDeadline(time.Now().Add(lingers))
	g := farewell(c.Err())
	c.mu.Lock()
	g.received, g.sent = c.received, c.sent
	c.mu.Unlock()
	_, _ = c.socket.Write(finishControl(appendGoodbye(appendControl(nil, controlGoodbye), g)))
	if tcp, ok := c.raw.(*net.TCPConn); ok { // a reset would take the goodbye away
		_ = tcp.CloseWrite()
	}
	<-c.heard            // the peer learns the reason before UCX tells it that this side is gone
	_ = c.worker.Close() // all operations end
	c.work.Wait()
	_ = c.raw.Close()
	c.mu.Lock()
	for c.draining > 0 {
		changed := c.watch()
		c.mu.Unlock()
		<-changed
		c.mu.Lock()
	}
	c.fetching, c.putting, c.drained, c.spare = nil, nil, true, nil
	parted := c.parted
	c.notify()
	c.mu.Unlock()
	if !parted {
		c.dropArrived()
	}
	c.own.close()
	countEnded(c)
	liveConns.Add(-1)
	close(c.ended)
}

// dropArrived drops the tensors that nobody has received, when the connection has ended.
func (c *Conn) dropArrived() {
	c.mu.Lock()
	left := slices.Collect(maps.Values(c.inbound)) // calls that end their transfers still change the map
	c.inbound = nil
	c.mu.Unlock()
	for _, in := range left {
		c.mu.Lock()
		messages := in.takeArrived()
		c.mu.Unlock()
		dropAll(messages)
	}
}

// tell writes a control message. A peer that does not read ends the connection after KeepAlive.
func (c *Conn) tell(ctx context.Context, k control, payload func([]byte) []byte) error {
	if err := c.lock(ctx, c.writing); err != nil {
		return err
	}
	defer func() { <-c.writing }()
	if err := c.raw.SetWriteDeadline(time.Now().Add(c.options.KeepAlive)); err != nil {
		c.fail(c.options.lost(err))
		return c.Err()
	}
	if c.life.Err() != nil { // finish may have set a deadline before
		return c.Err()
	}
	if _, err := c.socket.Write(finishControl(payload(appendControl(nil, k)))); err != nil {
		c.fail(c.options.lost(err))
		return c.Err()
	}
	return nil
}

// ping gives signs of life.
func (c *Conn) ping() {
	ticks := time.NewTicker(max(c.peer.alive/4, minAlive/4))
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
		case <-c.life.Done():
			return
		}
		if c.tell(c.life, controlPing, func(b []byte) []byte { return b }) != nil {
			return
		}
	}
}

// read handles control messages until the connection ends.
func (c *Conn) read() {
	defer close(c.heard)
	b := make([]byte, usualControl)
	var last time.Time // by which the peer is heard at the end; zero before
	for {
		if c.life.Err() == nil {
			_ = c.raw.SetReadDeadline(time.Now().Add(c.options.KeepAlive))
		}
		if c.life.Err() != nil { // the deadline may be that of this call
			if last.IsZero() { // once, since a peer that goes on to send must not keep the end waiting
				last = time.Now().Add(lingers)
			}
			_ = c.raw.SetReadDeadline(last)
		}
		k, payload, err := readControl(c.socket, b)
		if err != nil {
			c.fail(c.options.lost(err))
			return
		}
		if err := c.handle(k, payload); err != nil {
			c.fail(err)
			return
		}
	}
}

// handle handles a control message.
func (c *Conn) handle(k control, payload []byte) error {
	switch k {
	case controlPing:
		if len(payload) != 0 {
			return violation("a sign of life has %d bytes, and needs none", len(payload))
		}
		return nil
	case controlGoodbye:
		return c.takeGoodbye(payload)
	case controlSync:
		if len(payload) != 8 {
			return violation("a question about tensors has %d bytes, and needs 8", len(payload))
		}
		c.mu.Lock()
		c.asked = max(c.asked, le.Uint64(payload))
		c.mu.Unlock()
		c.credit()
		return nil
	case controlFetch, controlPut, controlSum:
		return c.serve(k, payload)
	case controlList:
		return c.serveList(payload)
	case controlListed, controlSummed:
		return c.reply(k, payload)
	case controlAccepted, controlDone, controlRefused:
		return c.answer(k, payload)
	}
	return violation("kind %d of control messages is not known to version %d", k, wireVersion)
}

// arrived handles a data message. The lock of the worker is held.
func (c *Conn) arrived(m *ucx.Message) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(m.Header) < dataSize {
		c.failLocked(violation("a data message has a header of %d bytes, and needs %d", len(m.Header), dataSize))
		return false
	}
	if c.err != nil && !c.parted {
		return false
	}
	d, rest := readData(m.Header)
	keep, err := false, error(nil)
	switch d.kind {
	case kindTensor:
		keep, err = c.takeTensor(d, rest, m)
	case kindPiece:
		keep, err = c.takePiece(c.inbound, d, rest, m)
	case kindCredit:
		err = c.takeCredit(d, rest, m)
	case kindAbandon:
		c.takeAbandon(d)
	case kindFetched:
		keep, err = c.takePiece(c.fetching, d, rest, m)
	case kindPut:
		keep, err = c.takePiece(c.putting, d, rest, m)
	default:
		err = violation("kind %d of data messages is not known to version %d", d.kind, wireVersion)
	}
	if err != nil {
		c.failLocked(err)
	}
	c.notify()
	return keep
}

// takeGoodbye handles that the peer has ended the connection, and returns the error of it.
func (c *Conn) takeGoodbye(payload []byte) error {
	g, err := readGoodbye(payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.next - 1 // tensor that has begun to arrive
	for id := range c.inbound {
		last = max(last, id)
	}
	switch {
	case g.received > c.sent:
		return violation("the peer says that it has received %d tensors, and %d were sent", g.received, c.sent)
	case g.sent < last || g.sent > c.told+uint64(c.options.Limits.Tensors):
		return violation("the peer says that it has sent %d tensors, and %d came, with %d received and %d permitted beside them", g.sent, last, c.told, c.options.Limits.Tensors)
	}
	c.credited = max(c.credited, g.received)
	why := c.options.told(g)
	if c.err == nil && errors.Is(why, io.EOF) {
		c.parted, c.promised = true, g.sent
	}
	c.failLocked(why) // at once with parted
	return why
}

// takeCredit handles that the peer has received tensors. A number that is smaller than an earlier one says nothing: versions of dlx that
// let credits overtake each other send it. c.mu is held.
func (c *Conn) takeCredit(d data, rest []byte, m *ucx.Message) error {
	if len(rest) != 0 || m.Length != 0 || d.index != 0 || d.id > c.sent {
		return violation("the peer says that it has received %d tensors, and %d were sent", d.id, c.sent)
	}
	c.credited = max(c.credited, d.id)
	return nil
}
