//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// memoryKinds are the values of AllocOptions.Type that come from the pool.
var memoryKinds = []core.DeviceType{core.DeviceCUDA, core.DeviceCUDAHost, core.DeviceCUDAManaged}

func TestMemoryOfEveryKindIsKeptForTheNextUse(t *testing.T) {
	sim := simulator(t)
	for _, kind := range memoryKinds {
		d := opened(t)
		alloc := func() core.Memory {
			m, err := d.Alloc(t.Context(), 5000, core.AllocOptions{Type: kind})
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		m := alloc()
		m.Free()
		calls := sim.Calls()
		again := alloc()
		if again.Handle != m.Handle || again.ID.Type != kind {
			t.Errorf("%v: Alloc returned %#x of %v, want %#x, which was free in the pool", kind, again.Handle, again.ID, m.Handle)
		}
		again.Free()
		for _, call := range []string{"cuMemAlloc", "cuMemHostAlloc", "cuMemAllocManaged", "cuMemGetInfo"} {
			if now := sim.Count(call); now != calls[call] {
				t.Errorf("%v: %s was called for memory that was kept", kind, call)
			}
		}
		stats := d.(core.PoolController).PoolStats()
		if stats.Hits != 1 || stats.InUse != 0 || stats.Cached == 0 {
			t.Errorf("%v: %+v", kind, stats)
		}
		d.(core.PoolController).TrimPool()
		if stats := d.(core.PoolController).PoolStats(); stats.Cached != 0 {
			t.Errorf("%v: %d bytes are kept after TrimPool", kind, stats.Cached)
		}
	}
}

// busy allocates a tensor, and enqueues a copy to it on s.
func busy(t *testing.T, d core.Device, s core.Stream, kind core.DeviceType) *core.Tensor {
	t.Helper()
	x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{5000}, core.AllocOptions{Type: kind})
	if err != nil {
		t.Fatal(err)
	}
	from := row(t, d, 5000, core.AllocOptions{})
	if err := d.Copy(t.Context(), s, x, from); err != nil {
		t.Fatal(err)
	}
	return x
}

func addressOf(t *testing.T, x *core.Tensor) uintptr { return buffer(t, x).Memory().Handle }

func TestUnfinishedMemoryGoesToStreamsThatWaitForIt(t *testing.T) {
	sim := simulator(t)
	for _, kind := range memoryKinds {
		d := opened(t)
		s, other := newStream(t, d), newStream(t, d)
		sim.Hold(true)
		x := busy(t, d, s, kind)
		was := addressOf(t, x)
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		// The work on it is not done: without a stream, Alloc returns other memory.
		if y := row(t, d, 5000, core.AllocOptions{Type: kind}); addressOf(t, y) == was {
			t.Errorf("%v: Alloc without a stream returned memory with unfinished work", kind)
		}
		z := row(t, d, 5000, core.AllocOptions{Type: kind, Stream: other})
		if addressOf(t, z) != was {
			t.Errorf("%v: a stream that can wait for memory got other memory", kind)
		}
		want := pattern(5000, 9)
		if err := d.Copy(t.Context(), other, z, keep(t)(core.FromSlice(want))); err != nil {
			t.Fatal(err)
		}
		sim.Hold(false)
		if !bytes.Equal(get(t, d, z), want) {
			t.Errorf("%v: work of the memory's previous use ran after work of the next use", kind)
		}
	}
}

func TestAllocReclaimsFreeBlocksAndWaitsForUnfinishedWork(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	total := d.Properties().TotalMemory
	most := total - total/8
	// A free block of another class takes the room.
	m, err := d.Alloc(t.Context(), most, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.Free()
	x := row(t, d, most/2, core.AllocOptions{})
	// Alloc waits for the work on a free block.
	if err := d.Copy(t.Context(), s, x, x); err != nil {
		t.Fatal(err)
	}
	y := keep(t)(core.Empty(t.Context(), d, core.TypeUint8, []int64{4096}, core.AllocOptions{}))
	small, err := x.Slice(0, 0, 4096, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Copy(t.Context(), s, y, small); err != nil {
		t.Fatal(err)
	}
	_, _ = small.Close(), x.Close()
	if m, err = d.Alloc(t.Context(), most, core.AllocOptions{}); err != nil {
		t.Fatalf("Alloc when the work is done: %v", err)
	}
	live := sim.Live()
	_, err = d.Alloc(t.Context(), most, core.AllocOptions{})
	wantError(t, err, core.ErrOutOfMemory, "memory of the device")
	_, err = d.Alloc(t.Context(), most, core.AllocOptions{Type: core.DeviceCUDAManaged})
	wantError(t, err, core.ErrOutOfMemory, "managed memory, which the driver would swap")
	_, err = d.Alloc(t.Context(), most, core.AllocOptions{Export: core.HandleOpaqueFD})
	wantError(t, err, core.ErrOutOfMemory, "memory to be exported")
	_, err = d.Alloc(t.Context(), 1<<62, core.AllocOptions{})
	wantError(t, err, core.ErrOutOfMemory, "more than any device has")
	wantLive(t, sim, live)
	m.Free()
}

// cuMemFree waits for the work of the device, which may wait for the host. Other calls must not wait for it.
func TestOtherCallsDoNotWaitWhileTheDriverFreesMemory(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	s := newStream(t, d)
	m, err := d.Alloc(t.Context(), 5000, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.Free()
	goOn, freed := make(chan struct{}), make(chan struct{})
	if err := failed(libraryOf(t, d).context.LaunchHostFunc(s.Native(), func() { <-goOn })); err != nil {
		t.Fatal(err)
	}
	calls := sim.Count("cuMemFree")
	go func() {
		d.(core.PoolController).TrimPool()
		close(freed)
	}()
	for end := time.Now().Add(20 * time.Second); sim.Count("cuMemFree") == calls; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("TrimPool frees nothing")
		}
	}
	done := make(chan error, 1)
	go func() {
		l := &coretest.Life{Context: t.Context()}
		row := func() *core.Tensor {
			return l.Tensor(core.Empty(t.Context(), d, core.TypeUint8, []int64{9000}, core.AllocOptions{}))
		}
		l.Copy(d, l.Stream(d.NewStream(t.Context())), row(), row())
		if got := d.(core.PoolController).PoolStats(); got.Cached != 0 {
			l.OK(fmt.Errorf("%+v: a block that is being freed still counts as cached", got))
		}
		done <- l.End()
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("other calls waited for the driver to free memory")
	}
	close(goOn)
	<-freed
}
