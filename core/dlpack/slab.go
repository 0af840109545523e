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
)

// node mirrors struct dlx_node of node.h. The dims follow it.
type node struct {
	versioned abi.ManagedTensorVersioned // or an abi.ManagedTensor at the same address
	next      uintptr
	home      uintptr
	index     uint32
	out       uint32
	_         [24]byte
}

// Each line compiles only if C's node is not larger, or not smaller.
var (
	_ [unsafe.Sizeof(node{}) - C.sizeof_struct_dlx_node]byte
	_ [C.sizeof_struct_dlx_node - unsafe.Sizeof(node{})]byte
)

// legacy is the node as its other struct.
func (n *node) legacy() *abi.ManagedTensor { return (*abi.ManagedTensor)(unsafe.Pointer(n)) }

// dims is the room for shape and strides.
func (n *node) dims() unsafe.Pointer { return unsafe.Add(unsafe.Pointer(n), unsafe.Sizeof(*n)) }

// slot is what Go keeps for a node: the buffer that the node's consumer has a
// share of. A C node cannot hold it, the garbage collector would not see it.
type slot struct {
	node   *node
	buffer *core.Buffer
	next   *slot // in a list of the shard
	handed atomic.Bool
}

const (
	slotsAtOnce = 64  // how many nodes are made in one go: they fit into the first-level cache
	ringSize    = 256 // a power of two

	narrowRank = 4            // nearly all tensors; what Tensor.PutDims copies at once
	wideRank   = core.MaxRank // the rest
	sharding   = C.dlx_shards / 2
)

// shard is a set of nodes, to which they return for ever. Exporters are spread
// over the shards, so that they seldom meet.
//
// Free nodes wait in a ring. Taking one is lock-free: the ring's head only grows,
// so a compare-and-swap that succeeds proves that nobody was there in between.
// All else happens under a mutex that no foreign thread and no foreign function
// ever meets.
type shard struct {
	head atomic.Uint64
	tail atomic.Uint64 // moved under mu
	ring [ringSize]atomic.Pointer[slot]

	mu    sync.Mutex
	spare *slot   // free, but the ring was full
	last  *slot   // returned, and theirs is the last share of the buffer: for the drainer
	slots []*slot // all, by index

	returned *C.struct_dlx_returned
	rank     int // axes that a node has room for

	_ [64]byte // the next shard's head is on another cache line
}

// shards are first those of narrow nodes, then those of wide ones.
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

// shardFor picks the shard for a tensor of the given rank. Goroutines have stacks
// of their own: the address of a variable tells them apart.
func shardFor(rank int) *shard {
	var here byte
	i := uint32(uintptr(unsafe.Pointer(&here))>>11) * 0x9e3779b1 >> 16 % sharding
	if rank > narrowRank {
		i += sharding
	}
	return &shards[i]
}

// take takes a slot from the ring; nil if it is empty or somebody else was faster.
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

// refill takes a slot where the short way failed. If the ring is empty it fills
// it before, with nodes that came back if there are any.
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
		for i := 0; i < slotsAtOnce && h.spare != nil; i++ {
			s := h.spare
			h.spare = s.next
			h.put(s)
		}
	}
}

// collect takes back the returned nodes, but for those that hold the last share
// of their buffer: to give that back can call anything, which is the drainer's
// business. It reports whether there were any nodes. h.mu is held.
func (h *shard) collect() bool {
	list := (*atomic.Uintptr)(unsafe.Pointer(h.returned))
	if list.Load() == 0 {
		return false
	}
	for p := list.Swap(0); p != 0; {
		n := (*node)(abi.Pointer(p))
		s := h.slots[n.index]
		p = n.next
		if raceDetector {
			s.handed.Load()
		}
		if s.buffer.ReleaseUnlessLast() {
			s.buffer = nil
			h.put(s)
		} else {
			s.next = h.last
			h.last = s
		}
	}
	return true
}

// put makes a slot available. h.mu is held.
func (h *shard) put(s *slot) {
	tail := h.tail.Load()
	if tail-h.head.Load() == ringSize {
		s.next = h.spare
		h.spare = s
		return
	}
	h.ring[tail%ringSize].Store(s)
	h.tail.Store(tail + 1)
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

// out counts the nodes that consumers own.
func (h *shard) out() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := int64(0)
	for _, s := range h.slots {
		n += int64(atomic.LoadUint32(&s.node.out))
	}
	return n
}
