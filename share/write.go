package share

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/dlx-go/dlx/core"
)

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
		c.hangUp()
	}
	return c.cause()
}

// putLater waits until the peer has read enough.
func (c *Conn) putLater(ctx context.Context, fd int) error {
	for {
		if err := c.socket.SetWriteDeadline(time.Time{}); err != nil {
			return err
		}
		if err := c.cause(); err != nil { // fail may have set the deadline before
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
		err := c.flush(context.Background(), true)
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

// tell writes what was released, without another goroutine if the socket takes it now.
func (c *Conn) tell() {
	select {
	case c.writing <- struct{}{}:
	default:
		c.awaken()
		return
	}
	err := c.flush(context.Background(), false)
	<-c.writing
	if err != nil {
		c.awaken()
	}
}

// errLater says that the peer has to read before a message can be written.
var errLater = errors.New("share: the socket is full")

// putNow is put, but does not wait and does not end the connection.
func (c *Conn) putNow() error {
	finish(c.scratch, c.sequence)
	if written, err := c.socket.try(c.scratch, -1); !written || err != nil {
		return errLater // the writer finds out why
	}
	c.sequence++
	return nil
}

// flush writes all that was released or freed before. Unless wait is true, it fails instead of
// waiting for the peer. The caller holds writing.
func (c *Conn) flush(ctx context.Context, wait bool) error {
	for {
		c.mu.Lock()
		released, results, forgotten, notes := c.released, c.results, c.forgotten, c.notes
		n := min(len(released), maxReleased)
		var work *dueWork
		if len(notes) == 0 && n == 0 && len(c.telling) > 0 {
			work = c.nextWorkLocked()
		}
		switch {
		case len(notes) > 0: // before the end of a memory that a ring lies in
			c.begin(notes[0].kind, 0)
			c.scratch = append(c.scratch, notes[0].payload...)
		case n > 0:
			c.begin(kindReleased, 0)
			c.scratch = appendReleased(c.scratch, released[:n])
		case work != nil: // before a semaphore is forgotten, like a result
			c.begin(kindWork, 0)
			c.scratch = appendWork(c.scratch, &work.workMessage)
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
		var err error
		if wait {
			err = c.put(ctx, -1)
		} else {
			err = c.putNow()
		}
		if err != nil {
			return err
		}
		if work != nil {
			work.told()
			continue
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
