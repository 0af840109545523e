package flight

import (
	"container/list"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"
)

// listener is a listener whose connections count until they are closed.
type listener struct {
	net.Listener
	all *connections
}

// Accept waits for a connection that has a place. It closes others at once, so that such a client gets an error and does
// not wait.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		x, out := l.all.enter(c)
		if out != nil {
			_ = out.Close()
		}
		if x != nil {
			return x, nil
		}
	}
}

// connections are the open ones of all listeners of a server.
type connections struct {
	limit int
	// patience is how long a peer may take nothing of what is sent to it, or not answer.
	patience time.Duration

	mu   sync.Mutex
	open int
	// strangers had no call yet that may be made; idle have none any more. Those that wait longest are first.
	strangers, idle list.List
}

// enter gives a connection a place. If none is left, it takes that of one without calls: the first that never had one, or
// else the one whose last call ended first, but not just now, since the end of the answer may be on its way. The caller
// closes out, which lost its place, or is c, which got none.
func (s *connections) enter(c net.Conn) (x *counted, out net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= s.limit {
		e := s.strangers.Front()
		if e == nil {
			e = s.idle.Front()
		}
		if e == nil || time.Since(e.Value.(*counted).ended) < s.patience {
			return nil, c
		}
		victim := e.Value.(*counted)
		victim.leave()
		out = victim
	}
	s.open++
	x = &counted{Conn: c, all: s}
	x.move(&s.strangers)
	return x, out
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	all     *connections
	limited atomic.Bool // by SetWriteDeadline

	// all.mu guards these.
	closed bool
	calls  int        // that may be made and are running
	ended  time.Time  // when the last call ended
	in     *list.List // that has it at place, or nil
	place  *list.Element
}

// Close closes the connection. Closing twice is safe.
func (c *counted) Close() error {
	c.all.mu.Lock()
	c.leave()
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// Write closes the connection if the peer takes nothing for the time of patience: after an error of it, gRPC waits until
// reading fails, too. gRPC sets TCP_USER_TIMEOUT for such peers, but only if nobody has wrapped the connection, and Linux
// may not heed it while the peer goes on sending.
func (c *counted) Write(b []byte) (n int, err error) {
	if c.limited.Load() {
		return c.Conn.Write(b)
	}
	// A connection that waits notices room only when there is much, and one that tries notices any.
	const tries = 4
	for failed := 0; failed < tries; failed++ {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.all.patience / tries)); err != nil {
			return n, err
		}
		var m int
		m, err = c.Conn.Write(b[n:])
		n += m
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if m > 0 {
			failed = -1
		}
	}
	_ = c.Close()
	return n, err
}

// SetWriteDeadline is called by package tls before its last words. From then on, the time of patience is not for Write.
func (c *counted) SetWriteDeadline(t time.Time) error {
	c.limited.Store(true)
	return c.Conn.SetWriteDeadline(t)
}

// LocalAddr returns the address with the connection, which gRPC gives to each call.
func (c *counted) LocalAddr() net.Addr { return localAddr{c.Conn.LocalAddr(), c} }

type localAddr struct {
	net.Addr
	c *counted
}

// connectionOf returns the connection of a call, or nil if none is known.
func connectionOf(ctx context.Context) *counted {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return nil
	}
	a, _ := p.LocalAddr.(localAddr)
	return a.c
}

// begin says that a call begins which may be made. The caller calls end.
func (c *counted) begin() {
	if c == nil {
		return
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.calls++
	c.move(nil)
}

// end says that the work of a call has ended.
func (c *counted) end() {
	if c == nil {
		return
	}
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	c.calls--
	c.ended = time.Now()
	if c.calls == 0 && !c.closed {
		c.move(&c.all.idle)
	}
}

// leave gives the place of c back, once. all.mu is held.
func (c *counted) leave() {
	if !c.closed {
		c.closed = true
		c.all.open--
		c.move(nil)
	}
}

// move moves c to the end of a list, or to none. all.mu is held.
func (c *counted) move(to *list.List) {
	if c.in != nil {
		c.in.Remove(c.place)
	}
	if c.in = to; to != nil {
		c.place = to.PushBack(c)
	}
}
