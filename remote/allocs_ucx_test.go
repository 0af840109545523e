//go:build ucx && linux && cgo

package remote

import (
	"testing"
	"time"

	"github.com/dlx-go/dlx/core/coretest"
)

// A small tensor allocates what its memory at the receiver needs, and nothing else: what a call or a message needs is used again.
func TestASmallTensorAllocatesItsMemoryOnly(t *testing.T) {
	if coretest.Sanitized {
		t.Skip("a sanitizer allocates itself")
	}
	d := host(t)
	a, b := connect(t, Options{Poll: time.Minute})
	x := row(t, 4096, 1)
	shape := x.Shape()
	want := testing.AllocsPerRun(500, func() {
		m := meta{dtype: x.DType(), shape: shape}
		y, err := allocate(t.Context(), d, &m, 4096)
		if err != nil {
			t.Fatal(err)
		}
		_ = y.Close()
	})
	pass := func() {
		if _, err := a.Send(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		y, _, err := b.Receive(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		_ = y.Close()
	}
	for range 100 { // until there are objects to use again
		pass()
	}
	// Other goroutines allocate at times, and so do credits, one for each 32 tensors.
	got := testing.AllocsPerRun(500, pass)
	for range 4 {
		got = min(got, testing.AllocsPerRun(500, pass))
	}
	if got > want {
		t.Errorf("a tensor of %d bytes makes %v allocations at both sides together; its memory makes %v", x.NumBytes(), got, want)
	}
	if err := a.WaitReceived(t.Context()); err != nil {
		t.Error(err)
	}
}
