package share

// This file is about what a connection cannot receive, and what it still finds out.

import (
	"encoding/binary"
	"time"

	"github.com/dlx-go/dlx/core"
)

// lastWords returns why the peer has ended a connection to which nothing can be written any more, and
// that has no goroutines yet: what the peer says in its goodbye, or else err.
func (c *Conn) lastWords(err error) error {
	_ = c.socket.SetReadDeadline(time.Now().Add(time.Second)) // what is there comes at once
	b := make([]byte, maxMessage)
	for range 2 { // a hello may be before it
		n, fds, failed := c.socket.read(b)
		closeFDs(fds)
		if failed != nil || n == 0 {
			break
		}
		if h, payload, failed := readHeader(b[:n], 0); failed == nil && h.kind == kindGoodbye {
			if r, text, failed := readGoodbye(payload); failed == nil {
				return &ConnError{Peer: c.peer, Err: told(r, text)}
			}
		}
	}
	return err
}

// errLostMemory is the error of a tensor on memory whose descriptor could not be received.
var errLostMemory = core.Errorf(core.ErrOutOfMemory, "share", "Receive",
	"the descriptor of the tensor's memory could not be opened when it arrived: raise the limit of open files (RLIMIT_NOFILE), and let the peer send a tensor in other memory, or connect again")

// handleLost handles a message whose descriptor could not be received. Of memory, the connection
// keeps that it was passed, so that only tensors on it are lost. Everything else ends the
// connection with errNoDescriptor.
func (c *Conn) handleLost(b []byte, sequence uint64) error {
	h, payload, err := readHeader(b, 1)
	switch {
	case err != nil:
		return err
	case h.sequence != sequence || h.kind != kindMemory || sequence == 0:
		return errNoDescriptor
	}
	id, what, data, err := readObject(payload)
	if err != nil {
		return err
	}
	if what != objectMemory || len(data) < lostMemory {
		return errNoDescriptor
	}
	// The format of memory is that of core, which reads it only with its descriptor. Wrong numbers are those of a peer
	// that could have said the same with a descriptor, and nothing is opened by them.
	x := core.ExternalMemory{Size: int64(binary.LittleEndian.Uint64(data[44:])), Length: int64(binary.LittleEndian.Uint64(data[60:]))}
	if x.Size <= 0 || x.Length <= 0 || x.Length > x.Size {
		return violation("memory %d has %d bytes of %d", id, x.Length, x.Size)
	}
	return c.keepMemory(id, &openMemory{external: x, lost: true})
}

// lostMemory is the bytes of a memory in the format of docs/share.md.
const lostMemory = 72
