//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"maps"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// keptBy allocates memory of a size and frees it, and returns its address.
func keptBy(t *testing.T, d core.Device, size int64, o core.AllocOptions) uintptr {
	t.Helper()
	m, err := d.Alloc(t.Context(), size, o)
	if err != nil {
		t.Fatal(err)
	}
	m.Free()
	return m.Handle
}

func TestAFreeBlockServesSmallerTensorsWithoutTheDriver(t *testing.T) {
	sim := simulator(t)
	for _, kind := range memoryKinds {
		d := opened(t)
		o := core.AllocOptions{Type: kind}
		block := keptBy(t, d, 8<<20, o)
		calls := sim.Calls()
		parts := []*core.Tensor{row(t, d, 3<<20, o), row(t, d, 1<<20, o), row(t, d, 4<<20, o)}
		at := block
		for _, x := range parts {
			if addressOf(t, x) != at {
				t.Errorf("%v: %v is at %#x, want %#x", kind, x, addressOf(t, x), at)
			}
			at += uintptr(x.NumBytes())
		}
		if now := sim.Calls(); !maps.Equal(now, calls) {
			t.Errorf("%v: the driver was called: %v, before %v", kind, now, calls)
		}
		for i, x := range parts {
			put(t, d, x, pattern(int(x.NumBytes()), uint64(i)))
		}
		for i, x := range parts {
			if !bytes.Equal(get(t, d, x), pattern(int(x.NumBytes()), uint64(i))) {
				t.Errorf("%v: part %d has other bytes", kind, i)
			}
			_ = x.Close()
		}
		d.(core.PoolController).TrimPool()
		if stats := d.(core.PoolController).PoolStats(); stats.Cached != 0 || stats.InUse != 0 {
			t.Errorf("%v: %+v after TrimPool", kind, stats)
		}
	}
}

// What another process opens is the whole allocation: it must not see other tensors.
func TestExportedMemorySharesItsAllocationWithNothing(t *testing.T) {
	simulator(t)
	d := opened(t)
	for _, h := range d.(core.MemoryExporter).ExportTypes() {
		block := keptBy(t, d, 8<<20, core.AllocOptions{})
		x := row(t, d, 2<<20, core.AllocOptions{Export: h})
		m, err := d.(core.MemoryExporter).ExportMemory(buffer(t, x), h)
		if err != nil {
			t.Fatal(err)
		}
		_ = m.Close()
		if err := d.(core.MemoryExporter).EndExport(buffer(t, x)); err != nil {
			t.Fatal(err)
		}
		first := addressOf(t, x) - uintptr(m.Offset)
		if first < block+8<<20 && block < first+uintptr(m.Size) {
			t.Errorf("%v: the allocation lies in a block of the pool", h)
		}
		outside := func(when string) {
			t.Helper()
			for _, size := range []int64{100, 1 << 20, 2 << 20} {
				if at := addressOf(t, row(t, d, size, core.AllocOptions{})); at < first+uintptr(m.Size) && first < at+uintptr(size) {
					t.Errorf("%v, %s: a tensor lies in exported memory", h, when)
				}
			}
		}
		outside("in use")
		_ = x.Close()
		outside("after Close")
	}
}

// Devices that were opened twice have a pool each, and one memory.
func TestPoolsOfOneCardGiveWayToEachOther(t *testing.T) {
	simulator(t)
	d, again := opened(t), opened(t)
	total := d.Properties().TotalMemory
	most := total - total/16
	for _, o := range []core.AllocOptions{{}, {Export: core.HandleOpaqueFD}, {Export: core.HandleIPC}} {
		keptBy(t, d, total/10, core.AllocOptions{})
		if kept := d.(core.PoolController).PoolStats().Cached; kept < total/10 {
			t.Fatalf("%d bytes are kept, want %d", kept, total/10)
		}
		m, err := again.Alloc(t.Context(), most, o)
		if err != nil {
			t.Fatalf("export as %v: %v", o.Export, err)
		}
		m.Free()
		if kept := d.(core.PoolController).PoolStats().Cached; kept != 0 {
			t.Errorf("the other pool keeps %d bytes", kept)
		}
	}
}

func TestTrimPoolsHelpsAnotherLibrary(t *testing.T) {
	simulator(t)
	other := gpusimtest.Start(t)
	d, again := opened(t), opened(t)
	total := d.Properties().TotalMemory
	for _, d := range []core.Device{d, again} {
		keptBy(t, d, total/10, core.AllocOptions{})
	}
	var p uint64
	other.Want(gpusimtest.OutOfMemory, "cuMemAlloc_v2", &p, total-total/16)
	TrimPools()
	other.OK("cuMemAlloc_v2", &p, total-total/16)
	other.OK("cuMemFree_v2", p)
}

func TestThePoolKeepsAnEighthOfTheMemory(t *testing.T) {
	simulator(t)
	d := opened(t)
	total := d.Properties().TotalMemory
	keptBy(t, d, total/4, core.AllocOptions{})
	if kept := d.(core.PoolController).PoolStats().Cached; kept != 0 {
		t.Errorf("%d bytes are kept of a device with %d", kept, total)
	}
	x, y := row(t, d, total/10, core.AllocOptions{}), row(t, d, total/10, core.AllocOptions{})
	_, _ = x.Close(), y.Close()
	if kept := d.(core.PoolController).PoolStats().Cached; kept < total/10 || kept > total/8 {
		t.Errorf("%d bytes are kept of a device with %d", kept, total)
	}
}

func TestAnIdlePoolReturnsItsMemory(t *testing.T) {
	sim := simulator(t)
	d := opened(t)
	before := sim.Live()
	for _, kind := range memoryKinds {
		keptBy(t, d, 1<<20, core.AllocOptions{Type: kind})
	}
	periods := d.(interface{ Tick() }) // what the timer calls
	periods.Tick()
	if maps.Equal(sim.Live(), before) {
		t.Error("memory is returned in the period in which it was used")
	}
	periods.Tick()
	wantLive(t, sim, before)
	if stats := d.(core.PoolController).PoolStats(); stats.Cached != 0 {
		t.Errorf("%+v", stats)
	}
}
