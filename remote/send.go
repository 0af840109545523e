package remote

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/memfault"
	"github.com/dlx-go/dlx/internal/staging"
	"github.com/dlx-go/dlx/remote/internal/ucx"
	"github.com/dlx-go/dlx/stream"
)

// Send sends the elements of t to the peer, which gets them by [Conn.Receive]. The caller still owns t.
//
// Send waits for the last write to t. It returns when the elements may be overwritten: at once for tensors of at most 8 KiB,
// and otherwise when the peer has received them, or has dropped them, such as because a Receive had no memory. [Conn.WaitReceived]
// does not tell these apart either. Send waits while the peer has as many tensors to receive as it permits; see [Limits]. Elements go to UCX as they are if it uses their memory itself ([PathOf]), and otherwise through memory of the host in
// pieces; those of a tensor that is not contiguous are gathered first. It returns
//
//   - core.ErrInvalid if t is nil, and core.ErrClosed if it is closed;
//   - ctx's error; if the tensor was on its way, the peer may have received it, and the memory of t counts as read by
//     unfinished work until UCX is done with it;
//   - the error of the last write to t, and errors of copies;
//   - core.ErrOutOfMemory if t is larger than the peer permits, or there is no memory for the pieces;
//   - core.ErrDevice if neither the host nor an opened device can access the elements;
//   - the [*ConnError] of a connection that has ended.
func (c *Conn) Send(ctx context.Context, t *core.Tensor) (Report, error) {
	return c.SendLabeled(ctx, t, "")
}

// SendLabeled is like [Conn.Send], and passes a text with the tensor, which is in the report of the receiver. SendLabeled
// returns core.ErrInvalid if the label has more than 1024 bytes, or the transport permits fewer.
func (c *Conn) SendLabeled(ctx context.Context, t *core.Tensor, label string) (Report, error) {
	if x := c.tracer(); x != nil {
		return c.traceSend(ctx, x, t, label)
	}
	return c.sendLabeled(ctx, t, label)
}

func (c *Conn) sendLabeled(ctx context.Context, t *core.Tensor, label string) (Report, error) {
	start := time.Now()
	if c == nil || c.raw == nil {
		return Report{}, noConn("Send")
	}
	if t == nil {
		return Report{}, invalid("Send", "the tensor is nil")
	}
	r := Report{Device: t.DeviceID(), Mechanism: exchange.Direct, Label: label}
	err := c.send(ctx, t, &r)
	err = c.explain(err)
	c.finishReport(&r, start)
	return r, err
}

func (c *Conn) send(ctx context.Context, t *core.Tensor, r *Report) error {
	if _, err := t.Buffer(); err != nil {
		return err
	}
	x := newSending(c, kindPiece, t.NumBytes())
	defer x.recycle()
	x.shape = t.Layout().AppendShape(x.shape[:0])
	m := meta{dtype: t.DType(), flags: t.Flags() & keptFlags, shape: x.shape, label: r.Label}
	x.header = appendMeta(appendData(x.header[:0], &c.peer.token, data{kind: kindTensor}), &m)
	header := x.header
	r.Bytes = t.NumBytes()
	switch room := min(c.peer.header, c.worker.MaxHeader()); {
	case len(m.label) > maxLabel:
		return invalid("Send", "the label has %d bytes; %d are possible", len(m.label), maxLabel)
	case len(header) > room:
		return invalid("Send", "a label of %d bytes and %d axes take %d bytes, and UCX permits %d here: use a shorter label", len(m.label), len(m.shape), len(header), room)
	case r.Bytes > min(c.peer.limits.Bytes, maxBytes):
		return core.Errorf(core.ErrOutOfMemory, "remote", "Send", "the tensor has %d bytes, and the peer permits %d", r.Bytes, c.peer.limits.Bytes)
	}
	source, err := elements(ctx, t, true, r)
	if err != nil {
		return err
	}
	x.describes = true
	if err := x.run(ctx, source, r); err != nil {
		return err
	}
	c.mu.Lock()
	c.stats.Sent++
	c.stats.BytesSent += r.Bytes
	c.stats.BytesCopied += r.BytesCopied
	c.mu.Unlock()
	return nil
}

// content is the elements of a tensor in row-major order. Whoever has it releases it.
type content struct {
	bytes   int64
	buffer  *core.Buffer // memory that UCX uses itself, which is retained; nil for other memory, and if there are no elements
	memory  ucx.Memory   // its kind
	address uintptr      // of the first element in it
	device  *core.Tensor // the bytes as a tensor, for elements in other memory; nil for others
}

// release gives the memory back, once for each call.
func (s content) release() {
	s.buffer.Release()
	if s.device != nil {
		_ = s.device.Close()
	}
}

// elements returns the elements of t, after the last write to memory that UCX uses itself, which knows nothing of the work of devices.
// Without toUCX, the host needs them. The caller releases the result.
func elements(ctx context.Context, t *core.Tensor, toUCX bool, r *Report) (content, error) {
	if t.IsEmpty() {
		return content{}, nil
	}
	if !t.DeviceID().Type.HostAccessible() && t.Device() == nil {
		return content{}, core.Errorf(core.ErrDevice, "remote", "Send", "the tensor lies on %v, which was not opened by this process: move it to an opened device", t.DeviceID())
	}
	if !t.Layout().IsContiguous() {
		x, err := t.Contiguous(ctx)
		if err != nil {
			return content{}, err
		}
		defer x.Close()
		r.because("its elements are not contiguous: they were gathered")
		r.BytesCopied += t.NumBytes()
		t = x
	}
	memory, reason := pathOf(t.DeviceID(), t.NumBytes())
	if reason != "" || !toUCX && !t.DeviceID().Type.HostAccessible() {
		r.Mechanism = exchange.Staged
		r.because("%s", reason)
		x, err := flat(t)
		return content{bytes: t.NumBytes(), device: x}, err
	}
	if e := t.Ready(); e != nil {
		if done, err := e.Done(); !done || err != nil {
			r.Wait = stream.HostWait
			if err := t.WaitReady(ctx); err != nil {
				return content{}, err
			}
		}
	}
	b, err := t.Buffer()
	if err != nil {
		return content{}, err
	}
	address, err := t.Address()
	if err == nil {
		err = b.Retain()
	}
	if err != nil {
		return content{}, err
	}
	return content{bytes: t.NumBytes(), buffer: b, memory: memory, address: address}, nil
}

// sending is a tensor on its way to the peer.
type sending struct {
	*Conn
	kind      kind // of the pieces
	out       *outbound
	describes bool   // the first piece has header
	header    []byte // in which the number of the tensor is missing
	shape     []int64
	bytes     int64
	given     int64         // bytes that were given to UCX
	read      *atomic.Int64 // counts them, too; nil if nobody asks
}

// sendings are used again, so that a small tensor allocates nothing on its way.
var sendings = sync.Pool{New: func() any { return &sending{out: newOutbound(nil, 0, make(chan error, window))} }}

// newSending returns a transfer of so many bytes. The caller recycles it.
func newSending(c *Conn, k kind, bytes int64) *sending {
	x := sendings.Get().(*sending)
	x.Conn, x.out.conn = c, c
	x.kind, x.bytes = k, bytes
	return x
}

// recycle ends the use of x. It is not used again if results may still come.
func (x *sending) recycle() {
	if x.out.inFlight > 0 {
		return
	}
	x.Conn, x.out.conn, x.read = nil, nil, nil
	x.out.id, x.out.memory, x.describes, x.given = 0, ucx.Host, false, 0
	sendings.Put(x)
}

// run sends the elements, which it owns.
func (x *sending) run(ctx context.Context, source content, r *Report) error {
	if source.device == nil {
		return x.direct(ctx, source)
	}
	return x.staged(ctx, source.device, r)
}

// first sends the first piece, when the peer permits another tensor, and gives the tensor its number.
func (x *sending) first(ctx context.Context, o *outbound, address uintptr, size int64) error {
	if err := x.lock(ctx, x.sending); err != nil {
		return err
	}
	defer func() { <-x.sending }()
	if err := x.await(ctx, func() bool { return x.sent-x.credited < uint64(x.peer.limits.Tensors) }); err != nil {
		return err
	}
	x.sent++ // before the piece is sent, since the peer may say at once that it has the tensor
	x.out.id = x.sent
	x.mu.Unlock()
	le.PutUint64(x.header[24:], x.out.id)
	err := o.post(x.header, address, size)
	if err != nil { // a number was lost, so nothing can follow
		x.fail(err)
	}
	return err
}

// piece sends a piece as a part of o.
func (x *sending) piece(ctx context.Context, o *outbound, i int64, address uintptr, size int64) error {
	if i == 0 && x.describes {
		return x.first(ctx, o, address, size)
	}
	err := o.piece(ctx, x.kind, i, address, size)
	if err != nil {
		return err
	}
	x.given += size
	if x.read != nil {
		x.read.Add(size)
	}
	return nil
}

// direct sends memory that UCX uses itself. It owns source.
func (x *sending) direct(ctx context.Context, source content) error {
	x.out.memory = source.memory
	var use *transfer
	if x.bytes > ucx.MaxEager {
		use = &transfer{over: make(chan struct{})}
		source.buffer.Used(use)
	}
	var err error
	for i := int64(0); err == nil && i < pieces(x.bytes); i++ {
		offset, size := pieceAt(x.bytes, i)
		at := source.address + uintptr(offset)
		if x.kind == kindFetched && source.memory == ucx.Host {
			if err = touch(at, size); err != nil {
				break
			}
		}
		err = x.piece(ctx, x.out, i, at, size)
		x.abandon(err, i)
	}
	for err == nil && x.out.inFlight > 0 {
		err = x.out.wait(ctx)
	}
	if use == nil && x.out.inFlight > 0 && source.buffer != nil { // UCX had no room for a small tensor, and may read it later
		use = &transfer{over: make(chan struct{})}
		source.buffer.Used(use)
	}
	x.out.end(source, use)
	return err
}

// touch reads a byte of each page of memory that UCX will read or write. It fails with core.ErrInvalid if a page is not there: a fault within UCX
// would end the process. An offer lasts, so a mapped file may be truncated meanwhile; one that is truncated between this call and UCX's
// access still ends the process.
func touch(address uintptr, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	data := unsafe.Slice((*byte)(addressOf(address)), bytes)
	if memfault.Guard(memfault.Within(data), func() {
		sum := data[bytes-1]
		for i := 0; i < len(data); i += pageSize {
			sum += data[i]
		}
		runtime.KeepAlive(sum)
	}) != nil {
		return invalid("request", "the memory of the elements is not there: was a mapped file truncated?")
	}
	return nil
}

var pageSize = os.Getpagesize()

// end releases memory when UCX has done with the pieces that are on their way. Use, if not nil, is that use.
func (o *outbound) end(source content, use *transfer) {
	if o.inFlight == 0 {
		source.done(use)
		return
	}
	drain(o.conn, o.results, o.inFlight, func() { source.done(use) })
}

// done releases memory that UCX does not use any more.
func (s content) done(use *transfer) {
	if use != nil {
		close(use.over)
	}
	s.release()
}

// abandon tells the peer that a tensor will not be complete, if its first piece was sent and another one failed with err.
func (x *sending) abandon(err error, i int64) {
	if err == nil || i == 0 && x.describes || x.kind == kindFetched { // the peer gets an answer to a Fetch
		return
	}
	d := data{kind: kindAbandon, id: x.out.id}
	if x.kind == kindPut {
		d.index = 1
	}
	header := appendData(nil, &x.peer.token, d)
	if err := x.worker.Send(header, 0, 0, false, func(error) {}); err != nil {
		x.fail(err)
	}
}

// staged sends memory of a device. It owns source.
func (x *sending) staged(ctx context.Context, source *core.Tensor, r *Report) error {
	defer source.Close()
	l := &leaving{conn: x.Conn, device: source, size: min(x.bytes, pieceBytes)}
	l.send = func(p part, s *stage) error {
		if s.out == nil {
			s.out = newOutbound(x.Conn, 0, s.results)
		}
		s.out.id, s.out.inFlight = x.out.id, 0
		return x.piece(ctx, s.out, p.index, s.address, p.size)
	}
	p := staging.Pipeline[stage, part, none]{Steps: l}
	defer p.Close(func(s *stage) { s.release(x.Conn) })
	for i := range pieces(x.bytes) {
		offset, size := pieceAt(x.bytes, i)
		if err := p.Put(ctx, part{i, offset, size}); err != nil {
			x.abandon(err, i)
			return err
		}
		r.BytesCopied += size
	}
	for _, s := range l.stages {
		if err := s.wait(ctx, x.Conn); err != nil {
			return err
		}
	}
	return nil
}

// transfer is the event that UCX is done with memory.
type transfer struct {
	over chan struct{}
	err  error // set before over is closed
}

var _ core.Event = (*transfer)(nil)

// failedWrite is a transfer that has failed with err.
func failedWrite(err error) *transfer {
	e := &transfer{over: make(chan struct{}), err: err}
	close(e.over)
	return e
}

// Done reports whether UCX is done.
func (e *transfer) Done() (bool, error) {
	select {
	case <-e.over:
		return true, e.err
	default:
		return false, nil
	}
}

// Wait waits until UCX is done.
func (e *transfer) Wait(ctx context.Context) error {
	select {
	case <-e.over:
		return e.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// WaitReceived waits until the peer has received all tensors that were sent before. Those count, too, that were taken by a Receive
// which then failed, unless the connection has ended. It returns ctx's error, or the
// [*ConnError] of a connection that has ended before.
func (c *Conn) WaitReceived(ctx context.Context) error {
	if c == nil || c.raw == nil {
		return noConn("WaitReceived")
	}
	c.mu.Lock()
	sent := c.sent
	missing := sent > c.credited
	c.mu.Unlock()
	if missing {
		if err := c.tell(ctx, controlSync, func(b []byte) []byte { return le.AppendUint64(b, sent) }); err != nil && c.Err() == nil {
			return err
		}
	}
	err := c.await(ctx, func() bool { return c.credited >= sent })
	if err == nil {
		c.mu.Unlock()
		return nil
	}
	if errors.As(err, new(*ConnError)) { // of a connection that has ended after the peer had received all
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.credited >= sent {
			return nil
		}
	}
	return err
}
