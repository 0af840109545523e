package coretest

import (
	"context"
	"math/bits"
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
	cached map[int64][][]byte // by size class
	used   map[*byte]int64    // blocks that are handed out, with the size asked for
	stats  core.PoolStats
}

// memory owns what the device hands out.
type memory struct {
	device  *Device
	release func()
	freed   atomic.Bool
}

var _ core.OrderedOwner = (*memory)(nil)

// own wraps address and size as memory of the device.
func (d *Device) own(address uintptr, size int64, release func()) core.Memory {
	liveMemories.Add(1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.memories++
	return core.Memory{
		ID: d.id, Device: d, Handle: address | deviceBit, Size: size,
		Owner: &memory{device: d, release: release},
	}
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

// FreeAfter frees the memory once all of pending are done, without hurrying them.
func (m *memory) FreeAfter(pending []core.Event) {
	m.device.backend.scheduler.whenDone(pending, m.Free)
}

// Alloc returns memory full of rubbish.
func (d *Device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	fail := func(sentinel error, format string, args ...any) (core.Memory, error) {
		return core.Memory{}, core.Errorf(sentinel, name, "Alloc", format, args...)
	}
	if err := d.call("Alloc"); err != nil {
		return core.Memory{}, err
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
	}
	block := d.take(size)
	if block == nil {
		return fail(core.ErrOutOfMemory, "%d bytes would pass the limit of the pool", size)
	}
	fill(block, poisonFresh)
	address := uintptr(unsafe.Pointer(&block[0]))
	return d.own(address, size, func() { d.give(block) }), nil
}

// take finds or makes a block, nil if the limit forbids it.
func (d *Device) take(size int64) []byte {
	class := int64(alignment)
	if size > class {
		class = 1 << bits.Len64(uint64(size-1))
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	p, s := &d.pool, &d.pool.stats
	s.Allocs++
	var block []byte
	if free := p.cached[class]; len(free) > 0 {
		block, p.cached[class] = free[len(free)-1], free[:len(free)-1]
		s.Hits++
		s.Cached -= class
	} else {
		if s.Limit > 0 && s.InUse+s.Cached+class > s.Limit {
			p.trim()
		}
		if s.Limit > 0 && s.InUse+class > s.Limit {
			s.Failures++
			return nil
		}
		block = aligned(class)
	}
	if p.used == nil {
		p.used, p.cached = make(map[*byte]int64), make(map[int64][][]byte)
	}
	p.used[&block[0]] = size
	s.InUse += class
	s.Requested += size
	s.Peak = max(s.Peak, s.InUse)
	return block
}

// give takes a block back.
func (d *Device) give(block []byte) {
	fill(block, poisonFreed)
	class := int64(len(block))
	d.mu.Lock()
	defer d.mu.Unlock()
	p, s := &d.pool, &d.pool.stats
	s.Requested -= p.used[&block[0]]
	s.InUse -= class
	s.Cached += class
	delete(p.used, &block[0])
	p.cached[class] = append(p.cached[class], block)
	p.keepLimit()
}

// keepLimit drops what is cached if the pool is over its limit.
func (p *pool) keepLimit() {
	if s := p.stats; s.Limit > 0 && s.InUse+s.Cached > s.Limit {
		p.trim()
	}
}

func (p *pool) trim() {
	clear(p.cached)
	p.stats.Cached = 0
}

// aligned makes a block of so many bytes.
func aligned(size int64) []byte {
	b := make([]byte, size+alignment)
	skip := -uintptr(unsafe.Pointer(&b[0])) & (alignment - 1)
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
	d.pool.keepLimit()
}

// TrimPool drops what is cached.
func (d *Device) TrimPool() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool.trim()
}

// ImportPointer wraps a part of memory that the device has allocated.
func (d *Device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	if err := d.call("ImportPointer"); err != nil {
		return core.Memory{}, err
	}
	if size < 0 || !d.holds(p, size) {
		return core.Memory{}, core.Errorf(core.ErrInvalid, name, "ImportPointer", "%d bytes at %#x are not within an allocation of %v", size, p, d.id)
	}
	return d.own(p, size, core.Memory{Owner: owner}.Free), nil
}

// holds reports whether a range of addresses lies within a block that is handed out.
func (d *Device) holds(p uintptr, size int64) bool {
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

// HostAlignment is what MapHost asks of address and size.
func (d *Device) HostAlignment() int64 { return 64 }

// MapHost makes host memory usable under an address of the device.
func (d *Device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	if err := d.call("MapHost"); err != nil {
		return core.Memory{}, err
	}
	if host == nil {
		return core.Memory{}, core.Errorf(core.ErrInvalid, name, "MapHost", "host is nil")
	}
	m := host.Memory()
	address := m.Handle + uintptr(m.Offset)
	if a := d.HostAlignment(); !m.ID.Type.HostAccessible() || m.Size == core.UnknownSize || address%uintptr(a) != 0 || m.Size%a != 0 {
		return core.Memory{}, core.Errorf(core.ErrInvalid, name, "MapHost", "%d bytes at %#x on %v: address and size must be known multiples of %d on the host", m.Size, address, m.ID, a)
	}
	if err := host.Retain(); err != nil {
		return core.Memory{}, err
	}
	return d.own(address, m.Size, host.Release), nil
}
