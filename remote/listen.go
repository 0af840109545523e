package remote

import (
	"cmp"
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

// Tests change these bounds.
var (
	maxStrangers  = 1024 // peers that have not proved who they are: each takes a goroutine
	maxHandshakes = 64   // peers that have, and for which UCX makes a worker and connects
	maxWaiting    = 256  // connections that wait for Accept
)

// Listener accepts connections of other processes. It is safe for concurrent use.
//
// A connection serves requests for offers before Accept returns it. Up to 256 connections wait for Accept. If 256 wait and another one
// comes, a waiting one whose peer has gone is closed for it; else the new one is refused. So a program that only offers tensors calls
// [Listener.Serve], which accepts all connections.
type Listener struct {
	options Options
	socket  net.Listener
	offers  offers
	life    context.Context
	stop    context.CancelFunc
	ended   chan struct{} // closed when no handshake runs any more
	room    chan struct{} // has one element for each handshake of a peer that has proved who it is
	closing sync.Once

	mu      sync.Mutex
	waiting []*Conn       // for Accept
	more    chan struct{} // holds one element if some may wait, and a call of Accept does not know it
}

var liveListeners = live.NewCounter("remote.Listener")

// Listen listens at a TCP address, such as "10.0.0.7:7470" or "127.0.0.1:0". The caller closes the result. The options
// apply to all connections.
//
// Listen returns core.ErrInvalid if an option or the address is wrong, and the errors of [Available].
func Listen(address string, o Options) (*Listener, error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, core.Errorf(causeError{core.ErrInvalid, err}, "remote", "Listen", "%v", err)
	}
	return ListenOn(socket, o)
}

// ListenOn is [Listen] for a socket that the program has, such as one of systemd's. The socket belongs to the listener, and is
// closed if ListenOn fails. It must be one of TCP, and not a nil pointer. Close closes it, and waits until its Accept returns.
func ListenOn(socket net.Listener, o Options) (*Listener, error) {
	if socket == nil {
		return nil, invalid("Listen", "the socket is nil")
	}
	err := cmp.Or(Available(), o.check(), o.checkClients())
	switch a, ok := socket.Addr().(*net.TCPAddr); {
	case err != nil:
	case !ok:
		err = invalid("Listen", "the socket at %v is not one of TCP", socket.Addr())
	case o.Insecure && !a.IP.IsLoopback():
		err = invalid("Listen", "%s is not on the loopback interface, and insecure connections are for that only: use a token or certificates", socket.Addr())
	}
	if err != nil {
		_ = socket.Close()
		return nil, err
	}
	l := &Listener{options: o, socket: socket, more: make(chan struct{}, 1), ended: make(chan struct{}), room: make(chan struct{}, maxHandshakes)}
	l.life, l.stop = context.WithCancel(context.Background())
	liveListeners.Add(1)
	go l.serve()
	return l, nil
}

// serve makes connections of all that connect, many at a time: one that is slow does not delay others.
func (l *Listener) serve() {
	defer close(l.ended)
	var handshakes sync.WaitGroup
	defer handshakes.Wait()
	strangers := make(chan struct{}, maxStrangers)
	for {
		select {
		case strangers <- struct{}{}:
		case <-l.life.Done():
			return
		}
		socket, err := l.socket.Accept()
		switch {
		case err == nil:
			handshakes.Go(func() {
				defer func() { <-strangers }()
				l.greet(socket)
			})
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		<-strangers
		select { // no descriptor is left, for example
		case <-time.After(10 * time.Millisecond):
		case <-l.life.Done():
		}
	}
}

// greet makes a connection of a socket for Accept. A peer that fails is no error of the listener.
func (l *Listener) greet(socket net.Conn) {
	ctx, cancel := context.WithTimeout(l.life, handshakeWithin)
	defer cancel()
	admitted := false
	admit := func(ctx context.Context) error {
		select {
		case l.room <- struct{}{}:
			admitted = true
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() {
		if admitted {
			<-l.room
		}
	}()
	c, err := newConn(ctx, socket, l.options, admit, "", &l.offers)
	if err != nil {
		if l.life.Err() == nil { // else it is this side that has ended the handshake
			counted.refused.Add(1)
		}
		return
	}
	if x := l.keep(c); x != nil {
		if x == c {
			counted.refused.Add(1)
			c.fail(ended(errFull, "%d connections wait for the program that listens to accept them", maxWaiting))
		}
		_ = x.Close()
	}
}

// keep keeps a connection for Accept. If there are too many, it returns one that the caller closes: the first one that has ended, or c.
func (l *Listener) keep(c *Conn) *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	var gone *Conn
	if len(l.waiting) >= maxWaiting {
		i := slices.IndexFunc(l.waiting, func(x *Conn) bool { return x.Err() != nil })
		if i < 0 {
			return c
		}
		gone = l.waiting[i]
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	l.waiting = append(l.waiting, c)
	l.announce()
	return gone
}

// announce tells a call of Accept that a connection waits. l.mu is held.
func (l *Listener) announce() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

// next returns the connection that has waited for Accept longest, or nil if none waits.
func (l *Listener) next() *Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		return nil
	}
	c := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	if len(l.waiting) > 0 {
		l.announce() // another call of Accept
	}
	return c
}

// Accept waits for a peer that has proved who it is. The caller closes the result, which may have ended by then: what has
// arrived can still be received. Accept returns ctx's error, or
// core.ErrClosed if the listener was closed.
func (l *Listener) Accept(ctx context.Context) (*Conn, error) {
	if l == nil || l.socket == nil {
		return nil, invalid("Accept", "the listener is nil or was not made by Listen")
	}
	for l.life.Err() == nil {
		if c := l.next(); c != nil {
			return c, nil
		}
		select {
		case <-l.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-l.life.Done():
		}
	}
	return nil, core.Errorf(core.ErrClosed, "remote", "Accept", "the listener at %v was closed", l.socket.Addr())
}

// Addr returns the address at which the listener listens, with the port that the system has chosen. It is nil for a
// nil listener.
func (l *Listener) Addr() net.Addr {
	if l == nil || l.socket == nil {
		return nil
	}
	return l.socket.Addr()
}

// Close ends Accept, and closes connections that it has not returned. The others stay open. A second Close does nothing.
// Close always returns nil; the result makes Listener an io.Closer.
func (l *Listener) Close() error {
	if l == nil || l.socket == nil {
		return nil
	}
	l.closing.Do(func() {
		l.stop()
		_ = l.socket.Close()
		<-l.ended
		var left sync.WaitGroup
		for c := l.next(); c != nil; c = l.next() {
			left.Go(func() { _ = c.Close() })
		}
		left.Wait()
		l.offers.close()
		liveListeners.Add(-1)
	})
	return nil
}

// Dial connects to a listener. The caller closes the result.
//
// Dial returns ctx's error; core.ErrInvalid if an option or the address is wrong; the errors of [Available]; and core.ErrClosed if nobody
// listens at the address, one side does not accept the other one, or the peer ends. If ctx has no deadline, a peer that does not answer
// ends Dial after 30 seconds, and so does UCX if it cannot reach the peer.
func Dial(ctx context.Context, address string, o Options) (*Conn, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeWithin)
	defer cancel()
	host, port, err := net.SplitHostPort(address)
	if err == nil && port == "" {
		err = errors.New("the port is missing")
	}
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err != nil && ctx.Err() == nil {
		return nil, core.Errorf(causeError{core.ErrInvalid, err}, "remote", "Dial", "%q is no address, such as \"10.0.0.7:7470\": %v", address, err)
	}
	var d net.Dialer
	socket, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) { // that of ctx, which package net may notice earlier
			return nil, context.DeadlineExceeded
		}
		return nil, core.Errorf(causeError{core.ErrClosed, err}, "remote", "Dial", "no connection to %s: %v: start the process that listens there", address, err)
	}
	return newConn(ctx, socket, o, nil, host, nil)
}
