//go:build vulkan && linux && cgo

package vulkan

import (
	"slices"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
)

const (
	// alignment is that of every allocation: what dlpack.h asks for, and a multiple of what
	// any device wants of storage buffers (the limit minStorageBufferOffsetAlignment is at most 256).
	alignment = 256
	// blockSize is the size of a block for small allocations. Drivers may allow no more
	// than 4096 allocations (maxMemoryAllocationCount).
	blockSize = 16 << 20
	// largeSize is the size from which an allocation gets a block of its own.
	largeSize = blockSize / 4
)

// pool allocates parts of blocks of one kind of memory. The mutex of its device guards it. The device's
// ledger counts a block as cached if nothing of it is in use. The free rest of a block that is in use is not
// counted.
type pool struct {
	device *device
	kind   kind
	blocks []*block
}

// block is an object of which a pool allocates parts.
type block struct {
	*object
	handle uintptr
	large  bool   // for one allocation
	used   int64  // bytes in use
	free   []span // by offset; neighbours are merged
}

// span is a range of bytes of a block.
type span struct{ offset, size int64 }

// part is an allocated range of a block.
type part struct {
	block *block
	span
}

// take allocates size bytes from the first block that has room.
func (p *pool) take(size int64) (part, error) {
	d, want := p.device, roundUp(size, alignment)
	large := want >= largeSize
	if large {
		// One block serves sizes that differ little, unless a VkBuffer cannot be so large.
		most := d.physical.MaxBuffer / alignment * alignment
		want = max(min(blockpool.RoundUp(want, alignment), most), roundUp(size, 4))
	}
	if err := d.CheckLimit(want); err != nil {
		return part{}, err
	}
	for _, b := range p.blocks {
		if large != b.large || large && b.size != want {
			continue
		}
		if s, ok := b.cut(want); ok {
			d.Stats.Hits++
			return p.hand(s, size), nil
		}
	}
	b, err := p.grow(want, large)
	if err != nil {
		return part{}, err
	}
	s, _ := b.cut(want)
	return p.hand(s, size), nil
}

// hand counts a part that was cut off, of which size bytes were asked for.
func (p *pool) hand(s part, size int64) part {
	d := p.device
	if s.block.used == s.size { // nothing was in use before
		d.Stats.Cached -= s.block.size
	}
	d.Charge(s.size, size)
	d.KeepLimit()
	return s
}

// grow adds a block. If the driver is out of memory, the caches are emptied first.
func (p *pool) grow(want int64, large bool) (*block, error) {
	d := p.device
	size := want
	if !large {
		size = blockSize
		if limit := d.Stats.Limit; limit > 0 {
			size = max(min(size, (limit-d.Stats.InUse)/alignment*alignment), want)
		}
	}
	if err := d.MakeRoom(size); err != nil {
		return nil, err
	}
	o, err := d.newObject(request{size: size, kind: p.kind})
	if err != nil && d.Stats.Cached > 0 {
		d.Trim()
		o, err = d.newObject(request{size: size, kind: p.kind})
	}
	if err != nil {
		return nil, err
	}
	b := &block{object: o, handle: d.publish(o), large: large, free: []span{{0, size}}}
	p.blocks = append(p.blocks, b)
	d.Stats.Cached += size
	return b, nil
}

// cut allocates want bytes of the block.
func (b *block) cut(want int64) (part, bool) {
	i := slices.IndexFunc(b.free, func(s span) bool { return s.size >= want })
	if i < 0 {
		return part{}, false
	}
	s := span{b.free[i].offset, want}
	b.free[i].offset += want
	b.free[i].size -= want
	if b.free[i].size == 0 {
		b.free = slices.Delete(b.free, i, i+1)
	}
	b.used += want
	return part{b, s}, true
}

// put frees a part, of which size bytes were asked for.
func (p *pool) put(s part, size int64) {
	b := s.block
	i, _ := slices.BinarySearchFunc(b.free, s.offset, func(f span, offset int64) int { return int(min(max(f.offset-offset, -1), 1)) })
	b.free = slices.Insert(b.free, i, s.span)
	if i+1 < len(b.free) && s.offset+s.size == b.free[i+1].offset {
		b.free[i].size += b.free[i+1].size
		b.free = slices.Delete(b.free, i+1, i+2)
	}
	if i > 0 && b.free[i-1].offset+b.free[i-1].size == b.free[i].offset {
		b.free[i-1].size += b.free[i].size
		b.free = slices.Delete(b.free, i, i+1)
	}
	b.used -= s.size
	d := p.device
	d.Charge(-s.size, -size)
	if b.used == 0 {
		d.Stats.Cached += b.size
		d.KeepLimit()
	}
}

// shrink destroys blocks that are not in use, until it has freed at least want bytes or there are none.
func (d *device) shrink(want int64) {
	for _, p := range d.pools() {
		p.blocks = slices.DeleteFunc(p.blocks, func(b *block) bool {
			if want <= 0 || b.used > 0 {
				return false
			}
			want -= b.size
			d.Stats.Cached -= b.size
			d.Destroy(b.object)
			return true
		})
	}
}

// pools lists the pools: only one if plain memory is visible to the host.
func (d *device) pools() []*pool {
	if d.visible == d.plain {
		return []*pool{d.plain}
	}
	return []*pool{d.plain, d.visible}
}
