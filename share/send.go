package share

import (
	"context"
	"errors"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/stream"
)

// sender is what a connection keeps of what it has sent. The connection's mutex guards it.
type sender struct {
	memories    map[memoryKey]*sentMemory // that the peer has
	memoryBytes int64
	lastMemory  uint32 // or semaphore
	lastTensor  uint64
	lastUse     uint64
	inFlight    map[uint64]*sentTensor // that the peer has not released
	sentSlab    slab[sentTensor]
	forgotten   []uint32 // memories and semaphores that the peer is to be told of
}

func newSender() sender {
	return sender{memories: make(map[memoryKey]*sentMemory), inFlight: make(map[uint64]*sentTensor)}
}

// memoryKey names memory that was passed. The peer may have the same memory twice: for reading
// only, and for writing.
type memoryKey struct {
	buffer   *core.Buffer
	readOnly bool
}

// known returns the memory as the peer has it, for a tensor that it may write unless readOnly. It
// returns nil if the peer does not have it so. c.mu is held.
func (c *Conn) known(b *core.Buffer, readOnly bool) *sentMemory {
	if m := c.memories[memoryKey{b, false}]; m != nil || !readOnly {
		return m
	}
	return c.memories[memoryKey{b, true}]
}

// sentMemory is memory that was passed to the peer. It does not hold the buffer, which tells
// when it is freed.
type sentMemory struct {
	conn    *Conn
	key     memoryKey
	id      uint32
	bytes   int64
	handle  core.HandleType
	tensors int    // in flight
	used    uint64 // when it was used last
	detach  func() bool
}

var _ core.Owner = (*sentMemory)(nil)

// Free implements [core.Owner]: the buffer calls it before its memory is freed.
func (m *sentMemory) Free() {
	c := m.conn
	c.mu.Lock()
	c.forget(m)
	c.mu.Unlock()
	c.awaken()
}

// forget takes a memory out, of which no tensor is in flight. c.mu is held.
func (c *Conn) forget(m *sentMemory) {
	if c.memories[m.key] != m {
		return
	}
	delete(c.memories, m.key)
	c.memoryBytes -= m.bytes
	c.forgotten = append(c.forgotten, m.id)
	c.notify()
}

// sentTensor is a tensor that the peer has. It holds a reference to the buffer.
type sentTensor struct {
	memory *sentMemory
	buffer *core.Buffer
	lease  stream.Event // that the peer has released the tensor

	ordered   bool   // by a semaphore
	settled   bool   // the peer is told how the work ended, that is before it releases the tensor
	semaphore uint32 // that the peer forgets after the tensor
}

// Send passes t to the peer, which receives it by [Conn.Receive]. The caller still owns t. The
// connection keeps the memory of t allocated until the peer has released the tensor; see the
// package documentation.
//
// If the memory cannot be shared, Send copies the elements into memory that can, and passes
// that. Send waits while more tensors or memories are in flight than the peer permits; see
// [Limits]. It returns
//
//   - core.ErrInvalid if t is nil, and core.ErrClosed if it is closed;
//   - ctx's error;
//   - the error of the last write to t, if Send waits for it;
//   - core.ErrNotSupported if the memory cannot be shared and cannot be copied, with the reasons;
//   - core.ErrOutOfMemory if the memory alone is more than the peer permits, or no memory or
//     descriptor is left;
//   - the [*ConnError] of a connection that has ended.
//
// After other errors than a ConnError the connection goes on, and nothing was sent.
func (c *Conn) Send(ctx context.Context, t *core.Tensor) (Report, error) {
	return c.SendLabeled(ctx, t, "")
}

// SendLabeled is like [Conn.Send], and passes a text with the tensor, which is in the report of
// the receiver. It is for the programs: this package does not read it. SendLabeled returns
// core.ErrInvalid if label has more than 1024 bytes.
func (c *Conn) SendLabeled(ctx context.Context, t *core.Tensor, label string) (Report, error) {
	start := time.Now()
	r, err := c.send(ctx, t, label)
	r.Duration = time.Since(start)
	return r, err
}

func (c *Conn) send(ctx context.Context, t *core.Tensor, label string) (Report, error) {
	if t == nil {
		return Report{}, core.Errorf(core.ErrInvalid, "share", "Send", "the tensor is nil")
	}
	if len(label) > maxLabel {
		return Report{}, core.Errorf(core.ErrInvalid, "share", "Send", "the label has %d bytes; %d are possible", len(label), maxLabel)
	}
	if err := ctx.Err(); err != nil {
		return Report{}, err
	}
	if err := c.Handshake(ctx); err != nil {
		return Report{}, err
	}
	p, err := newParcel(t)
	if err != nil {
		return Report{}, err
	}
	defer func() { c.finish(p) }()
	p.report.From = t.DeviceID()
	p.report.Label, p.message.label = label, label
	if c.options.ReadOnly {
		p.message.spec.Flags |= core.FlagReadOnly
	}
	if t.IsEmpty() {
		p.report.To, p.report.Mechanism = t.DeviceID(), exchange.Alias
		return p.report, c.deliver(ctx, p)
	}
	for {
		err := c.pack(ctx, p)
		if err == nil {
			err = c.deliver(ctx, p)
		}
		if ended := c.cause(); err != nil && ended != nil {
			err = ended
		}
		if !errors.Is(err, errForgotten) {
			return p.report, err
		}
	}
}

// errForgotten says that the peer was told to forget a memory after prepare had found it.
var errForgotten = errors.New("share: the memory was forgotten")

// deliver sends the messages of a parcel.
func (c *Conn) deliver(ctx context.Context, p *parcel) error {
	if err := c.lock(ctx, c.sending); err != nil {
		return err
	}
	defer func() { <-c.sending }()
	if err := c.await(ctx, "Send", func() bool { return len(c.inFlight) < c.limits.Tensors }); err != nil {
		return err
	}
	c.mu.Unlock()
	memory, err := c.pass(ctx, p)
	if err == nil && p.turn != nil {
		err = c.passLane(ctx, p.turn.lane)
	}
	if err != nil {
		return err
	}
	return c.sendTensor(ctx, p, memory)
}

// pass makes sure that the peer has the memory of a parcel. It returns nil for a tensor
// without elements. The caller holds sending.
func (c *Conn) pass(ctx context.Context, p *parcel) (*sentMemory, error) {
	if p.source.IsEmpty() {
		return nil, nil
	}
	c.mu.Lock()
	known := c.known(p.root, p.readOnly())
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	if p.memory == nil {
		return nil, errForgotten
	}
	x := p.memory
	if limit := c.limits.Bytes; x.Size > limit {
		return nil, core.Errorf(core.ErrOutOfMemory, "share", "Send", "the memory has %d bytes, and the peer permits %d together (Limits.Bytes of its options)", x.Size, limit)
	}
	if err := c.makeRoom(ctx, x.Size); err != nil {
		return nil, err
	}
	data, fds, err := x.MarshalWithFDs()
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.lastMemory++
	m := &sentMemory{conn: c, key: memoryKey{p.root, p.sealed}, id: c.lastMemory, bytes: x.Size, handle: x.Handle.Type()}
	c.mu.Unlock()
	if err := c.lock(ctx, c.writing); err != nil {
		return nil, err
	}
	if err = c.flush(ctx, true); err == nil { // what makes room for the memory
		c.begin(kindMemory, len(fds))
		c.scratch = appendObject(c.scratch, m.id, objectMemory, data)
		err = c.put(ctx, fds[0])
	}
	<-c.writing
	if err != nil {
		return nil, err
	}
	_ = x.Close() // the peer has its own descriptor
	p.memory = nil
	p.report.Opened = true
	p.report.did("pass the memory of %v as %v, which the peer opens", p.report.To, m.handle)
	detach := privateCore.Attach(p.root, m) // the parcel holds the buffer: it is not freed meanwhile
	c.mu.Lock()
	defer c.mu.Unlock()
	m.detach = detach
	if c.err != nil { // endSender has run, or will find nothing
		defer detach()
		return nil, c.err
	}
	c.memories[m.key] = m
	c.memoryBytes += m.bytes
	c.stats.MemoriesSent++
	return m, nil
}

// makeRoom makes the peer forget memory without tensors in flight until it permits another one
// of size bytes. If there is none, it waits.
func (c *Conn) makeRoom(ctx context.Context, size int64) error {
	for {
		var oldest *sentMemory
		fits := func() bool {
			return len(c.memories)+len(c.offers) < c.limits.Memories && c.memoryBytes+c.offeredBytes <= c.limits.Bytes-size
		}
		err := c.await(ctx, "Send", func() bool {
			oldest = nil
			for _, m := range c.memories {
				if m.tensors == 0 && (oldest == nil || m.used < oldest.used) {
					oldest = m
				}
			}
			return fits() || oldest != nil
		})
		if err != nil {
			return err
		}
		if fits() {
			c.mu.Unlock()
			return nil
		}
		c.forget(oldest)
		c.mu.Unlock()
		oldest.detach()
	}
}

// sendTensor sends the message about a tensor. The caller holds sending.
func (c *Conn) sendTensor(ctx context.Context, p *parcel, m *sentMemory) error {
	if err := p.root.Retain(); err != nil { // cannot be: the parcel holds it
		return err
	}
	bytes := p.source.NumBytes()
	c.mu.Lock()
	x := c.sentSlab.take()
	x.memory, x.buffer, x.ordered = m, p.root, p.turn != nil
	if c.err != nil {
		defer p.root.Release()
		defer c.mu.Unlock()
		return c.err
	}
	if m != nil {
		if c.memories[m.key] != m { // makeRoom of another call
			c.mu.Unlock()
			p.root.Release()
			return errForgotten
		}
		m.tensors++
		c.lastUse++
		m.used = c.lastUse
		p.message.memory = m.id
	}
	c.lastTensor++
	p.message.id = c.lastTensor
	c.inFlight[p.message.id] = x
	c.stats.Sent++
	c.stats.BytesSent += bytes
	c.stats.BytesCopied += p.report.BytesCopied
	c.mu.Unlock()
	if p.copied == nil && m != nil {
		p.root.Used(&x.lease)
	}
	err := c.lock(ctx, c.writing)
	if err == nil {
		c.begin(kindTensor, 0)
		c.scratch = appendTensor(c.scratch, &p.message)
		err = c.put(ctx, -1)
		<-c.writing
	}
	p.sent = err == nil
	if err != nil { // the peer has not seen the tensor
		c.mu.Lock()
		_, open := c.inFlight[p.message.id]
		if open {
			c.stats.Sent--
			c.stats.BytesSent -= bytes
			c.stats.BytesCopied -= p.report.BytesCopied
			c.endTensor(p.message.id, x)
		}
		c.mu.Unlock()
		if open {
			x.end()
		}
	}
	return err
}

// endTensor takes a tensor out that is not in flight any more. c.mu is held. The caller calls
// end of x without it.
func (c *Conn) endTensor(id uint64, x *sentTensor) {
	delete(c.inFlight, id)
	if x.memory != nil {
		x.memory.tensors--
	}
	if x.semaphore != 0 {
		c.forgotten = append(c.forgotten, x.semaphore)
		c.awaken()
	}
	c.notify()
}

// end ends the lease of a tensor.
func (x *sentTensor) end() {
	x.lease.Complete(nil)
	b := x.buffer
	x.memory, x.buffer = nil, nil // others of the slab may be in use for longer
	b.Release()
}

// takeReleased handles that the peer has released tensors.
func (c *Conn) takeReleased(payload []byte) error {
	n, err := countReleased(payload)
	if err != nil {
		return err
	}
	for i := range n {
		id := releasedAt(payload, i)
		c.mu.Lock()
		x := c.inFlight[id]
		early := x != nil && x.ordered && !x.settled
		if x != nil && !early {
			c.endTensor(id, x)
			c.stats.Released++
		}
		c.mu.Unlock()
		if x == nil || early {
			return violation("tensor %d was released, and is not in flight or its work is not done", id)
		}
		x.end()
	}
	return nil
}

// endSender releases all that was sent, when the connection has ended.
func (c *Conn) endSender() {
	c.mu.Lock()
	flying, memories := c.inFlight, c.memories
	c.inFlight, c.memories, c.memoryBytes = make(map[uint64]*sentTensor), make(map[memoryKey]*sentMemory), 0
	c.mu.Unlock()
	for _, x := range flying {
		x.end()
	}
	for _, m := range memories {
		m.detach()
	}
}
