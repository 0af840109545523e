package coretest

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/core"
)

var liveMemories = core.NewLiveCounter("coretest.Memory")

// What memory holds that nobody wrote to, and that nobody may read any more. As
// numbers of any type they are unlikely results.
const (
	poisonFresh = 0xa5
	poisonFreed = 0xde
)

const (
	alignment = 256
	largest   = 1 << 40 // bytes of an allocation
)

// pool hands freed blocks out again, the last one first. The device's mutex guards it.
type pool struct {
	cached map[kind][]block
	rest   map[kind]block    // what opaque objects have left for new blocks
	made   map[uintptr]int64 // bytes of opaque objects that were not dropped, by handle
	used   map[*byte]int64   // blocks that are handed out, with the size asked for
	stats  core.PoolStats
}

// kind is what blocks must have in common to stand in for each other.
type kind struct {
	class   int64 // bytes
	visible bool  // to the host, of an opaque device
}

// block is memory of one kind and how the device names it.
type block struct {
	bytes  []byte
	kind   kind
	handle uintptr
	offset int64
}

// memory owns what the device hands out.
type memory struct {
	device  *Device
	release func()
	freed   atomic.Bool
}

var _ core.OrderedOwner = (*memory)(nil)

// own makes memory of the device of a handle, an offset beside it, and a size.
func (d *Device) own(handle uintptr, offset, size int64, release func()) core.Memory {
	liveMemories.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memories++
	m := core.Memory{
		ID: d.id, Device: d, Handle: handle, Offset: offset, Size: size,
		Owner: &memory{device: d, release: release},
	}
	if d.backend.options.Opaque {
		if x, ok := d.backend.objects.find(handle); ok {
			m.Host = x.address + uintptr(offset)
		}
	}
	return m
}

// Free gives the memory back. Twice is a bug that no test may hide.
func (m *memory) Free() {
	if m.freed.Swap(true) {
		panic("coretest: memory was freed twice")
	}
	m.release()
	m.device.forget(&m.device.memories)
	liveMemories.Add(-1)
}

// FreeAfter frees the memory once all of pending are done, without hurrying them. The
// device does that when it closes.
func (m *memory) FreeAfter(pending []core.Event) {
	d, freed := m.device, make(chan struct{})
	d.mu.Lock()
	if d.released == nil {
		d.released = make(map[*memory]releasing)
	}
	d.released[m] = releasing{pending, freed}
	d.mu.Unlock()
	d.backend.scheduler.whenDone(pending, func() {
		m.Free()
		d.mu.Lock()
		delete(d.released, m)
		d.mu.Unlock()
		close(freed)
	})
}

// releasing is memory that nobody has open, and that work still uses.
type releasing struct {
	pending []core.Event
	freed   chan struct{}
}

// finishReleased waits until no work uses memory that was released, if nothing else is open.
func (d *Device) finishReleased() {
	d.mu.Lock()
	var released []releasing
	if d.streams == 0 && d.memories <= len(d.released) {
		released = slices.Collect(maps.Values(d.released))
	}
	d.mu.Unlock()
	for _, r := range released {
		for _, e := range r.pending {
			_ = e.Wait(context.Background()) // over is over, and its error is its stream's to tell
		}
		<-r.freed
	}
}

// Alloc returns memory full of rubbish.
func (d *Device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if d.Properties().Capabilities.Has(core.CapExportMemory) && opts.Export == core.HandleOpaqueFD {
		return d.allocExport(size, opts)
	}
	if err := d.checkAlloc(size, opts); err != nil {
		return core.Memory{}, err
	}
	b, ok := d.take(size, opts.HostVisible)
	if !ok {
		return core.Memory{}, d.backend.errorf(core.ErrOutOfMemory, "Alloc", "%d bytes would pass the limit of the pool", size)
	}
	fill(b.bytes, poisonFresh)
	return d.own(b.handle, b.offset, size, func() { d.give(b) }), nil
}

// checkAlloc says why memory that need not be exported cannot be had.
func (d *Device) checkAlloc(size int64, opts core.AllocOptions) error {
	fail := func(sentinel error, format string, args ...any) error {
		return d.backend.errorf(sentinel, "Alloc", format, args...)
	}
	if err := d.call("Alloc"); err != nil {
		return err
	}
	switch {
	case size < 0:
		return fail(core.ErrInvalid, "size is %d bytes", size)
	case size > largest:
		return fail(core.ErrOutOfMemory, "%d bytes are more than the device has", size)
	case opts.Type != 0 && opts.Type != d.id.Type:
		return fail(core.ErrNotSupported, "there is no memory of type %v here", opts.Type)
	case opts.Export != 0:
		return fail(core.ErrNotSupported, "memory cannot be exported as %v", opts.Export)
	case opts.HostVisible && !d.backend.options.Opaque:
		return fail(core.ErrNotSupported, "memory cannot be shown to the host")
	}
	return nil
}

// take finds or makes a block; it reports false if the limit forbids it.
func (d *Device) take(size int64, visible bool) (block, bool) {
	k := kind{class: alignment, visible: visible}
	if size > k.class {
		k.class = 1 << bits.Len64(uint64(size-1))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p, s := &d.pool, &d.pool.stats
	s.Allocs++
	var b block
	if free := p.cached[k]; len(free) > 0 {
		b, p.cached[k] = free[len(free)-1], free[:len(free)-1]
		s.Hits++
		s.Cached -= k.class
	} else {
		if s.Limit > 0 && s.InUse+s.Cached+k.class > s.Limit {
			d.trim()
		}
		if s.Limit > 0 && s.InUse+k.class > s.Limit {
			s.Failures++
			return block{}, false
		}
		b = d.newBlock(k)
	}
	if p.used == nil {
		p.used, p.cached = make(map[*byte]int64), make(map[kind][]block)
	}
	p.used[&b.bytes[0]] = size
	s.InUse += k.class
	s.Requested += size
	s.Peak = max(s.Peak, s.InUse)
	return b, true
}

// newBlock makes a block. d.mu is held.
func (d *Device) newBlock(k kind) block {
	if d.backend.options.Opaque {
		return d.blockOfObject(k)
	}
	bytes := aligned(k.class)
	return block{bytes: bytes, kind: k, handle: addressOf(bytes) | deviceBit}
}

// give takes a block back.
func (d *Device) give(b block) {
	fill(b.bytes, poisonFreed)
	d.mu.Lock()
	defer d.mu.Unlock()
	p, s, start := &d.pool, &d.pool.stats, &b.bytes[0]
	s.Requested -= p.used[start]
	s.InUse -= b.kind.class
	s.Cached += b.kind.class
	delete(p.used, start)
	p.cached[b.kind] = append(p.cached[b.kind], b)
	d.keepLimit()
}

// keepLimit drops what is cached if the pool is over its limit. d.mu is held.
func (d *Device) keepLimit() {
	if s := d.pool.stats; s.Limit > 0 && s.InUse+s.Cached > s.Limit {
		d.trim()
	}
}

// trim drops what is cached, and objects of which all was dropped. d.mu is held.
func (d *Device) trim() {
	p := &d.pool
	if d.backend.options.Opaque {
		for _, blocks := range p.cached {
			for _, b := range blocks {
				d.drop(b)
			}
		}
		for _, b := range p.rest {
			d.drop(b)
		}
		clear(p.rest)
	}
	clear(p.cached)
	p.stats.Cached = 0
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// aligned makes a block of so many bytes.
func aligned(size int64) []byte {
	b := make([]byte, size+alignment)
	skip := -addressOf(b) & (alignment - 1)
	return b[skip:][:size:size]
}

// fill fills a block, which has bytes.
func fill(b []byte, value byte) {
	b[0] = value
	for done := 1; done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}

// PoolStats are the figures of the pool.
func (d *Device) PoolStats() core.PoolStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pool.stats
}

// SetPoolLimit bounds the pool.
func (d *Device) SetPoolLimit(limit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool.stats.Limit = limit
	d.keepLimit()
}

// TrimPool drops what is cached.
func (d *Device) TrimPool() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trim()
}

// ImportPointer wraps a part of memory that the device has allocated.
func (d *Device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	if err := d.call("ImportPointer"); err != nil {
		return core.Memory{}, err
	}
	if size < 0 || !d.holds(p, size) {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "ImportPointer", "%d bytes at %#x are not within an allocation of %v", size, p, d.id)
	}
	return d.own(p, 0, size, core.Memory{Owner: owner}.Free), nil
}

// holds reports whether a range of addresses lies within a block that is handed
// out; of an opaque device, whether p is an object of so many bytes.
func (d *Device) holds(p uintptr, size int64) bool {
	if d.backend.options.Opaque {
		o, ok := d.backend.objects.find(p)
		return ok && o.device == d && size <= o.size
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for start, requested := range d.pool.used {
		first := uintptr(unsafe.Pointer(start)) | deviceBit
		if p >= first && p-first <= uintptr(requested) && size <= requested-int64(p-first) {
			return true
		}
	}
	return false
}

// HostAlignment is 64: MapHost takes no other memory. With Options.Opaque it is a page,
// and MapHost maps the pages around other memory.
func (d *Device) HostAlignment() int64 {
	if d.backend.options.Opaque {
		return page
	}
	return 64
}

// MapHost makes host memory usable under an address of the device or, with
// Options.Opaque, makes an object of the pages that host touches.
func (d *Device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	if err := d.call("MapHost"); err != nil {
		return core.Memory{}, err
	}
	if host == nil {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "MapHost", "host is nil")
	}
	if d.backend.options.Opaque {
		return d.mapPages(host)
	}
	m := host.Memory()
	address := m.Handle + uintptr(m.Offset)
	if a := d.HostAlignment(); !m.ID.Type.HostAccessible() || m.Size == core.UnknownSize || address%uintptr(a) != 0 || m.Size%a != 0 {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "MapHost", "%d bytes at %#x on %v: address and size must be known multiples of %d on the host", m.Size, address, m.ID, a)
	}
	if err := host.Retain(); err != nil {
		return core.Memory{}, err
	}
	mapped := d.own(address|deviceBit, 0, m.Size, host.Release)
	mapped.Host = address
	return mapped, nil
}
