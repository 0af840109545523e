package core

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/internal/live"
)

// slotsPerChunk makes a chunk fill a size class of the memory allocator. It also bounds the
// memory that one open tensor can waste, because it keeps its whole chunk alive.
const slotsPerChunk = 127

// chunk is an array from which tensors are allocated, so that many tensors share the cost
// of one allocation and of one cleanup. A slot is never reused: a second Close of a tensor,
// even a late one, cannot close another tensor.
type chunk struct {
	tensors [slotsPerChunk]Tensor
	shares  *shares
	buffers *[slotsPerChunk]Buffer // one for each tensor; nil for views, which use an existing buffer
	used    atomic.Int32           // slots taken; more than slotsPerChunk if take found the chunk full
}

// shares holds the references that the tensors of a chunk release when they are closed. It
// is an object of its own that never points to a tensor. When none of the tensors of a
// chunk is reachable, the garbage collector frees the chunk, and its cleanup closes the
// shares that are still open.
type shares [slotsPerChunk]share

// share is a tensor's reference to a buffer. It is nil before open and after close.
type share struct{ buf atomic.Pointer[Buffer] }

// source allocates tensors. The number of tensors that it allocated follows from its
// position in the chunk, so that making a tensor need not update a counter; see [Live].
type source struct {
	chunk atomic.Pointer[chunk] // the chunk that slots are taken from; nil at first, and after leave
	mu    sync.Mutex            // held to change chunk; guards what follows
	taken int64                 // slots of earlier chunks
	seen  int32                 // slots of chunk that were taken when leave was called last; -1 if it was not called
}

// take allocates a tensor without a share, and its buffer, if buffers is set, which is the same in each call for a
// source. The caller opens the share, or adds to closed and freed of a shard.
func (s *source) take(buffers bool) (*Tensor, *Buffer) {
	for {
		c := s.chunk.Load()
		if c != nil {
			if i := c.used.Add(1) - 1; i < slotsPerChunk {
				t := &c.tensors[i]
				t.share = &c.shares[i]
				if c.buffers == nil {
					return t, nil
				}
				return t, &c.buffers[i]
			}
		}
		s.replace(c, buffers)
	}
}

// replace replaces a full chunk by a new one, unless another goroutine has done so.
func (s *source) replace(full *chunk, buffers bool) {
	if !s.replaceLocked(full, buffers) {
		return
	}
	// A chunk from which nobody takes slots any more would keep its lost tensors from being closed.
	next := &shards[replaced.Add(1)%uint32(len(shards))]
	next.wrapped.leave()
	next.views.leave()
}

// replaced is the number of chunks that were replaced.
var replaced atomic.Uint32

func (s *source) replaceLocked(full *chunk, buffers bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chunk.Load() != full {
		return false
	}
	fresh := &chunk{shares: new(shares)}
	if buffers {
		fresh.buffers = new([slotsPerChunk]Buffer)
	}
	chunks.add(fresh.shares)
	runtime.AddCleanup(fresh, closeLost, fresh.shares)
	if full != nil {
		s.taken += slotsPerChunk
	}
	s.seen = -1
	s.chunk.Store(fresh)
	return true
}

// leave gives up the chunk if no slot was taken from it since the last call.
func (s *source) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.chunk.Load()
	if c == nil {
		return
	}
	if used := c.used.Load(); used != s.seen {
		s.seen = used
		return
	}
	s.taken += int64(min(c.used.Swap(slotsPerChunk), slotsPerChunk)) // whoever still has c finds it full
	s.chunk.Store(nil)
}

// handedOut returns the number of slots taken so far.
func (s *source) handedOut() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.taken
	if c := s.chunk.Load(); c != nil {
		n += int64(min(c.used.Load(), slotsPerChunk))
	}
	return n
}

// closeLost closes the shares of tensors that the program lost without closing them.
func closeLost(s *shares) {
	for i := range s {
		if s[i].buf.Load() != nil && s[i].close() {
			lost.Add(1)
		}
	}
	chunks.remove(s)
}

// chunks are the shares of all chunks that exist. Like the cleanups of the chunks, they keep no tensor alive.
var chunks chunkSet

type chunkSet struct {
	mu   sync.Mutex // never held while another one is taken
	open map[*shares]struct{}
}

func (c *chunkSet) add(s *shares) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		c.open = make(map[*shares]struct{})
	}
	c.open[s] = struct{}{}
}

func (c *chunkSet) remove(s *shares) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, s)
}

// openChunks returns the shares of all chunks that exist.
func openChunks() []*shares {
	chunks.mu.Lock()
	defer chunks.mu.Unlock()
	return slices.Collect(maps.Keys(chunks.open))
}

// open makes s own a reference to b, which the caller has added.
func (s *share) open(b *Buffer) {
	s.buf.Store(b)
	if live.Tracing.Load() {
		traceOpen(s)
	}
}

// close releases the reference and reports whether there was one.
func (s *share) close() bool {
	b := s.buf.Swap(nil)
	if b == nil {
		return false
	}
	if traces.any.Load() {
		traceClose(s)
	}
	shardHere().closed.Add(1)
	b.Release()
	return true
}
