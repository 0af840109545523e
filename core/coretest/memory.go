package coretest

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

var liveMemories = live.NewCounter("coretest.Memory")

// The bytes that memory is filled with when it is allocated and when it is freed. They are
// unlikely as results of any element type.
const (
	poisonFresh = 0xa5
	poisonFreed = 0xde
)

const (
	alignment = 256     // bytes
	largest   = 1 << 40 // bytes of the largest allocation
)

// pool reuses freed blocks, the one that was freed last first. The device's mutex guards it.
type pool struct {
	cached map[kind][]block
	rest   map[kind]block    // the part of the newest opaque object that is not used yet
	made   map[uintptr]int64 // bytes of each opaque object that are not dropped, by handle
	used   map[*byte]int64   // blocks in use, with the requested size
	stats  core.PoolStats
}

// kind is a kind of blocks. A block can be reused for a request of the same kind.
type kind struct {
	class   int64 // bytes
	visible bool  // the block is accessible to the host; only for opaque devices
}

// block is memory with its handle and offset on the device.
type block struct {
	bytes  []byte
	kind   kind
	handle uintptr
	offset int64
}

// memory is the Owner of an allocation.
type memory struct {
	device  *Device
	release func()
	freed   atomic.Bool
}

var _ backendkit.OrderedOwner = (*memory)(nil)

// own returns memory of the device with the given handle, offset and size. It is freed by a
// call of release.
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

// Free frees the memory. It panics if the memory was already freed, so that no test can hide
// that bug.
func (m *memory) Free() {
	if m.freed.Swap(true) {
		panic("coretest: memory was freed twice")
	}
	m.release()
	m.device.forget(&m.device.memories)
	liveMemories.Add(-1)
}

// FreeAfter frees the memory when all of pending are done. It does not make work run sooner;
// Close of the device does.
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

// releasing is memory that was released while work still used it.
type releasing struct {
	pending []core.Event
	freed   chan struct{} // closed when the memory was freed
}

// finishReleased waits until all released memory is freed, if nothing else is open.
func (d *Device) finishReleased() {
	d.mu.Lock()
	var released []releasing
	if d.streams == 0 && d.memories <= len(d.released) {
		released = slices.Collect(maps.Values(d.released))
	}
	d.mu.Unlock()
	for _, r := range released {
		for _, e := range r.pending {
			_ = e.Wait(context.Background()) // the stream reports the error
		}
		<-r.freed
	}
}

// Alloc returns memory that is filled with a pattern.
func (d *Device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if d.Properties().Capabilities.Has(core.CapExportMemory) && opts.Export == core.HandleOpaqueFD {
		return d.allocExport(size, opts)
	}
	if err := d.checkAlloc(size, opts); err != nil {
		return core.Memory{}, err
	}
	b, ok := d.take(size, opts.HostVisible)
	if !ok {
		return core.Memory{}, d.backend.errorf(core.ErrOutOfMemory, "Alloc", "%d bytes would exceed the limit of the pool", size)
	}
	fill(b.bytes, poisonFresh)
	return d.own(b.handle, b.offset, size, func() { d.give(b) }), nil
}

// checkAlloc returns the error of an allocation that is not for export, except for the limit
// of the pool.
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
		return fail(core.ErrNotSupported, "the device has no memory of type %v", opts.Type)
	case opts.Export != 0:
		return fail(core.ErrNotSupported, "memory cannot be exported as %v", opts.Export)
	case opts.HostVisible && !d.backend.options.Opaque:
		return fail(core.ErrNotSupported, "memory cannot be made accessible to the host")
	}
	return nil
}

// take returns a block from the cache or a new one. It returns false if the pool has reached
// its limit.
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

// give puts a freed block into the cache.
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

// keepLimit drops the cached blocks if the pool exceeds its limit. d.mu is held.
func (d *Device) keepLimit() {
	if s := d.pool.stats; s.Limit > 0 && s.InUse+s.Cached > s.Limit {
		d.trim()
	}
}

// trim drops the cached blocks, and the opaque objects all of whose blocks are dropped. d.mu
// is held.
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

// aligned returns size bytes at a multiple of alignment.
func aligned(size int64) []byte {
	b := make([]byte, size+alignment)
	skip := -addressOf(b) & (alignment - 1)
	return b[skip:][:size:size]
}

// fill sets all bytes of b, which is not empty, to value.
func fill(b []byte, value byte) {
	b[0] = value
	for done := 1; done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}

// PoolStats returns the statistics of the pool.
func (d *Device) PoolStats() core.PoolStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pool.stats
}

// SetPoolLimit sets the limit of the pool in bytes.
func (d *Device) SetPoolLimit(limit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool.stats.Limit = limit
	d.keepLimit()
}

// TrimPool drops the cached blocks.
func (d *Device) TrimPool() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trim()
}

// ImportPointer wraps a part of an allocation of the device.
func (d *Device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	if err := d.call("ImportPointer"); err != nil {
		return core.Memory{}, err
	}
	if size < 0 || size > 0 && !d.holds(p, size) {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "ImportPointer", "%d bytes at %#x are not within an allocation of %v", size, p, d.id)
	}
	return d.own(p, 0, size, core.Memory{Owner: owner}.Free), nil
}

// holds reports whether the size bytes at p lie within a block in use or, for an opaque
// device, whether p is the handle of an object of at least size bytes.
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

// HostAlignment returns 64; MapHost does not accept memory with another alignment. With
// Options.Opaque it returns the size of a page, and MapHost maps all pages that the memory
// touches.
func (d *Device) HostAlignment() int64 {
	if d.backend.options.Opaque {
		return page
	}
	return 64
}

// MapHost maps host memory at an address of the device or, with Options.Opaque, as an object
// of the pages that host touches.
func (d *Device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	if err := d.call("MapHost"); err != nil {
		return core.Memory{}, err
	}
	if host == nil {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "MapHost", "host is nil")
	}
	m := host.Memory()
	if err := d.CanMap(m); err != nil {
		return core.Memory{}, err
	}
	if d.backend.options.Opaque {
		return d.mapPages(host)
	}
	address := m.Handle + uintptr(m.Offset)
	if a := d.HostAlignment(); !m.ID.Type.HostAccessible() || m.Size == core.UnknownSize || address%uintptr(a) != 0 || m.Size%a != 0 {
		return core.Memory{}, d.backend.errorf(core.ErrInvalid, "MapHost", "%d bytes at %#x on %v: address and size must be known multiples of %d on the host", m.Size, address, m.ID, a)
	}
	if err := host.Retain(); err != nil {
		return core.Memory{}, err
	}
	mapped := d.own(address|deviceBit, 0, m.Size, host.Release)
	mapped.Host, mapped.Origin = address, m.OriginType()
	return mapped, nil
}

// CanMap refuses memory that the host cannot access, and memory that is marked as read-only.
func (d *Device) CanMap(host core.Memory) error {
	p := d.Properties()
	if err := p.Require(core.CapMapHost, "MapHost"); err != nil {
		return err
	}
	switch {
	case !host.ID.Type.HostAccessible():
		return d.backend.errorf(core.ErrInvalid, "MapHost", "the host cannot access memory on %v", host.ID)
	case host.ReadOnly:
		return d.backend.errorf(core.ErrReadOnly, "MapHost", "the device maps only memory that the host can write")
	}
	return nil
}
