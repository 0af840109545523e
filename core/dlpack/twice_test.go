//go:build cgo && !windows

package dlpack

import (
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

// flush fails the test if Flush does not return, long after it should have.
func flush(t *testing.T) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		Flush()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("Flush hangs")
	}
}

// again puts a node that was deleted on the list once more, as two threads may that delete it at the same time.
func again(n *node) {
	atomic.StoreUint32(&n.out, 1)
	Delete(&n.versioned)
}

// exported exports two tensors by nodes of one shard, which return to one list.
func exported(t *testing.T, tensors [2]*core.Tensor) (nodes [2]*node, home *shard) {
	t.Helper()
	for range 100 { // the shard depends on where the stack lies
		for i, x := range tensors {
			m, err := Export(x)
			if err != nil {
				t.Fatal(err)
			}
			nodes[i] = (*node)(unsafe.Pointer(m))
		}
		if nodes[0].home == nodes[1].home {
			for i := range shards {
				if h := &shards[i]; uintptr(unsafe.Pointer(h.returned)) == nodes[0].home {
					return nodes, h
				}
			}
		}
		Delete(&nodes[0].versioned)
		Delete(&nodes[1].versioned)
	}
	t.Fatal("no two nodes of one shard")
	return nodes, nil
}

// A node that is on the list of returned nodes twice makes that a circle.
func TestANodeThatIsReturnedTwice(t *testing.T) {
	for _, order := range [][]int{{0, 0, 1}, {0, 1, 0}, {0, 1, 1, 0}, {0, 0, 0, 1}} {
		for _, last := range []bool{false, true} {
			var freed [2]atomic.Int32
			var tensors [2]*core.Tensor
			for i := range tensors {
				memory := make([]float32, 6)
				x, err := core.Wrap(core.Memory{
					ID: core.CPU, Handle: uintptr(unsafe.Pointer(&memory[0])), Size: 24,
					Owner: core.FreeFunc(func() { _ = memory; freed[i].Add(1) }),
				}, core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}})
				if err != nil {
					t.Fatal(err)
				}
				tensors[i] = x
			}
			nodes, h := exported(t, tensors)
			if last { // the nodes have the last references
				tensors[0].Close()
				tensors[1].Close()
			}
			h.mu.Lock() // nobody takes the list before it is complete
			h.collect() // what other tests have returned would be lost behind the circle
			for _, i := range order {
				again(nodes[i])
			}
			h.mu.Unlock()
			flush(t)
			for i, x := range tensors {
				if got := freed[i].Load(); got != 0 != last {
					t.Errorf("%v, last references %v: memory %d was freed %d times", order, last, i, got)
				}
				x.Close()
				if got := freed[i].Load(); got != 1 {
					t.Errorf("%v, last references %v: after Close memory %d was freed %d times", order, last, i, got)
				}
			}
		}
	}
}

// An Owner may never return, since it may be another library.
func TestFlushEndsBesideAnOwnerThatDoesNot(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	x, err := core.Wrap(core.Memory{ID: core.CPU, Owner: core.FreeFunc(func() {
		close(entered)
		<-leave
	})}, core.Spec{DType: core.TypeFloat32, Shape: []int64{0}})
	if err != nil {
		t.Fatal(err)
	}
	m, err := Export(x)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	Delete(m)
	flush(t)
	<-entered
	close(leave)
	flush(t)
}
