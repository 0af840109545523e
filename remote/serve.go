package remote

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/dlx-go/dlx/core"
)

// server is what a connection keeps of the requests of its peer. The connection's mutex guards putting and serving.
type server struct {
	own     offers  // of this connection
	shared  *offers // of the listener that has accepted the connection; nil if there is none
	putting map[uint64]*inbound
	serving int           // requests that have begun or wait
	begun   chan struct{} // has one element for each request that has begun
}

// newServer returns a server that serves so many requests at the same time.
func newServer(requests int) server {
	return server{putting: make(map[uint64]*inbound), begun: make(chan struct{}, requests)}
}

var errGone = core.Errorf(core.ErrClosed, "remote", "request", "the offer has ended, or there was none")

// refusals are the errors that an answer can name, by the number in it, from 1 on.
var refusals = []error{core.ErrClosed, core.ErrInvalid, core.ErrLayout, core.ErrReadOnly, core.ErrOutOfMemory, core.ErrDevice}

func appendRefusal(b []byte, id uint64, err error) []byte {
	n := len(refusals)
	for i, x := range refusals {
		if errors.Is(err, x) {
			n = i + 1
			break
		}
	}
	text := err.Error()
	if e := (*core.Error)(nil); errors.As(err, &e) {
		text = e.Detail
	}
	b = le.AppendUint64(b, id)
	b = le.AppendUint16(b, uint16(n))
	b = le.AppendUint16(b, 0)
	return append(b, text[:min(len(text), maxText)]...)
}

// readRefusal reads what follows the number of the request.
func readRefusal(b []byte) (refused, err error) {
	if len(b) < 4 || len(b) > 4+maxText {
		return nil, violation("a refusal has %d bytes", len(b))
	}
	n := int(le.Uint16(b))
	if n < 1 || n > len(refusals) {
		return nil, violation("a refusal has the reason %d", n)
	}
	return core.Errorf(refusals[n-1], "remote", "request", "the peer refused it: %q", b[4:]), nil
}

// serve begins to serve a request of the peer.
func (c *Conn) serve(k control, payload []byte) error {
	q, err := readRequest(payload)
	if err != nil {
		return err
	}
	t, f, err := c.look(k, &q)
	if err != nil {
		return c.refuse(&q, err)
	}
	var in *inbound
	c.mu.Lock()
	switch {
	case c.serving >= 2*cap(c.begun):
		// The peer may know that a request is fulfilled before this process does, and make the next one: as many wait.
		err = core.Errorf(core.ErrOutOfMemory, "remote", "request", "%d requests are served or wait", c.serving)
	case k == controlPut && c.putting[q.id] != nil:
		c.mu.Unlock()
		f.release(t)
		return violation("request %d came twice", q.id)
	default:
		c.serving++
		if k == controlPut {
			in = &inbound{id: q.id, home: c.putting, bytes: q.bytes}
			if c.putting != nil {
				c.putting[q.id] = in
			}
		}
	}
	c.mu.Unlock()
	if err != nil {
		f.release(t)
		return c.refuse(&q, err)
	}
	c.work.Go(func() {
		defer func() {
			f.release(t)
			c.mu.Lock()
			c.serving--
			c.mu.Unlock()
		}()
		ctx, over := c.bound(&q)
		defer over()
		err := c.lock(ctx, c.begun)
		if err == nil {
			defer func() { <-c.begun }()
			switch k {
			case controlFetch:
				err = c.serveFetch(ctx, &q, f, t)
			case controlSum:
				err = c.serveSum(ctx, &q, f, t)
			default:
				err = c.servePut(ctx, &q, f, t, in)
			}
		}
		if in != nil {
			c.leave(in)
		}
		if err != nil {
			if c.Err() == nil { // else there is nobody to tell
				_ = c.refuse(&q, err)
			}
			return
		}
		if q.bytes > 0 && k != controlSum && c.usedTransports() == nil {
			c.noteTransports()
		}
		c.mu.Lock()
		c.stats.Served++
		if in != nil {
			c.stats.BytesReceived += in.bytes
		}
		c.mu.Unlock()
	})
	return nil
}

// bound returns the context of a request. It ends with the connection, and when the requester does not wait any more, so that a peer that
// stalls does not keep a writable offer from others. What UCX has begun then cannot be ended by itself, and the offer is kept until it has
// ended; if it has not after KeepAlive, the connection ends, which ends it. The caller calls over when the request is served.
func (c *Conn) bound(q *request) (ctx context.Context, over func()) {
	if q.within == 0 {
		return c.life, func() {}
	}
	ctx, cancel := context.WithTimeout(c.life, q.within+afterwards)
	stalled := time.AfterFunc(q.within+afterwards+c.options.KeepAlive, func() {
		c.fail(ended(errStalled, "a request of the peer has stalled: it was to be done after %v, and was not %v later", q.within, afterwards+c.options.KeepAlive))
	})
	return ctx, func() { stalled.Stop(); cancel() }
}

// afterwards is how much longer a request is served than its sender waits, which then knows itself that its time is over.
const afterwards = time.Second

// look returns the tensor of a request and its offer, by which the caller releases it, or why there is none.
func (c *Conn) look(k control, q *request) (*core.Tensor, *Offer, error) {
	f := c.own.find(q.key)
	if f == nil {
		f = c.shared.find(q.key)
	}
	switch {
	case f == nil:
		return nil, nil, errGone
	case k == controlPut && !f.writable:
		return nil, nil, core.Errorf(core.ErrReadOnly, "remote", "request", "the offer is not writable")
	}
	t, err := f.rows(q)
	return t, f, err
}

// refuse answers a request that is not fulfilled, and counts it.
func (c *Conn) refuse(q *request, why error) error {
	c.mu.Lock()
	c.stats.Refused++
	c.mu.Unlock()
	return c.tell(c.life, controlRefused, func(b []byte) []byte { return appendRefusal(b, q.id, why) })
}

// serveFetch sends the elements of t. What is writable is used by one request at a time, so that no elements are read while
// others come.
func (c *Conn) serveFetch(ctx context.Context, q *request, f *Offer, t *core.Tensor) error {
	if f.writable {
		if err := c.lock(ctx, f.busy); err != nil {
			return err
		}
		defer func() { <-f.busy }()
	}
	if f.arriving != nil {
		if err := f.arriving.wait(ctx, q.first, q.count); err != nil {
			return err
		}
	}
	var r Report
	source, err := elements(ctx, t, true, &r)
	if err != nil {
		return err
	}
	x := newSending(c, kindFetched, q.bytes)
	defer x.recycle()
	x.out.id, x.read = q.id, &f.read
	if err := c.explain(x.run(ctx, source, &r)); err != nil && (x.given < q.bytes || q.bytes == 0 || !errors.Is(err, io.EOF)) {
		if f.writable && ctx.Err() != nil { // UCX may still read the elements
			_ = t.WaitIdle(c.life)
		}
		return err
	} // else the peer has got the elements, and has closed the connection before UCX said so
	c.mu.Lock()
	c.stats.BytesSent += q.bytes
	c.stats.BytesCopied += r.BytesCopied
	c.mu.Unlock()
	return nil
}

// servePut receives elements into t.
func (c *Conn) servePut(ctx context.Context, q *request, f *Offer, t *core.Tensor, in *inbound) error {
	if err := c.lock(ctx, f.busy); err != nil {
		return err
	}
	defer func() { <-f.busy }()
	if err := t.WaitIdle(ctx); err != nil && ctx.Err() != nil {
		return err // a write that has failed is overwritten
	}
	if t.DeviceID().Type.HostAccessible() {
		address, err := t.Address()
		if err == nil {
			err = touch(address, in.bytes)
		}
		if err != nil {
			return err
		}
	}
	answer := func(k control) error {
		return c.tell(ctx, k, func(b []byte) []byte { return le.AppendUint64(b, q.id) })
	}
	if err := answer(controlAccepted); err != nil {
		return err
	}
	if in.bytes == 0 {
		if err := c.nothing(ctx, in); err != nil {
			return err
		}
		return answer(controlDone)
	}
	b, err := t.Buffer()
	if err != nil {
		return err
	}
	memory, reason := pathOf(t.DeviceID(), in.bytes)
	if reason != "" { // copies of the device keep the order
		var r Report
		if err := c.fill(ctx, in, t, &r); err != nil {
			b.Wrote(failedWrite(err)) // copies that go on stay in the order before it
			return err
		}
		return answer(controlDone)
	}
	write := &transfer{over: make(chan struct{})}
	b.Wrote(write)
	in.left = make(chan struct{})
	write.err = c.fillDirect(ctx, in, t, memory)
	<-in.left // UCX may write the elements after a failure
	close(write.over)
	if write.err != nil {
		return write.err
	}
	return answer(controlDone)
}
