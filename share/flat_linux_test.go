package share

import (
	"context"
	"runtime"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// round sends a tensor that the other side receives and closes, and waits until it is released.
func round(ctx context.Context, a, b *Conn, d core.Device, x *core.Tensor) error {
	if _, err := a.Send(ctx, x); err != nil {
		return err
	}
	y, _, err := b.Receive(ctx, d)
	if err != nil {
		return err
	}
	y.Close()
	return a.WaitReleased(ctx)
}

// A message about a known memory allocates nothing but a share of what is allocated for several.
func TestMessagesDoNotAllocate(t *testing.T) {
	if coretest.Sanitized {
		t.Skip("sanitizers allocate")
	}
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 16, memfd)
	ctx := t.Context()
	n := testing.AllocsPerRun(1000, func() {
		if err := round(ctx, a, b, e, x); err != nil {
			t.Fatal(err)
		}
	})
	if n > 0 {
		t.Errorf("a tensor that is sent, received and released takes %v allocations", n)
	}
}

// Memory and descriptors do not grow with the number of tensors.
func TestAMillionTensors(t *testing.T) {
	count := 1_000_000
	if coretest.Quick() || coretest.Sanitized {
		count = 20_000
	}
	d, e := host(t), host(t)
	a, b := connected(t, of(d), of(e))
	x := shareable(t, d, 16, memfd)
	heap := func() int64 {
		var m runtime.MemStats
		for range 2 { // the first one runs cleanups
			runtime.GC()
		}
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var descriptors int
	var before int64
	for i := range count {
		if i == count/10 {
			descriptors, before = coretest.Descriptors(), heap()
		}
		if err := round(t.Context(), a, b, e, x); err != nil {
			t.Fatal(err)
		}
	}
	grown := heap() - before
	t.Logf("%d tensors; the heap has grown by %d bytes", count, grown)
	if grown > 256<<10 {
		t.Errorf("the heap has grown by %d bytes", grown)
	}
	coretest.WantDescriptors(t, descriptors, "afterwards")
	if s := a.Stats(); s.MemoriesSent != 1 || s.Released != int64(count) {
		t.Errorf("%+v", s)
	}
}
