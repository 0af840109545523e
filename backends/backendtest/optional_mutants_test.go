package backendtest

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

var optionalMutants = []mutant{
	{
		name:  "the pool does not count",
		hooks: hooks{poolStats: func(core.PoolStats) core.PoolStats { return core.PoolStats{} }},
		fails: "pool/in-use", says: "after Alloc(100000)",
	},
	{
		name:  "the pool has no limit",
		hooks: hooks{setPoolLimit: func(*device, int64) {}},
		fails: "pool/limit", says: "Alloc beyond the limit: error <nil>",
	},
	{
		name:  "the pool gives nothing back",
		hooks: hooks{trimPool: func(*device) {}},
		fails: "pool/trim", says: "bytes are cached",
	},
	{
		name: "the pool keeps nothing",
		hooks: hooks{poolStats: func(s core.PoolStats) core.PoolStats {
			s.Cached, s.Hits = 0, 0
			return s
		}},
		fails: "pool/reuse", says: "0 are cached",
	},
	{
		name: "frees the owner twice",
		hooks: hooks{importPointer: func(d *device, p uintptr, size int64, o core.Owner) (core.Memory, error) {
			return d.fake.ImportPointer(p, size, core.FreeFunc(func() {
				if o != nil {
					o.Free()
					o.Free()
				}
			}))
		}},
		fails: "import-pointer/owner", says: "freed 2 times",
	},
	{
		name: "forgets the owner",
		hooks: hooks{importPointer: func(d *device, p uintptr, size int64, _ core.Owner) (core.Memory, error) {
			return d.fake.ImportPointer(p, size, nil)
		}},
		fails: "import-pointer/owner", says: "freed 0 times",
	},
	{
		name: "frees the owner of an import that failed",
		hooks: hooks{importPointer: func(d *device, p uintptr, size int64, o core.Owner) (core.Memory, error) {
			m, err := d.fake.ImportPointer(p, size, o)
			if err != nil && o != nil {
				o.Free()
			}
			return m, err
		}},
		fails: "import-pointer/failure", says: "but freed the owner",
	},
	{
		name: "copies what it should import",
		hooks: hooks{importPointer: func(d *device, p uintptr, size int64, _ core.Owner) (core.Memory, error) {
			from, err := d.fake.ImportPointer(p, size, nil)
			if err != nil {
				return core.Memory{}, err
			}
			src, err := core.Wrap(from, core.Spec{DType: core.TypeUint8, Shape: []int64{size}})
			if err != nil {
				return core.Memory{}, err
			}
			defer src.Close()
			return allocCopy(d, context.Background(), src)
		}},
		fails: "import-pointer/no-copy", says: "the origin, after a write to the import",
	},
	{
		name: "does not keep mapped host memory alive",
		hooks: hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m := b.Memory()
			other, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
			if err != nil {
				return core.Memory{}, err
			}
			defer other.Close()
			loose, err := other.Buffer()
			if err != nil {
				return core.Memory{}, err
			}
			return d.fake.MapHost(ctx, loose)
		}},
		fails: "map-host/reference", says: "while it is mapped",
	},
	{
		name: "does not tell which memory of the host it has mapped",
		hooks: hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := d.fake.MapHost(ctx, b)
			m.Host = 0
			return m, err
		}},
		fails: "map-host/no-copy", says: "Memory.Host is 0x0",
	},
	{
		name: "maps other memory where the alignment does not suit",
		hooks: hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			return d.fake.Alloc(ctx, b.Memory().Size, core.AllocOptions{})
		}},
		fails: "map-host/alignment", says: "mapped memory off the alignment",
	},
	{
		name: "maps no memory for memory of unknown size",
		hooks: hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			if b != nil && b.Memory().Size == core.UnknownSize {
				return d.fake.Alloc(ctx, 0, core.AllocOptions{})
			}
			return d.fake.MapHost(ctx, b)
		}},
		fails: "map-host/refused", says: "MapHost of memory of unknown size: error <nil>",
	},
	{
		name: "maps read-only memory as if it could be written",
		hooks: hooks{
			canMap: func(*device, core.Memory) error { return nil },
			mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
				m := b.Memory()
				if !m.ReadOnly {
					return d.fake.MapHost(ctx, b)
				}
				if err := b.Retain(); err != nil {
					return core.Memory{}, err
				}
				m.ReadOnly, m.Owner = false, core.FreeFunc(b.Release)
				loose, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
				if err != nil {
					b.Release()
					return core.Memory{}, err
				}
				defer loose.Close()
				writable, err := loose.Buffer()
				if err != nil {
					return core.Memory{}, err
				}
				return d.fake.MapHost(ctx, writable)
			},
		},
		fails: "map-host/read-only", says: "which is not",
	},
	{
		name:  "says that it maps what it does not",
		hooks: hooks{canMap: func(*device, core.Memory) error { return nil }},
		fails: "map-host/read-only", says: "CanMap takes memory that is marked as read-only, and MapHost fails",
	},
	{
		name: "says that it maps nothing",
		hooks: hooks{canMap: func(d *device, m core.Memory) error {
			return core.Errorf(core.ErrInvalid, "fake", "MapHost", "no")
		}},
		fails: "map-host/read-only", says: "CanMap of memory of the host",
	},
	{
		name: "maps whole units and forgets the offset",
		hooks: hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			m, err := mapUnits(d, ctx, b)
			m.Offset = 0
			return m, err
		}},
		fails: "map-host/alignment", says: "mapped memory off the alignment",
	},
	{
		name: "a peer copy does not wait",
		hooks: hooks{copyPeer: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
			u, err := unordered(src)
			if err != nil {
				return err
			}
			defer u.Close()
			return d.fake.CopyPeer(ctx, s, dst, u, peer)
		}},
		fails: "peer/order", says: "what came from the peer",
	},
	{
		name: "a peer copy forgets that dst is read-only",
		hooks: hooks{copyPeer: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
			u, err := respec(dst, func(s *core.Spec) { s.Flags = 0 })
			if err != nil {
				return err
			}
			defer u.Close()
			return d.fake.CopyPeer(ctx, s, u, src, peer)
		}},
		fails: "peer/errors", says: "read-only dst: error <nil>",
	},
	{
		name: "a semaphore shrinks without a word",
		hooks: hooks{semaphore: semaphoreHooks{signal: func(m core.Semaphore, s core.Stream, v uint64) error {
			if old, err := m.Value(); err == nil && v <= old {
				return nil
			}
			return m.Signal(s, v)
		}}},
		fails: "semaphore/only-grows", says: "Signal(4) after 5: error <nil>",
	},
	{
		name: "nobody waits for a semaphore",
		hooks: hooks{semaphore: semaphoreHooks{waitOn: func(m core.Semaphore, s core.Stream, v uint64) error {
			_, err := m.Value()
			return err
		}}},
		fails: "semaphore/orders-streams", says: "work that waits for 2",
	},
	{
		name: "a semaphore swallows ctx",
		hooks: hooks{semaphore: semaphoreHooks{wait: func(m core.Semaphore, _ context.Context, v uint64) error {
			return m.Wait(deaf(), v)
		}}},
		fails: "semaphore/context", says: "did not return",
	},
	{
		name: "a semaphore is closed once only",
		hooks: hooks{semaphore: semaphoreHooks{close: func(t *timeline) error {
			if _, err := t.Value(); err != nil {
				return err
			}
			return t.Semaphore.Close()
		}}},
		fails: "semaphore/close", says: "Close number 2",
	},
}

// mapUnits maps all units of the alignment that b touches.
func mapUnits(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
	part := b.Memory()
	start, align := int64(part.Handle)+part.Offset, d.HostAlignment()
	before := start % align
	after := -(start + part.Size) & (align - 1)
	if err := b.Retain(); err != nil {
		return core.Memory{}, err
	}
	units := core.Memory{ID: part.ID, Handle: uintptr(start - before), Size: before + part.Size + after, Owner: core.FreeFunc(b.Release)}
	t, err := core.Wrap(units, core.Spec{DType: core.TypeUint8, Shape: []int64{units.Size}})
	if err != nil {
		units.Free()
		return core.Memory{}, err
	}
	defer t.Close()
	wide, err := t.Buffer()
	if err != nil {
		return core.Memory{}, err
	}
	m, err := d.fake.MapHost(ctx, wide)
	m.Offset, m.Size = before, part.Size
	return m, err
}

// Where the alignment does not suit, the suite lets a device map whole units.
func TestSuiteAllowsWholeUnitsToBeMapped(t *testing.T) {
	for _, c := range []string{"map-host/no-copy", "map-host/reference", "map-host/alignment"} {
		first, _ := wrapped(coretest.Options{}, hooks{mapHost: mapUnits})
		var d *device
		r := record(t, caseNamed(t, c), func(tb testing.TB) core.Device { d = first(tb); return d })
		if r.Failed() || r.skipped {
			t.Errorf("%s: %q", c, r.log)
		}
		d.release(t)
	}
}
