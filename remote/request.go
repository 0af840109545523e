package remote

import (
	"context"
	"errors"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
)

// requester is what a connection keeps of its requests. The connection's mutex guards it.
type requester struct {
	requests uint64              // that were made
	asking   map[uint64]*asked   // that have no final answer
	fetching map[uint64]*inbound // what comes for them
}

// asked is a request that waits for an answer.
type asked struct {
	accepted, done bool
	refused        error
	wants          control // the kind of the answer to List and Checksum
	reply          []byte  // that answer, once it is there
}

func newRequester() requester {
	return requester{asking: make(map[uint64]*asked), fetching: make(map[uint64]*inbound)}
}

const requestSize = 56

// request asks for rows of an offer: all if count is -1.
type request struct {
	id           uint64
	key          [keySize]byte
	first, count int64
	bytes        int64         // of the rows
	within       time.Duration // how long the requester waits; 0 for as long as the connection is open
}

func appendRequest(b []byte, q *request) []byte {
	b = le.AppendUint64(b, q.id)
	b = append(b, q.key[:]...)
	b = le.AppendUint64(b, uint64(q.first))
	b = le.AppendUint64(b, uint64(q.count))
	b = le.AppendUint64(b, uint64(q.bytes))
	return le.AppendUint64(b, uint64(q.within.Milliseconds()))
}

func readRequest(b []byte) (q request, err error) {
	if len(b) != requestSize {
		return q, violation("a request has %d bytes, and needs %d", len(b), requestSize)
	}
	within := min(le.Uint64(b[48:]), uint64(maxWithin/time.Millisecond))
	return request{
		within: time.Duration(within) * time.Millisecond,
		id:     le.Uint64(b), key: [keySize]byte(b[8:24]),
		first: int64(le.Uint64(b[24:])), count: int64(le.Uint64(b[32:])), bytes: int64(le.Uint64(b[40:])),
	}, nil
}

// Fetch connects to the listener that the descriptor names, fetches the tensor, and closes the connection. Programs that
// fetch more use [Conn.Fetch]. The caller closes the result. Fetch returns the errors of [Dial] and [Conn.Fetch].
func Fetch(ctx context.Context, descriptor []byte, device core.Device, o Options) (*core.Tensor, Report, error) {
	d, err := Describe(descriptor)
	if err != nil {
		return nil, Report{}, err
	}
	if d.Address == "" {
		return nil, Report{}, invalid("Fetch", "the descriptor has no address: it is of an offer of a connection, so use that connection")
	}
	c, err := Dial(ctx, d.Address, o)
	if err != nil {
		return nil, Report{}, err
	}
	defer c.Close()
	return c.Fetch(ctx, descriptor, device)
}

// Fetch reads the elements that the peer has offered, and returns them in a new tensor on the device. The caller closes the
// result. The peer's program takes no part. Memory is allocated when the peer has begun to send the elements. Fetch returns
//
//   - core.ErrInvalid if the descriptor is none, the device is nil, or the offer has another type or shape than the
//     descriptor says;
//   - core.ErrClosed if the offer has ended, or the peer does not know it;
//   - core.ErrLayout if the rows do not exist;
//   - core.ErrOutOfMemory if there are more bytes than this process permits (see [Limits]), or no memory;
//   - ctx's error, other errors of the device, and the [*ConnError] of a connection that has ended.
func (c *Conn) Fetch(ctx context.Context, descriptor []byte, device core.Device) (*core.Tensor, Report, error) {
	return c.FetchRows(ctx, descriptor, 0, -1, device)
}

// FetchRows is like [Conn.Fetch] for rows start to stop of the first axis, without stop. Only these are read and sent. A
// start of 0 and a stop of -1 are all rows.
func (c *Conn) FetchRows(ctx context.Context, descriptor []byte, start, stop int64, device core.Device) (*core.Tensor, Report, error) {
	if x := c.tracer(); x != nil {
		return c.traceFetch(ctx, x, descriptor, start, stop, device)
	}
	return c.fetchRows(ctx, descriptor, start, stop, device)
}

func (c *Conn) fetchRows(ctx context.Context, descriptor []byte, start, stop int64, device core.Device) (*core.Tensor, Report, error) {
	began := time.Now()
	if c == nil || c.raw == nil {
		return nil, Report{}, noConn("Fetch")
	}
	if device == nil {
		return nil, Report{}, invalid("Fetch", "the device is nil")
	}
	q, m, err := askRows(descriptor, start, stop)
	if err != nil {
		return nil, Report{}, err
	}
	if q.bytes > c.options.Limits.Bytes {
		return nil, Report{}, core.Errorf(core.ErrOutOfMemory, "remote", "Fetch", "%d bytes were asked for, and this process permits %d: raise its limit of bytes", q.bytes, c.options.Limits.Bytes)
	}
	r := Report{Device: device.ID(), Mechanism: exchange.Direct, Bytes: q.bytes}
	t, err := c.fetch(ctx, &q, m, device, &r)
	err = c.explain(err)
	c.finishReport(&r, began)
	return t, r, err
}

// askRows returns the request for rows of an offer, and what comes for it.
func askRows(descriptor []byte, start, stop int64) (request, meta, error) {
	d, _, err := readDescription(descriptor)
	if err != nil {
		return request{}, meta{}, err
	}
	m := d.meta()
	q := request{key: d.key, first: start, count: stop - start}
	if start == 0 && stop == -1 {
		q.count = -1
	} else if stop < start {
		return q, m, core.Errorf(core.ErrLayout, "remote", "Fetch", "rows %d to %d were asked for", start, stop)
	}
	if m.shape, err = rowsOf(d.DType, d.Shape, d.Padded, q.first, q.count); err != nil {
		return q, m, err
	}
	q.bytes, err = m.bytes()
	return q, m, err
}

func (c *Conn) fetch(ctx context.Context, q *request, m meta, device core.Device, r *Report) (*core.Tensor, error) {
	in := &inbound{meta: m, bytes: q.bytes}
	if _, err := c.ask(ctx, q, in); err != nil {
		return nil, err
	}
	defer c.leave(in)
	defer c.forget(q)
	if err := c.tell(ctx, controlFetch, func(b []byte) []byte { return appendRequest(b, q) }); err != nil {
		return nil, err
	}
	if _, err := c.awaitPiece(ctx, in); err != nil { // before memory is allocated: the descriptor may be forged
		return nil, err
	}
	c.mu.Unlock()
	t, err := c.receive(ctx, in, device, r)
	if err == nil {
		c.mu.Lock()
		c.stats.BytesReceived += r.Bytes
		c.stats.BytesCopied += r.BytesCopied
		c.mu.Unlock()
	}
	return t, err
}

// fetchInto is fetch into dst, a contiguous tensor of the type and shape of m, which the caller owns. R gets how, and what was
// copied. When fetchInto returns, nothing writes dst any more, unless ctx has ended.
func (c *Conn) fetchInto(ctx context.Context, q *request, m meta, dst *core.Tensor, r *Report) error {
	*r = Report{Device: dst.DeviceID(), Mechanism: exchange.Direct, Bytes: q.bytes}
	in := &inbound{meta: m, bytes: q.bytes, left: make(chan struct{})}
	if _, err := c.ask(ctx, q, in); err != nil {
		return err
	}
	defer c.leave(in)
	defer c.forget(q)
	if err := c.tell(ctx, controlFetch, func(b []byte) []byte { return appendRequest(b, q) }); err != nil {
		return err
	}
	if q.bytes == 0 {
		return c.nothing(ctx, in)
	}
	err := c.fill(ctx, in, dst, r)
	if err == nil {
		c.mu.Lock()
		c.stats.BytesReceived += q.bytes
		c.stats.BytesCopied += r.BytesCopied
		c.mu.Unlock()
		return nil
	}
	if _, reason := pathOf(dst.DeviceID(), q.bytes); reason == "" { // copies of devices keep their order
		select {
		case <-in.left:
		case <-ctx.Done():
		}
	}
	return err
}

// maxWithin bounds the time for a request that a peer may name.
const maxWithin = 365 * 24 * time.Hour

// ask gives a request its number, when both sides permit another one, and the time that ctx leaves. In, if not nil, is what comes for
// it. The limit of this side bounds the messages that answer requests, for which its worker has room.
func (c *Conn) ask(ctx context.Context, q *request, in *inbound) (*asked, error) {
	if err := c.await(ctx, func() bool { return len(c.asking) < c.mostRequests() }); err != nil {
		return nil, err
	}
	defer c.mu.Unlock()
	if end, ok := ctx.Deadline(); ok {
		q.within = max(time.Until(end).Round(time.Millisecond), time.Millisecond)
	}
	c.requests++
	q.id = c.requests
	a := &asked{}
	c.asking[q.id] = a
	if in != nil {
		in.id, in.home = q.id, c.fetching
		c.fetching[q.id] = in
	}
	return a, nil
}

// mostRequests returns how many requests may be made at the same time.
func (c *Conn) mostRequests() int { return min(c.peer.limits.Requests, c.options.Limits.Requests) }

// forget ends a request.
func (c *Conn) forget(q *request) {
	c.mu.Lock()
	delete(c.asking, q.id)
	c.notify()
	c.mu.Unlock()
}

// answer handles what the peer says of a request. A request that was given up has no answer.
func (c *Conn) answer(k control, payload []byte) error {
	if len(payload) < 8 || k != controlRefused && len(payload) != 8 {
		return violation("an answer has %d bytes", len(payload))
	}
	id := le.Uint64(payload)
	var refused error
	if k == controlRefused {
		var err error
		if refused, err = readRefusal(payload[8:]); err != nil {
			return err
		}
	}
	if k == controlAccepted && !c.isAsking(id) { // it was given up before, so nothing would come
		c.giveUp(id)
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if id == 0 || id > c.requests {
		return violation("the peer answers request %d, and there were %d", id, c.requests)
	}
	a := c.asking[id]
	if a == nil {
		return nil
	}
	in := c.fetching[id]
	switch {
	case k == controlAccepted && in == nil && !a.accepted:
		a.accepted = true
	case k == controlDone && a.accepted:
		a.done = true
	case k == controlRefused:
		a.refused = refused
		if in != nil {
			in.refused = refused
		}
	default:
		return violation("the answer %d does not fit to request %d", k, id)
	}
	c.notify()
	return nil
}

// Put overwrites the elements that the peer has offered as writable with those of t, which has the same element type and
// shape. It returns when the elements are there. The caller still owns t. If Put fails after it has begun, some elements
// are overwritten, and the peer's tensor reports the error to whoever reads it.
//
// If t lies in memory that this process offers as writable, Put makes a copy of t in the same place and sends that.
// Otherwise two Puts, each from the memory that the other one overwrites, would wait for each other.
//
// Put returns the errors of [Conn.Send] for t, also core.ErrOutOfMemory if there is no memory for the copy; those of
// [Conn.Fetch] for the descriptor; core.ErrDType or core.ErrLayout if t has another type or shape; and core.ErrReadOnly if
// the offer is not writable.
func (c *Conn) Put(ctx context.Context, descriptor []byte, t *core.Tensor) (Report, error) {
	if x := c.tracer(); x != nil {
		return c.tracePut(ctx, x, descriptor, -1, t)
	}
	return c.put(ctx, descriptor, -1, t)
}

// PutRows is like [Conn.Put] for the rows of the first axis from start on, as many as t has.
func (c *Conn) PutRows(ctx context.Context, descriptor []byte, start int64, t *core.Tensor) (Report, error) {
	if start < 0 {
		return Report{}, core.Errorf(core.ErrLayout, "remote", "Put", "the first row is %d, and cannot be negative", start)
	}
	if x := c.tracer(); x != nil {
		return c.tracePut(ctx, x, descriptor, start, t)
	}
	return c.put(ctx, descriptor, start, t)
}

// put is Put if start is -1, and otherwise PutRows.
func (c *Conn) put(ctx context.Context, descriptor []byte, start int64, t *core.Tensor) (Report, error) {
	began := time.Now()
	if c == nil || c.raw == nil {
		return Report{}, noConn("Put")
	}
	if t == nil {
		return Report{}, invalid("Put", "the tensor is nil")
	}
	if _, err := t.Buffer(); err != nil {
		return Report{}, err
	}
	d, _, err := readDescription(descriptor)
	if err != nil {
		return Report{}, err
	}
	q := request{key: d.key, count: -1, bytes: t.NumBytes()}
	if shape := t.Shape(); start >= 0 && len(shape) > 0 {
		q.first, q.count = start, shape[0]
	}
	shape, err := rowsOf(d.DType, d.Shape, d.Padded, q.first, q.count)
	if err != nil {
		return Report{}, err
	}
	want, err := core.NewLayout(shape...)
	switch {
	case err != nil:
		return Report{}, err
	case t.DType() != d.DType || t.Padded() != d.Padded:
		return Report{}, core.Errorf(core.ErrDType, "remote", "Put", "the tensor has the type %v, and the offer %v", t.DType(), d.DType)
	case !want.SameShape(t.Layout()):
		return Report{}, core.Errorf(core.ErrLayout, "remote", "Put", "the tensor has the shape %v, and the offer %v", t.Shape(), shape)
	case q.bytes > c.peer.limits.Bytes:
		return Report{}, core.Errorf(core.ErrOutOfMemory, "remote", "Put", "the tensor has %d bytes, and the peer permits %d", q.bytes, c.peer.limits.Bytes)
	}
	r := Report{Device: t.DeviceID(), Mechanism: exchange.Direct, Bytes: q.bytes}
	err = c.putRows(ctx, &q, t, &r)
	err = c.explain(err)
	c.finishReport(&r, began)
	return r, err
}

func (c *Conn) putRows(ctx context.Context, q *request, t *core.Tensor, r *Report) error {
	if mayBeOverwritten(t) { // else Puts could wait for each other in a circle, or one for itself
		x, err := t.Clone(ctx)
		if err != nil {
			return err
		}
		defer x.Close()
		r.because("it lies in memory that this process offers as writable: its elements were copied")
		r.BytesCopied += t.NumBytes()
		t = x
	}
	a, err := c.ask(ctx, q, nil)
	if err != nil {
		return err
	}
	defer c.forget(q)
	if err := c.tell(ctx, controlPut, func(b []byte) []byte { return appendRequest(b, q) }); err != nil {
		return err
	}
	if err := c.answered(ctx, a, func() bool { return a.accepted }); err != nil {
		return err // if the peer accepts it later, answer gives it up
	}
	x := newSending(c, kindPut, q.bytes)
	defer x.recycle()
	x.out.id = q.id
	source, err := elements(ctx, t, true, r)
	if err != nil {
		c.giveUp(q.id)
		return err
	}
	if err := x.run(ctx, source, r); err != nil {
		return err
	}
	if err := c.answered(ctx, a, func() bool { return a.done }); err != nil {
		return err
	}
	c.mu.Lock()
	c.stats.BytesSent += r.Bytes
	c.stats.BytesCopied += r.BytesCopied
	c.mu.Unlock()
	return nil
}

// answered waits until ready returns true, or the request was refused.
func (c *Conn) answered(ctx context.Context, a *asked, ready func() bool) error {
	if err := c.await(ctx, func() bool { return a.refused != nil || ready() }); err != nil {
		return err
	}
	defer c.mu.Unlock()
	return refusal(ctx, a.refused)
}

// refusal returns why a request was refused; but if the time for it is over, that is why.
func refusal(ctx context.Context, refused error) error {
	if err := ctx.Err(); refused != nil && err != nil {
		return err
	}
	return refused
}

func (c *Conn) isAsking(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asking[id] != nil
}

// giveUp tells the peer that nothing will come for a Put that it has accepted.
func (c *Conn) giveUp(id uint64) {
	x := &sending{Conn: c, kind: kindPut, out: &outbound{id: id}}
	x.abandon(errors.New("given up"), 0)
}
