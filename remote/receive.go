package remote

import (
	"context"
	"errors"
	"io"
	"syscall"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/staging"
	"github.com/dlx-go/dlx/remote/internal/ucx"
)

// Receive waits for the next tensor of the peer, in the order in which Send was called, and returns it on the device, which is an opened
// one. The caller closes the result. Its elements are there: its Ready is that of the last copy to the device, or nil.
//
// UCX writes the elements into memory of the device if that is memory of the host, or [PathOf] says so. Otherwise they go through memory of the
// host in pieces; see the report. Receive returns ctx's error; core.ErrInvalid if the connection or device is nil;
// core.ErrOutOfMemory and other errors of the device; core.ErrClosed and io.ErrUnexpectedEOF if the sender has given the
// tensor up when a part of it was there; and the [*ConnError] of a connection that has ended. If ctx ends before the tensor
// has begun to arrive, the tensor stays the next one. After other errors, it is lost. Unless the connection has ended, it then counts as
// received, and [Conn.WaitReceived] of the sender succeeds.
//
// After the peer has closed the connection, Receive returns the tensors that have arrived completely, and then the
// [*ConnError], which wraps io.EOF if all tensors that the peer has sent were received, or io.ErrUnexpectedEOF if not.
func (c *Conn) Receive(ctx context.Context, device core.Device) (*core.Tensor, Report, error) {
	if x := c.tracer(); x != nil {
		return c.traceReceive(ctx, x, device)
	}
	return c.receiveNext(ctx, device)
}

func (c *Conn) receiveNext(ctx context.Context, device core.Device) (*core.Tensor, Report, error) {
	start := time.Now()
	if c == nil || c.raw == nil {
		return nil, Report{}, noConn("Receive")
	}
	if device == nil {
		return nil, Report{}, invalid("Receive", "the device is nil")
	}
	in, err := c.nextTensor(ctx)
	if err != nil {
		return nil, Report{}, err
	}
	r := Report{Device: device.ID(), Mechanism: exchange.Direct, Bytes: in.bytes, Label: in.meta.label}
	t, err := c.receive(ctx, in, device, &r)
	number := in.id
	c.leave(in)
	c.recycle(in)
	err = c.explain(err)
	cut := err != nil && errors.As(err, new(*ConnError))
	c.mu.Lock()
	c.taking--
	if !cut { // the peer learns no more of what the end of the connection takes away
		c.finished(number)
	}
	c.notify()
	if err == nil {
		c.stats.Received++
		c.stats.BytesReceived += r.Bytes
		c.stats.BytesCopied += r.BytesCopied
	}
	c.mu.Unlock()
	c.credit()
	if cut {
		err = c.endOfTensors(err)
	}
	c.finishReport(&r, start)
	return t, r, err
}

// nextTensor waits for the next tensor, and takes it out. Tensors that the sender has given up before are skipped.
func (c *Conn) nextTensor(ctx context.Context) (*inbound, error) {
	for {
		var in *inbound
		if err := c.awaitArrived(ctx, func() bool { in = c.nextHere(); return in != nil || c.err != nil && c.drained && c.taking == 0 }); err != nil {
			return nil, err
		}
		if in == nil {
			err := c.err
			c.mu.Unlock()
			return nil, c.endOfTensors(err)
		}
		c.next++
		skipped := in.refused != nil
		if skipped {
			c.finished(in.id)
		} else {
			c.taking++
		}
		c.mu.Unlock()
		if !skipped {
			return in, nil
		}
		c.leave(in)
		c.recycle(in)
		c.credit()
	}
}

// nextHere returns the next tensor if a call of Receive can take it. After the peer has closed the connection, the elements of a
// tensor that did not come with its message are gone, and what follows it would come out of order. c.mu is held.
func (c *Conn) nextHere() *inbound {
	in := c.inbound[c.next]
	if in != nil && c.err != nil && in.bytes > ucx.MaxEager && in.refused == nil {
		return nil
	}
	return in
}

// endOfTensors returns the error of a Receive that the end of the connection has ended, which err is: another one if the peer has
// closed the connection before all tensors were received.
func (c *Conn) endOfTensors(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	here := c.received + uint64(len(c.beyond))
	if !c.parted || here >= c.promised {
		return err
	}
	return &ConnError{Peer: c.raw.RemoteAddr().String(), Err: ended(errors.Join(io.ErrUnexpectedEOF, syscall.ECONNRESET), // libdlx passes the errno on
		"the peer closed the connection, and %d of the %d tensors that it sent were not received: let it wait until they are before it closes the connection", c.promised-here, c.promised)}
}

// finished notes that a tensor was received, or is lost. Calls of Receive may end in another order than they have begun, and
// the peer learns a number up to which all have ended. c.mu is held.
func (c *Conn) finished(number uint64) {
	if number != c.received+1 {
		if c.beyond == nil {
			c.beyond = make(map[uint64]struct{})
		}
		c.beyond[number] = struct{}{} // the peer has at most Limits.Tensors on their way
		return
	}
	c.received++
	for len(c.beyond) > 0 {
		if _, ok := c.beyond[c.received+1]; !ok {
			return
		}
		c.received++
		delete(c.beyond, c.received)
	}
}

// credit tells the peer how many tensors were received, if the peer waits for that or may soon. One call at a time chooses a number
// and sends it, since the numbers must not become smaller. A number that cannot be sent ends the connection: the peer would wait for it.
func (c *Conn) credit() {
	c.crediting.Lock()
	defer c.crediting.Unlock()
	c.mu.Lock()
	n := c.received
	due := c.err == nil && n > c.told && (n-c.told >= uint64(c.options.Limits.Tensors+1)/2 || c.asked > c.told && n >= c.asked)
	if due {
		c.told = n
	}
	c.mu.Unlock()
	if !due {
		return
	}
	if err := c.worker.Send(appendData(nil, &c.peer.token, data{kind: kindCredit, id: n}), 0, 0, false, func(error) {}); err != nil {
		c.fail(err)
	}
}

// receive makes the tensor that Receive returns.
func (c *Conn) receive(ctx context.Context, in *inbound, device core.Device, r *Report) (*core.Tensor, error) {
	t, err := allocate(ctx, device, &in.meta, in.bytes)
	if err != nil {
		return nil, err
	}
	if in.bytes == 0 {
		err = c.nothing(ctx, in)
	} else {
		err = c.fill(ctx, in, t, r)
	}
	if err != nil {
		_ = t.Close()
		return nil, err
	}
	if in.meta.flags&core.FlagReadOnly != 0 {
		x, err := t.AsReadOnly()
		_ = t.Close()
		return x, err
	}
	return t, nil
}

// allocate allocates a tensor of the type and shape of m, which has the given number of bytes. The caller closes it.
func allocate(ctx context.Context, device core.Device, m *meta, bytes int64) (*core.Tensor, error) {
	memory, err := core.Alloc(ctx, device, bytes, core.AllocOptions{})
	if err != nil {
		return nil, err
	}
	t, err := core.Wrap(memory, core.Spec{DType: m.dtype, Shape: m.shape, Flags: m.flags & core.FlagSubBytePadded})
	if err != nil {
		memory.Free()
	}
	return t, err
}

// nothing takes the message of a tensor without elements.
func (c *Conn) nothing(ctx context.Context, in *inbound) error {
	m, err := c.nextPiece(ctx, in)
	if err == nil {
		m.Drop()
	}
	return err
}

// fill brings a transfer into dst, a contiguous tensor, which the caller owns. UCX and the device are done with its memory
// when fill returns nil; else the memory is kept until they are.
func (c *Conn) fill(ctx context.Context, in *inbound, dst *core.Tensor, r *Report) error {
	memory, reason := pathOf(dst.DeviceID(), in.bytes)
	if reason == "" {
		return c.fillIdle(ctx, in, dst, memory)
	}
	bytes, err := flat(dst)
	if err != nil {
		return err
	}
	defer bytes.Close()
	r.Mechanism = exchange.Staged
	r.because("%s", reason)
	p := staging.Pipeline[stage, part, none]{Steps: &coming{conn: c, in: in, device: bytes, size: min(in.bytes, pieceBytes)}, Late: true}
	defer p.Close(func(s *stage) { s.release(c) })
	for i := range pieces(in.bytes) {
		offset, size := pieceAt(in.bytes, i)
		if err := p.Put(ctx, part{i, offset, size}); err != nil {
			return err
		}
		r.BytesCopied += size
	}
	return p.Flush(ctx)
}

// fillIdle is fillDirect after all work on memory of a device, which may have been used before.
func (c *Conn) fillIdle(ctx context.Context, in *inbound, dst *core.Tensor, memory ucx.Memory) error {
	if memory != ucx.Host {
		if err := dst.WaitIdle(ctx); err != nil {
			if in.left != nil { // UCX has not got the memory
				close(in.left)
			}
			return err
		}
	}
	return c.fillDirect(ctx, in, dst, memory)
}

// fillDirect is fill for memory of a kind that UCX uses itself. Work of a device on it, of which UCX knows nothing, is over before UCX
// gets it; the caller sees to it that other work waits.
func (c *Conn) fillDirect(ctx context.Context, in *inbound, dst *core.Tensor, memory ucx.Memory) error {
	left := in.left // in may be used again before the memory is free
	now := true     // UCX does not write the memory after the call
	defer func() {
		if now && left != nil {
			close(left)
		}
	}()
	address, err := dst.Address()
	if err != nil {
		return err
	}
	if in.bytes <= ucx.MaxEager { // the bytes come with the message
		m, err := c.nextPiece(ctx, in)
		if err != nil {
			return err
		}
		return land(m, memory, address, in.bytes, func(error) {})
	}
	b, err := dst.Buffer()
	if err != nil {
		return err
	}
	if err := b.Retain(); err != nil {
		return err
	}
	now = false
	results, inFlight := make(chan error, window), 0
	done := func(err error) { results <- err }
	wait := func() {
		ended, result := c.result(ctx, results)
		if ended {
			inFlight--
		}
		err = result
	}
	for i := int64(0); err == nil && i < pieces(in.bytes); i++ {
		if inFlight == window {
			if wait(); err != nil {
				break
			}
		}
		m, failed := c.nextPiece(ctx, in)
		if err = failed; err != nil {
			break
		}
		offset, size := pieceAt(in.bytes, i)
		if err = land(m, memory, address+uintptr(offset), size, done); err == nil {
			inFlight++
		}
	}
	for err == nil && inFlight > 0 {
		wait()
	}
	drain(c, results, inFlight, func() {
		b.Release()
		if left != nil {
			close(left)
		}
	})
	return err
}
