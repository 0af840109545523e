package core

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// slotsPerChunk makes the tensors of a chunk fill a size class of the allocator.
// One open tensor keeps its chunk, so it also bounds what that wastes.
const slotsPerChunk = 127

// chunk is where tensors come from, so that many share the cost of an allocation
// and of the safety net. No slot is used twice: a second Close, however late,
// meets the tensor that it was meant for.
type chunk struct {
	tensors [slotsPerChunk]Tensor
	shares  *shares
	buffers *[slotsPerChunk]Buffer // nil where tensors do not come with one
	used    atomic.Int32           // above slotsPerChunk when somebody found the chunk full
}

// shares are what the tensors of a chunk must give back. They are an object of
// their own, which never points back at tensors: the garbage collector frees the
// chunk when none of its tensors is reachable, and the net then gives back what
// was never closed.
type shares [slotsPerChunk]share

// share is a tensor's reference of a buffer; nil before it is given and after Close.
type share struct{ buf atomic.Pointer[Buffer] }

// source hands out slots. How many it handed out follows from where it stands, so
// that making a tensor changes no counter; see [Live].
type source struct {
	buffers bool // each tensor comes with a buffer

	chunk atomic.Pointer[chunk] // the one that slots are being taken from
	mu    sync.Mutex            // held to replace chunk; guards full
	full  int64                 // chunks that were used up
}

var (
	wrapped = source{buffers: true} // tensors of raw memory
	views   source                  // tensors of a buffer that is there

	closedTensors atomic.Int64 // the others that were handed out are open
	freedBuffers  atomic.Int64
)

// take returns a fresh tensor that has no share yet, and its buffer, if any. The
// caller opens the share, or counts tensor and buffer as closed and freed.
func (s *source) take() (*Tensor, *Buffer) {
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
		s.replace(c)
	}
}

// replace puts a fresh chunk in the place of the full one, unless somebody else did.
func (s *source) replace(full *chunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.chunk.Load() != full {
		return
	}
	fresh := &chunk{shares: new(shares)}
	if s.buffers {
		fresh.buffers = new([slotsPerChunk]Buffer)
	}
	runtime.AddCleanup(fresh, closeLost, fresh.shares)
	if full != nil {
		s.full++
	}
	s.chunk.Store(fresh)
}

// handedOut is the number of slots taken so far.
func (s *source) handedOut() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.full * slotsPerChunk
	if c := s.chunk.Load(); c != nil {
		n += int64(min(c.used.Load(), slotsPerChunk))
	}
	return n
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
	closedTensors.Add(1)
	b.Release()
	return true
}
