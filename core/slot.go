package core

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// slotsPerChunk balances the cost of an allocation and of the safety net, which
// both fall on a chunk, against the memory that one open tensor holds.
const slotsPerChunk = 32

// chunk is where tensors come from. The garbage collector frees it when none of
// its tensors is reachable; the net then closes those that were never closed. So
// the references are an object of their own, which never points back at tensors.
type chunk struct {
	tensors [slotsPerChunk]Tensor
	refs    *[slotsPerChunk]reference
	used    atomic.Int32
}

// reference is what a tensor must give back: its share of a buffer. A slot is
// never used twice, so that a second Close of a tensor can do no harm.
type reference struct {
	buf    atomic.Pointer[Buffer] // nil once closed
	own    Buffer                 // the buffer, if this tensor came with it
	traced atomic.Bool
}

var chunks struct {
	current atomic.Pointer[chunk]
	mu      sync.Mutex // held to replace current
}

// newSlot returns a fresh tensor with its reference set but empty.
func newSlot() *Tensor {
	for {
		c := chunks.current.Load()
		if c != nil {
			if i := c.used.Add(1) - 1; i < slotsPerChunk {
				t := &c.tensors[i]
				t.ref = &c.refs[i]
				return t
			}
		}
		chunks.mu.Lock()
		if chunks.current.Load() == c {
			fresh := &chunk{refs: new([slotsPerChunk]reference)}
			runtime.AddCleanup(fresh, closeLeaked, fresh.refs)
			chunks.current.Store(fresh)
		}
		chunks.mu.Unlock()
	}
}

// closeLeaked closes the tensors of a chunk that nobody can close any more.
func closeLeaked(refs *[slotsPerChunk]reference) {
	for i := range refs {
		if refs[i].close() {
			leaked.Add(1)
		}
	}
}

// open fills the reference.
func (r *reference) open(b *Buffer) {
	liveTensors.Add(1)
	r.buf.Store(b)
	if traces.on.Load() {
		traceOpen(r)
	}
}

// close gives the share back and reports whether it was still there.
func (r *reference) close() bool {
	b := r.buf.Swap(nil)
	if b == nil {
		return false
	}
	if r.traced.Load() {
		traceClose(r)
	}
	liveTensors.Add(-1)
	b.Release()
	return true
}
