package cpu

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// testDevice is a device that the test's end closes, and by that proves that
// nothing on it is open.
type testDevice struct {
	core.Device
	t testing.TB
}

func open(t testing.TB) testDevice {
	t.Helper()
	d, err := New().Open(context.Background(), core.CPU)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return testDevice{d, t}
}

func (d testDevice) alloc(size int64) core.Memory {
	d.t.Helper()
	m, err := d.Alloc(context.Background(), size, core.AllocOptions{})
	if err != nil {
		d.t.Fatal(err)
	}
	return m
}

func (d testDevice) pool() core.PoolController { return d.Device.(core.PoolController) }

func (d testDevice) stats() core.PoolStats { return d.pool().PoolStats() }

func (d testDevice) wantStats(want core.PoolStats) {
	d.t.Helper()
	if got := d.stats(); got != want {
		d.t.Errorf("stats:\n%+v, want\n%+v", got, want)
	}
}

// bytesOf is the memory as the host sees it.
func bytesOf(m core.Memory) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&m.Handle)), m.Size)
}

// sizes has a block of every kind: one of many in a span, the largest that
// shares one, the smallest that does not, and one with huge pages.
var sizes = []int64{1, 100, 5000, maxShared, maxShared + 1, 1 << 20, 2*hugeSize + 1}

const hugeSize = 4 << 20

func TestBlocksAreAlignedAndDoNotTouch(t *testing.T) {
	d := open(t)
	var all []core.Memory
	for range 20 {
		for i, size := range sizes {
			m := d.alloc(size)
			if m.Handle%alignment != 0 {
				t.Errorf("%d bytes at %#x are not aligned to %d", size, m.Handle, alignment)
			}
			p := bytesOf(m)
			p[0], p[size-1] = byte(i), byte(i)
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b core.Memory) int { return int(int64(a.Handle) - int64(b.Handle)) })
	for i, m := range all {
		if i > 0 && all[i-1].Handle+uintptr(all[i-1].Size) > m.Handle {
			t.Errorf("%d bytes at %#x reach into those at %#x", all[i-1].Size, all[i-1].Handle, m.Handle)
		}
		m.Free()
	}
}

func TestFreedMemoryIsUsedAgain(t *testing.T) {
	for _, size := range sizes {
		d := open(t)
		first := d.alloc(size)
		first.Free()
		again := d.alloc(size)
		if again.Handle != first.Handle {
			t.Errorf("%d bytes at %#x, want those freed before at %#x", size, again.Handle, first.Handle)
		}
		block := classSize(classOf(size))
		d.wantStats(core.PoolStats{InUse: block, Requested: size, Peak: block, Allocs: 2, Hits: 1})
		again.Free()
		d.wantStats(core.PoolStats{Cached: block, Peak: block, Allocs: 2, Hits: 1})
	}
}

func TestSizeZeroHasNoAddressButIsOpen(t *testing.T) {
	d := open(t)
	m := d.alloc(0)
	if m.Handle != 0 || m.Size != 0 {
		t.Errorf("got %d bytes at %#x", m.Size, m.Handle)
	}
	if err := d.Close(); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("Close with it open: %v", err)
	}
	m.Free()
	d.wantStats(core.PoolStats{Allocs: 1})
}

func TestRefusedSizesAreCounted(t *testing.T) {
	d := open(t)
	for i, c := range []struct {
		size int64
		want error
	}{
		{-1, core.ErrInvalid}, {math.MinInt64, core.ErrInvalid},
		{math.MaxInt64, core.ErrOutOfMemory}, {maxSize + 1, core.ErrOutOfMemory}, {maxSize, core.ErrOutOfMemory},
	} {
		_, err := d.Alloc(context.Background(), c.size, core.AllocOptions{})
		if !errors.Is(err, c.want) {
			t.Errorf("Alloc(%d): %v, want %v", c.size, err, c.want)
		}
		d.wantStats(core.PoolStats{Allocs: int64(i + 1), Failures: int64(i + 1)})
	}
}

func TestTheCacheIsGivenBackBeforeTheSystemsRefusalCounts(t *testing.T) {
	d := open(t)
	d.alloc(1 << 20).Free()
	var system *core.Error
	_, err := d.Alloc(context.Background(), maxSize, core.AllocOptions{})
	if !errors.Is(err, core.ErrOutOfMemory) || !errors.As(err, &system) || system.Call == "Alloc" {
		t.Errorf("an address space full of memory: %v, want the system's refusal", err)
	}
	if s := d.stats(); s.Cached != 0 {
		t.Errorf("the system has no memory, but %d bytes are cached", s.Cached)
	}
}

func TestFreeingTwiceIsHarmless(t *testing.T) {
	d := open(t)
	m := d.alloc(100)
	m.Free()
	next := d.alloc(100) // has the same block
	m.Free()
	if other := d.alloc(100); other.Handle == next.Handle {
		t.Error("the block of one owner was taken away by another")
	} else {
		other.Free()
	}
	next.Free()
}

func TestTrimKeepsOnlySpansInUse(t *testing.T) {
	d := open(t)
	for _, size := range sizes {
		d.alloc(size).Free()
	}
	d.pool().TrimPool()
	if s := d.stats(); s.Cached != 0 {
		t.Errorf("%d bytes are cached after a trim with nothing in use", s.Cached)
	}

	small, neighbour, large := d.alloc(100), d.alloc(100), d.alloc(1<<20)
	neighbour.Free()
	large.Free()
	d.pool().TrimPool()
	if s := d.stats(); s.Cached != alignment {
		t.Errorf("%d bytes are cached, want the %d beside the block in use", s.Cached, alignment)
	}
	small.Free()
	d.pool().TrimPool()
	if s := d.stats(); s.Cached != 0 {
		t.Errorf("%d bytes are cached after the neighbour was freed", s.Cached)
	}
	d.alloc(100).Free() // the pool goes on
}

func TestLimit(t *testing.T) {
	const mib = 1 << 20
	d := open(t)
	d.pool().SetPoolLimit(4 * mib)
	held := d.alloc(2 * mib)
	d.alloc(mib).Free()

	t.Run("the error says what is in use", func(t *testing.T) {
		_, err := d.Alloc(context.Background(), 3*mib, core.AllocOptions{})
		if !errors.Is(err, core.ErrOutOfMemory) || !strings.Contains(err.Error(), "3145728 bytes are needed, but 2097152 are in use and 1048576 cached of the pool's limit of 4194304") {
			t.Errorf("got %v", err)
		}
		if s := d.stats(); s.Cached != mib || s.Failures != 1 {
			t.Errorf("a request that cannot be met must not cost the cache: %+v", s)
		}
	})
	t.Run("the cache makes room", func(t *testing.T) {
		m := d.alloc(2 * mib)
		d.wantStats(core.PoolStats{InUse: 4 * mib, Requested: 4 * mib, Peak: 4 * mib, Limit: 4 * mib, Allocs: 4, Failures: 1})
		m.Free()
	})
	t.Run("a lower limit shrinks the cache at once", func(t *testing.T) {
		d.pool().SetPoolLimit(3 * mib)
		if s := d.stats(); s.InUse != 2*mib || s.Cached != 0 {
			t.Errorf("got %+v", s)
		}
	})
	t.Run("a limit below what is in use refuses, and takes hold when that is freed", func(t *testing.T) {
		d.pool().SetPoolLimit(mib)
		if _, err := d.Alloc(context.Background(), 1, core.AllocOptions{}); !errors.Is(err, core.ErrOutOfMemory) {
			t.Errorf("got %v", err)
		}
		held.Free()
		if s := d.stats(); s.InUse != 0 || s.Cached != 0 {
			t.Errorf("got %+v", s)
		}
		d.alloc(mib).Free()
	})
	t.Run("0 and less remove it", func(t *testing.T) {
		for _, none := range []int64{0, -1} {
			d.pool().SetPoolLimit(none)
			d.alloc(8 * mib).Free()
			if s := d.stats(); s.Limit != 0 {
				t.Errorf("limit is %d after SetPoolLimit(%d)", s.Limit, none)
			}
		}
	})
}

func TestReleaseTakesLargeBlocksFirstAndNoMoreThanNeeded(t *testing.T) {
	d := open(t)
	memory := []core.Memory{d.alloc(1 << 20), d.alloc(4 << 20), d.alloc(4 << 20)}
	for _, m := range memory {
		m.Free()
	}
	d.pool().SetPoolLimit(9<<20 - 1)
	if s := d.stats(); s.Cached != 5<<20 {
		t.Errorf("%d bytes are cached, want one block of 4 MiB less", s.Cached)
	}
	if m := d.alloc(4 << 20); m.Handle != memory[2].Handle {
		t.Error("the block that was kept is not the one freed last")
	} else {
		m.Free()
	}
}

func TestMemoryIsCachedOnlyAfterPendingWork(t *testing.T) {
	d := open(t)
	work := stream.NewEvent()
	m := d.alloc(100)
	m.Owner.(backendkit.OrderedOwner).FreeAfter([]core.Event{work})
	other := d.alloc(100)
	if other.Handle == m.Handle {
		t.Error("memory was handed out while work on it is unfinished")
	}
	other.Free()

	closed := make(chan error)
	go func() { closed <- d.Close() }()
	work.Complete(errors.New("failed work is over too"))
	if err := <-closed; err != nil {
		t.Errorf("Close does not wait for work on memory that was released: %v", err)
	}
}

func TestStatsHoldUnderConcurrentUse(t *testing.T) {
	const limit = 64 << 20
	d := open(t)
	d.pool().SetPoolLimit(limit)
	check := func() {
		s := d.stats()
		if s.Requested > s.InUse || s.InUse+s.Cached > limit || s.Peak < s.InUse || s.Cached < 0 || s.Hits+s.Failures > s.Allocs {
			t.Errorf("contradiction: %+v", s)
		}
	}
	var wg sync.WaitGroup
	for seed := range uint64(8) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 0))
			var held []core.Memory
			for range 2000 {
				switch n := len(held); {
				case n > 0 && (n > 16 || rng.IntN(2) == 0):
					i := rng.IntN(n)
					p := bytesOf(held[i])
					if p[0] != byte(seed) || p[len(p)-1] != byte(seed) {
						t.Error("another owner wrote to the block")
					}
					held[i].Free()
					held = slices.Delete(held, i, i+1)
				case rng.IntN(100) == 0:
					d.pool().TrimPool()
				default:
					m, err := d.Alloc(context.Background(), 1+rng.Int64N(1<<rng.IntN(21)), core.AllocOptions{})
					if err != nil {
						if !errors.Is(err, core.ErrOutOfMemory) {
							t.Error(err)
						}
						continue
					}
					p := bytesOf(m)
					p[0], p[len(p)-1] = byte(seed), byte(seed)
					held = append(held, m)
				}
				check()
			}
			for _, m := range held {
				m.Free()
			}
		})
	}
	wg.Wait()
	d.pool().TrimPool()
	if s := d.stats(); s.InUse != 0 || s.Requested != 0 || s.Cached != 0 {
		t.Errorf("all was freed and trimmed: %+v", s)
	}
}

func BenchmarkAllocFree(b *testing.B) {
	cycle := func(d core.Device, size int64) {
		m, err := d.Alloc(context.Background(), size, core.AllocOptions{})
		if err != nil {
			b.Error(err)
			return
		}
		m.Free()
	}
	for _, c := range []struct {
		name string
		size int64
	}{{"256B", 256}, {"64KiB", 64 << 10}, {"64MiB", 64 << 20}} {
		b.Run(c.name, func(b *testing.B) {
			d := open(b)
			b.ReportAllocs()
			for b.Loop() {
				cycle(d.Device, c.size)
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		d := open(b)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				cycle(d.Device, 4096)
			}
		})
	})
}
