package remote

import (
	"context"
	"io"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// outbound is a transfer to the peer.
type outbound struct {
	conn     *Conn
	id       uint64
	memory   ucx.Memory  // of the elements
	results  chan error  // of the pieces that are on their way; it has room for all
	done     func(error) // puts a result there
	inFlight int
	header   [dataSize]byte // of the last piece but the first one of a tensor; UCX has copied it
}

// newOutbound makes a transfer whose results come to a channel, which has room for all.
func newOutbound(c *Conn, id uint64, results chan error) *outbound {
	return &outbound{conn: c, id: id, results: results, done: func(err error) { results <- err }}
}

// post sends a piece, whose memory stays as it is until its result has come.
func (o *outbound) post(header []byte, address uintptr, size int64) error {
	err := o.conn.worker.SendFrom(o.memory, header, address, size, size > ucx.MaxEager, o.done)
	if err == nil {
		o.inFlight++
	}
	return err
}

// piece sends a piece that is not the first one, when there is room for it.
func (o *outbound) piece(ctx context.Context, k kind, index int64, address uintptr, size int64) error {
	for o.inFlight >= window {
		if err := o.wait(ctx); err != nil {
			return err
		}
	}
	return o.post(appendData(o.header[:0], &o.conn.peer.token, data{kind: k, index: uint32(index), id: o.id}), address, size)
}

// wait waits for the result of one piece. After an error of ctx the piece is still on its way.
func (o *outbound) wait(ctx context.Context) error {
	ended, err := o.conn.result(ctx, o.results)
	if ended {
		o.inFlight--
	}
	return err
}

// drain calls release when n results have come: at once if there is none to wait for.
func drain(c *Conn, results <-chan error, n int, release func()) {
	if n == 0 {
		release()
		return
	}
	rest := func() {
		for range n {
			<-results
		}
		release()
	}
	c.mu.Lock()
	now := c.drained // the end of a connection ends all operations
	if !now {
		c.draining++
	}
	c.mu.Unlock()
	if now {
		rest()
		return
	}
	go func() {
		rest()
		c.mu.Lock()
		c.draining--
		c.notify()
		c.mu.Unlock()
	}()
}

// inbound is a transfer from the peer. The connection's mutex guards it.
type inbound struct {
	id    uint64
	home  map[uint64]*inbound // the transfers of its kind
	meta  meta
	bytes int64
	// begun is the number of pieces from the first one on that were taken out of arrived.
	begun   int64
	arrived [window]*ucx.Message // piece i is at i modulo window
	// refused is why the rest does not come; nil if it may.
	refused error
	// left is closed when UCX writes memory of the host or of a device no longer, if the memory was for UCX itself: by fillDirect,
	// or by fillIdle, which calls it. It is nil if nobody waits for that.
	left chan struct{}
}

// slot returns where a piece is that has arrived.
func (in *inbound) slot(index int64) **ucx.Message { return &in.arrived[index%window] }

// spareInbound bounds the objects that a connection keeps for further tensors.
const spareInbound = 64

// newInbound returns an object for a tensor of the peer. c.mu is held.
func (c *Conn) newInbound() *inbound {
	n := len(c.spare)
	if n == 0 {
		return &inbound{}
	}
	in := c.spare[n-1]
	c.spare[n-1], c.spare = nil, c.spare[:n-1]
	return in
}

// recycle keeps an object, which nobody uses any more and which was left, for another tensor of the peer.
func (c *Conn) recycle(in *inbound) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spare) < spareInbound {
		*in = inbound{meta: meta{shape: in.meta.shape[:0]}}
		c.spare = append(c.spare, in)
	}
}

// takeAbandon handles that the peer has given a transfer up. c.mu is held.
func (c *Conn) takeAbandon(d data) {
	transfers := c.inbound
	if d.index == 1 {
		transfers = c.putting
	}
	if in := transfers[d.id]; in != nil {
		in.refused = core.Errorf(causeError{core.ErrClosed, io.ErrUnexpectedEOF}, "remote", "Receive", "the sender has given the tensor up after %d of %d pieces", in.begun, pieces(in.bytes))
	}
}

// takeTensor handles the beginning of a tensor. It reports whether it keeps the message. c.mu is held.
func (c *Conn) takeTensor(d data, rest []byte, m *ucx.Message) (bool, error) {
	in := c.newInbound()
	x, bytes, err := readMeta(rest, in.meta.shape)
	if err != nil {
		return false, err
	}
	_, size := pieceAt(bytes, 0)
	limits := &c.options.Limits
	switch {
	case bytes > limits.Bytes:
		return false, violation("a tensor has %d bytes, and %d are permitted", bytes, limits.Bytes)
	case d.id <= c.told || d.id > c.told+uint64(limits.Tensors) || d.id < c.next || c.inbound[d.id] != nil:
		return false, violation("tensor %d came when %d were received and %d are permitted beside them, or came twice", d.id, c.told, limits.Tensors)
	case d.index != 0 || m.Length != size || m.Fetched() != (size > ucx.MaxEager):
		return false, violation("the first piece of a tensor of %d bytes is piece %d and has %d bytes", bytes, d.index, m.Length)
	}
	*in = inbound{id: d.id, home: c.inbound, meta: x, bytes: bytes}
	*in.slot(0) = m
	c.inbound[d.id] = in
	return true, nil
}

// takePiece handles another piece. It reports whether it keeps the message. c.mu is held.
func (c *Conn) takePiece(transfers map[uint64]*inbound, d data, rest []byte, m *ucx.Message) (bool, error) {
	in := transfers[d.id]
	if in == nil { // it was given up
		c.stats.Dropped++
		return false, nil
	}
	index := int64(d.index)
	if index < in.begun || index >= in.begun+window || index >= pieces(in.bytes) || *in.slot(index) != nil || len(rest) != 0 {
		return false, violation("piece %d of a transfer came when %d of %d were taken, or came twice", index, in.begun, pieces(in.bytes))
	}
	if _, size := pieceAt(in.bytes, index); m.Length != size || m.Fetched() != (size > ucx.MaxEager) {
		return false, violation("piece %d of a transfer has %d bytes instead of %d", index, m.Length, size)
	}
	*in.slot(index) = m
	return true, nil
}

// nextPiece waits for the next piece of a transfer. The caller receives or drops it.
func (c *Conn) nextPiece(ctx context.Context, in *inbound) (*ucx.Message, error) {
	m, err := c.awaitPiece(ctx, in)
	if err != nil {
		return nil, err
	}
	*in.slot(in.begun) = nil
	in.begun++
	c.mu.Unlock()
	return m, nil
}

// awaitPiece waits for the next piece of a transfer, which stays there, and returns with c.mu held. On failure c.mu is not held.
func (c *Conn) awaitPiece(ctx context.Context, in *inbound) (*ucx.Message, error) {
	var m *ucx.Message
	if err := c.awaitArrived(ctx, func() bool { m = *in.slot(in.begun); return m != nil || in.refused != nil || c.err != nil }); err != nil {
		return nil, err
	}
	if m == nil {
		why := in.refused
		if why == nil {
			why = c.err
		}
		c.mu.Unlock()
		return nil, refusal(ctx, why)
	}
	return m, nil
}

// leave ends a transfer from the peer. Pieces that have not come are dropped when they come.
func (c *Conn) leave(in *inbound) {
	c.mu.Lock()
	delete(in.home, in.id)
	left := in.takeArrived()
	c.mu.Unlock()
	dropAll(left)
}

// takeArrived returns the messages that nobody has taken, which the caller drops without the connection's mutex.
func (in *inbound) takeArrived() [window]*ucx.Message {
	left := in.arrived
	in.arrived = [window]*ucx.Message{}
	return left
}

func dropAll(messages [window]*ucx.Message) {
	for _, m := range messages {
		if m != nil {
			m.Drop()
		}
	}
}

// flat returns the bytes of a dense tensor as a tensor of one axis on the same memory. The caller closes it.
func flat(t *core.Tensor) (*core.Tensor, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, core.Spec{
		DType: core.TypeUint8, Shape: []int64{t.NumBytes()}, Offset: t.Offset() - b.Memory().Offset, Flags: t.Flags() & core.FlagReadOnly,
	})
}
