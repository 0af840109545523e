package backendtest

import (
	"context"
	"testing"

	"github.com/dlx-go/dlx/core"
)

var mapTrue memoryHook = (*device).MapHost

var optionalMutants = []mutant[hooks]{
	{"the pool does not count", "pool/in-use", "after Alloc(100000)",
		hooks{poolStats: func(*device) core.PoolStats { return core.PoolStats{} }}},
	{"the pool has no limit", "pool/limit", "Alloc beyond the limit: error <nil>",
		hooks{setPoolLimit: func(*device, int64) {}}},
	{"the pool gives nothing back", "pool/trim", "bytes are cached",
		hooks{trimPool: func(*device) {}}},
	{"the pool keeps nothing", "pool/reuse", "0 are cached",
		hooks{poolStats: func(d *device) core.PoolStats {
			s := d.PoolStats()
			s.Cached, s.Hits = 0, 0
			return s
		}}},
	{"frees the owner twice", "import-pointer/owner", "freed 2 times",
		imports(func(d *device, p uintptr, size int64, o core.Owner) (core.Memory, error) {
			return d.ImportPointer(p, size, core.FreeFunc(func() {
				if o != nil {
					o.Free()
					o.Free()
				}
			}))
		})},
	{"forgets the owner", "import-pointer/owner", "freed 0 times",
		imports(func(d *device, p uintptr, size int64, _ core.Owner) (core.Memory, error) {
			return d.ImportPointer(p, size, nil)
		})},
	{"looks at the address of no bytes", "import-pointer/no-bytes", "ImportPointer(0x0, 0)",
		imports(func(d *device, p uintptr, size int64, o core.Owner) (core.Memory, error) {
			if p == 0 {
				return core.Memory{}, core.Errorf(core.ErrInvalid, "mutant", "ImportPointer", "the address is 0")
			}
			return d.ImportPointer(p, size, o)
		})},
	{"frees the owner of an import that failed", "import-pointer/failure", "but freed the owner",
		imports(func(d *device, p uintptr, size int64, o core.Owner) (core.Memory, error) {
			m, err := d.ImportPointer(p, size, o)
			if err != nil && o != nil {
				o.Free()
			}
			return m, err
		})},
	{"copies what it should import", "import-pointer/no-copy", "the origin, after a write to the import",
		imports(func(d *device, p uintptr, size int64, _ core.Owner) (core.Memory, error) {
			from, err := d.ImportPointer(p, size, nil)
			if err != nil {
				return core.Memory{}, err
			}
			return asBuffer(from, func(b *core.Buffer) (core.Memory, error) { return copyOf(d, context.Background(), b) })
		})},
	{"does not keep mapped host memory alive", "map-host/reference", "while it is mapped",
		hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			return asBuffer(b.Memory(), func(loose *core.Buffer) (core.Memory, error) { return d.MapHost(ctx, loose) })
		}}},
	{"does not tell which memory of the host it has mapped", "map-host/no-copy", "Memory.Host is 0x0",
		hooks{mapHost: altered(mapTrue, func(_ *core.Buffer, m *core.Memory) { m.Host = 0 })}},
	{"maps other memory where the alignment does not suit", "map-host/alignment", "mapped memory off the alignment",
		hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			return d.Alloc(ctx, b.Memory().Size, core.AllocOptions{})
		}}},
	{"maps no memory for memory of unknown size", "map-host/refused", "MapHost of memory of unknown size: error <nil>",
		hooks{mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
			if b != nil && b.Memory().Size == core.UnknownSize {
				return d.Alloc(ctx, 0, core.AllocOptions{})
			}
			return d.MapHost(ctx, b)
		}}},
	{"maps read-only memory as if it could be written", "map-host/read-only", "which is not",
		hooks{
			canMap: mapsAll.canMap,
			mapHost: func(d *device, ctx context.Context, b *core.Buffer) (core.Memory, error) {
				m := b.Memory()
				if !m.ReadOnly {
					return d.MapHost(ctx, b)
				}
				if err := b.Retain(); err != nil {
					return core.Memory{}, err
				}
				m.ReadOnly, m.Owner = false, core.FreeFunc(b.Release)
				return asBuffer(m, func(writable *core.Buffer) (core.Memory, error) { return d.MapHost(ctx, writable) })
			},
		}},
	{"says that it maps what it does not", "map-host/read-only", "CanMap takes memory that is marked as read-only, and MapHost fails", mapsAll},
	{"says that it maps nothing", "map-host/read-only", "CanMap of memory of the host",
		hooks{canMap: func(*device, core.Memory) error { return core.Errorf(core.ErrInvalid, "fake", "MapHost", "no") }}},
	{"maps whole units and forgets the offset", "map-host/alignment", "mapped memory off the alignment",
		hooks{mapHost: altered(mapUnits, forgetOffset)}},
	{"a peer copy does not wait", "peer/order", "what came from the peer",
		hooks{copyPeer: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
			return use(unordered(src))(func(src *core.Tensor) error { return d.CopyPeer(ctx, s, dst, src, peer) })
		}}},
	{"a peer copy forgets that dst is read-only", "peer/errors", "read-only dst: error <nil>",
		hooks{copyPeer: func(d *device, ctx context.Context, s core.Stream, dst, src *core.Tensor, peer core.Device) error {
			writable, err := respec(dst, func(s *core.Spec) { s.Flags = 0 })
			return use(writable, err)(func(dst *core.Tensor) error { return d.CopyPeer(ctx, s, dst, src, peer) })
		}}},
	{"a semaphore shrinks without a word", "semaphore/only-grows", "Signal(4) after 5: error <nil>",
		hooks{semaphore: semaphoreHooks{signal: func(m core.Semaphore, s core.Stream, v uint64) error {
			if old, err := m.Value(); err == nil && v <= old {
				return nil
			}
			return m.Signal(s, v)
		}}}},
	{"nobody waits for a semaphore", "semaphore/orders-streams", "work that waits for 2",
		hooks{semaphore: semaphoreHooks{waitOn: func(m core.Semaphore, s core.Stream, v uint64) error {
			_, err := m.Value()
			return err
		}}}},
	{"a semaphore swallows ctx", "semaphore/context", "did not return",
		hooks{semaphore: semaphoreHooks{wait: func(m core.Semaphore, _ context.Context, v uint64) error { return m.Wait(deaf(), v) }}}},
	{"a semaphore is closed once only", "semaphore/close", "Close number 2",
		hooks{semaphore: semaphoreHooks{close: func(m core.Semaphore) error {
			if _, err := m.Value(); err != nil {
				return err
			}
			return m.Close()
		}}}},
}

func imports(hook func(*device, uintptr, int64, core.Owner) (core.Memory, error)) hooks {
	return hooks{importPointer: hook}
}

var mapsAll = hooks{canMap: func(*device, core.Memory) error { return nil }}

func forgetOffset(_ *core.Buffer, m *core.Memory) { m.Offset = 0 }

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
	m, err := asBuffer(units, func(wide *core.Buffer) (core.Memory, error) { return d.MapHost(ctx, wide) })
	m.Offset, m.Size = before, part.Size
	return m, err
}

// Where the alignment does not suit, the suite lets a device map whole units.
func TestSuiteAllowsWholeUnitsToBeMapped(t *testing.T) {
	cases := casesNamed(t, "map-host/no-copy", "map-host/reference", "map-host/alignment")
	wantPass(t, cases, opens(t, hooks{mapHost: mapUnits}, outer))
}
