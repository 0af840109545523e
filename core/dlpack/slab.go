//go:build cgo && !windows

package dlpack

// #cgo CFLAGS: -std=c11 -D_DEFAULT_SOURCE -I${SRCDIR}/../internal/abi
// #cgo linux LDFLAGS: -ldl
// #include "node.h"
import "C"

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/internal/abi"
	"github.com/dlx-go/dlx/core/internal/spread"
)

// node mirrors struct dlx_node of node.h. Shape and strides follow it in memory.
type node struct {
	versioned abi.ManagedTensorVersioned // or an abi.ManagedTensor at the same address
	next      uintptr
	home      uintptr // of the shard's list of returned nodes
	index     uint32  // of the slot in shard.slots
	out       uint32  // 1 while the consumer owns the node
	_         [24]byte
}

// These lines compile only if node has the size of struct dlx_node.
var (
	_ [unsafe.Sizeof(node{}) - C.sizeof_struct_dlx_node]byte
	_ [C.sizeof_struct_dlx_node - unsafe.Sizeof(node{})]byte
)

// legacy returns the node as a legacy struct.
func (n *node) legacy() *abi.ManagedTensor { return (*abi.ManagedTensor)(unsafe.Pointer(n)) }

// dims returns the memory for shape and strides.
func (n *node) dims() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(n), unsafe.Sizeof(*n)) }

// slot is the Go part of a node. It has the buffer that the node refers to, because the
// garbage collector does not see references from C memory.
type slot struct {
	node   *node
	buffer *core.Buffer // nil if no consumer has the node, and it was not just returned
	last   *core.Buffer // in shard.last, the buffer to release
	next   *slot        // in a list of the shard
	handed atomic.Bool  // shows the race detector that export happens before return
}

const (
	slotsAtOnce = 64  // number of nodes that grow makes; they fit into the first-level cache
	ringSize    = 256 // a power of two

	narrowRank = 4            // axes of most tensors; Tensor.PutDims copies them at once
	wideRank   = core.MaxRank // axes of all other tensors
	sharding   = C.dlx_shards / 2
)

// shard is a set of nodes. A node belongs to its shard forever and returns to it when its
// consumer deletes it. Goroutines that export use different shards, so that they seldom
// compete for one.
//
// Free nodes are in a ring. Taking one is lock-free: head only grows, so if the
// compare-and-swap succeeds, no other goroutine took a node in between. Everything else is
// done with mu held. Threads of other libraries never take mu, and no function of another
// library is called while it is held.
type shard struct {
	head atomic.Uint64
	tail atomic.Uint64 // changed with mu held
	ring [ringSize]atomic.Pointer[slot]

	mu    sync.Mutex
	spare *slot   // free slots that did not fit into the ring
	last  *slot   // returned slots that hold the last reference to their buffer; the drainer releases it
	slots []*slot // all slots, by index

	returned *C.struct_dlx_returned // the list of nodes that consumers deleted
	rank     int                    // number of axes that a node has room for

	_ [64]byte // puts the next shard's head on another cache line
}

// shards has the shards of narrow nodes, then those of wide nodes.
var shards = func() *[C.dlx_shards]shard {
	all := new([C.dlx_shards]shard)
	for i := range all {
		all[i].returned = &C.dlx_returned[i]
		all[i].rank = narrowRank
		if i >= sharding {
			all[i].rank = wideRank
		}
	}
	return all
}()

// shardFor returns a shard for the running goroutine and a tensor of the given rank.
func shardFor(rank int) *shard {
	i := spread.Hash() >> 16 % sharding
	if rank > narrowRank {
		i += sharding
	}
	return &shards[i]
}

// take takes a slot from the ring. It returns nil if the ring is empty or another goroutine
// was faster.
func (h *shard) take() *slot {
	at := h.head.Load()
	if at == h.tail.Load() {
		return nil
	}
	s := h.ring[at%ringSize].Load()
	if !h.head.CompareAndSwap(at, at+1) {
		return nil
	}
	return s
}

// isEmpty reports whether the ring holds no slot.
func (h *shard) isEmpty() bool { return h.head.Load() == h.tail.Load() }

// refill takes a slot after take has failed. If the ring is empty, it first fills it with
// returned nodes, if there are any, or else with spare or new ones.
func (h *shard) refill() (*slot, error) {
	h.mu.Lock()
	s, err := h.refillLocked()
	last := h.last != nil
	h.mu.Unlock()
	if last {
		C.dlx_wake()
	}
	return s, err
}

func (h *shard) refillLocked() (*slot, error) {
	for {
		for !h.isEmpty() {
			if s := h.take(); s != nil {
				return s, nil
			}
		}
		if h.collect() && !h.isEmpty() {
			continue
		}
		if h.spare == nil {
			if err := h.grow(); err != nil {
				return nil, err
			}
		}
		tail := h.tail.Load()
		for i := 0; i < slotsAtOnce && h.spare != nil; i++ {
			s := h.spare
			h.spare = s.next
			tail = h.put(s, tail)
		}
		h.tail.Store(tail)
	}
}

// collect releases the references of the returned nodes and makes their slots available, and
// reports whether there were any. It leaves a node that holds the last reference to its buffer
// to the drainer: releasing that reference calls an Owner, which can do anything. h.mu is held.
//
// A library that writes to a node, or deletes it twice while it is used again, may put it on the
// list twice, which makes the list a circle. collect then stops at the node that it has seen.
func (h *shard) collect() bool {
	list := (*atomic.Uintptr)(unsafe.Pointer(h.returned))
	if list.Load() == 0 {
		return false
	}
	tail := h.tail.Load()
	for p := list.Swap(0); p != 0; {
		n := (*node)(abi.Pointer(p))
		s := h.slots[n.index]
		p = n.next
		if raceDetector {
			s.handed.Load()
		}
		b := s.buffer
		if b == nil {
			break
		}
		s.buffer = nil
		if privateCore.ReleaseUnlessLast(b) {
			tail = h.put(s, tail)
		} else {
			s.last, s.next = b, h.last
			h.last = s
		}
	}
	h.tail.Store(tail) // once, since a store costs as much as the rest of put
	return true
}

// put puts a slot behind tail, and returns the new tail. The slot is available when the caller has stored that. If
// the ring is full, the slot becomes a spare one. h.mu is held.
func (h *shard) put(s *slot, tail uint64) uint64 {
	if tail-h.head.Load() == ringSize {
		s.next = h.spare
		h.spare = s
		return tail
	}
	h.ring[tail%ringSize].Store(s)
	return tail + 1
}

// grow makes new nodes. h.mu is held.
func (h *shard) grow() error {
	if err := startDrainer(); err != nil {
		return err
	}
	nodes := C.dlx_new_nodes(h.returned, C.uint32_t(len(h.slots)), slotsAtOnce, C.size_t(h.rank))
	if nodes == nil {
		return fail(core.ErrOutOfMemory, "Export", "no memory for %d nodes of rank %d", slotsAtOnce, h.rank)
	}
	size := uintptr(C.dlx_node_size(C.size_t(h.rank)))
	slots := make([]slot, slotsAtOnce)
	for i := range slots {
		s := &slots[i]
		s.node = (*node)(unsafe.Add(nodes, uintptr(i)*size))
		s.next = h.spare
		h.spare = s
		h.slots = append(h.slots, s)
	}
	return nil
}

// out returns the number of nodes that consumers own.
func (h *shard) out() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := int64(0)
	for _, s := range h.slots {
		n += int64(atomic.LoadUint32(&s.node.out))
	}
	return n
}
