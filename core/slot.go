package core

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// slotsPerChunk makes a chunk of tensors fill a size class of the allocator. One
// open tensor keeps its chunk, so it also bounds what that wastes.
const slotsPerChunk = 63

// chunk is where tensors come from, so that many share the cost of an allocation
// and of the safety net. No slot is used twice: a second Close, however late,
// meets the tensor that it was meant for.
type chunk struct {
	tensors [slotsPerChunk]Tensor
	shares  *shares
	used    atomic.Int32
}

// shares are what the tensors of a chunk must give back. They are an object of
// their own, which never points back at tensors: the garbage collector frees the
// chunk when none of its tensors is reachable, and the net then gives back what
// was never closed.
type shares [slotsPerChunk]share

// share is a tensor's reference of a buffer; nil before it is given and after Close.
type share struct{ buf atomic.Pointer[Buffer] }

// bufferChunk is where buffers come from.
type bufferChunk struct {
	buffers [slotsPerChunk]Buffer
	used    atomic.Int32
}

var (
	tensorChunks current[chunk]
	bufferChunks current[bufferChunk]
)

// current is the chunk that slots are being taken from.
type current[T any] struct {
	chunk atomic.Pointer[T]
	mu    sync.Mutex // held to replace chunk
}

// replace puts a fresh chunk in the place of the full one, unless somebody else did.
func (c *current[T]) replace(full *T, fresh func() *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.chunk.Load() == full {
		c.chunk.Store(fresh())
	}
}

// newSlot returns a fresh tensor that has no share yet.
func newSlot() *Tensor {
	for {
		c := tensorChunks.chunk.Load()
		if c != nil {
			if i := c.used.Add(1) - 1; i < slotsPerChunk {
				t := &c.tensors[i]
				t.share = &c.shares[i]
				return t
			}
		}
		tensorChunks.replace(c, func() *chunk {
			fresh := &chunk{shares: new(shares)}
			runtime.AddCleanup(fresh, closeLost, fresh.shares)
			return fresh
		})
	}
}

// newBuffer returns a fresh buffer without references.
func newBuffer() *Buffer {
	for {
		c := bufferChunks.chunk.Load()
		if c != nil {
			if i := c.used.Add(1) - 1; i < slotsPerChunk {
				return &c.buffers[i]
			}
		}
		bufferChunks.replace(c, func() *bufferChunk { return new(bufferChunk) })
	}
}

// closeLost gives back the shares of tensors that nobody can close any more.
func closeLost(s *shares) {
	for i := range s {
		if s[i].buf.Load() != nil && s[i].close() {
			lost.Add(1)
		}
	}
}

// open takes over a reference of b.
func (s *share) open(b *Buffer) {
	liveTensors.Add(1)
	s.buf.Store(b)
	if traces.on.Load() {
		traceOpen(s)
	}
}

// close gives the reference back and reports whether it was still there.
func (s *share) close() bool {
	b := s.buf.Swap(nil)
	if b == nil {
		return false
	}
	if traces.any.Load() {
		traceClose(s)
	}
	liveTensors.Add(-1)
	b.Release()
	return true
}
