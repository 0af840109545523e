//go:build opencl && linux && cgo

package opencl

import (
	"math/bits"

	"github.com/dlx-go/dlx/core"
)

// class is what blocks must have in common to stand in for each other.
type class struct {
	size int64 // bytes of the cl_mem
	host bool  // in memory that the host uses in place
}

// classFor rounds a size up to a multiple of 256 bytes or, where that is more, of
// an eighth to a sixteenth of the size.
func classFor(size int64, host bool) class {
	unit := max(int64(1)<<max(bits.Len64(uint64(size-1))-4, 0), leastAlignment)
	return class{(size + unit - 1) / unit * unit, host}
}

// pool keeps blocks that were freed, by class. It is guarded by the mutex of its
// device. InUse + Cached of its stats stays within Limit.
type pool struct {
	make    func(class) (block, error)
	destroy func(block)

	stats core.PoolStats
	free  map[class][]block // the one freed last at the end
}

// take hands out a block of a class, for size bytes.
func (p *pool) take(c class, size int64) (block, error) {
	b, err := p.pick(c)
	if err == nil {
		p.charge(c.size, size)
	}
	return b, err
}

func (p *pool) pick(c class) (block, error) {
	if free := p.free[c]; len(free) > 0 {
		b := free[len(free)-1]
		p.free[c] = free[:len(free)-1]
		p.stats.Cached -= c.size
		p.stats.Hits++
		return b, nil
	}
	if err := p.makeRoom(c.size); err != nil {
		return block{}, err
	}
	b, err := p.make(c)
	if err != nil && p.stats.Cached > 0 {
		p.trim()
		b, err = p.make(c)
	}
	return b, err
}

// put takes a block back, of which size bytes had been asked for.
func (p *pool) put(b block, size int64) {
	p.charge(-b.class.size, -size)
	if p.free == nil {
		p.free = make(map[class][]block)
	}
	p.free[b.class] = append(p.free[b.class], b)
	p.stats.Cached += b.class.size
	p.keepLimit()
}

// charge records that bytes more are in use, of which requested were asked for.
func (p *pool) charge(bytes, requested int64) {
	p.stats.InUse += bytes
	p.stats.Requested += requested
	p.stats.Peak = max(p.stats.Peak, p.stats.InUse)
}

// makeRoom sees to it that so many bytes more stay within the limit.
func (p *pool) makeRoom(bytes int64) error {
	s := &p.stats
	if s.Limit <= 0 {
		return nil
	}
	if bytes > s.Limit-s.InUse {
		return errorf(core.ErrOutOfMemory, "Alloc",
			"%d bytes are needed, but %d are in use of the pool's limit of %d: close tensors or raise the limit", bytes, s.InUse, s.Limit)
	}
	p.shrink(s.InUse + s.Cached + bytes - s.Limit)
	return nil
}

// keepLimit gives back what the cache holds beyond the limit.
func (p *pool) keepLimit() {
	if p.stats.Limit > 0 {
		p.shrink(p.stats.InUse + p.stats.Cached - p.stats.Limit)
	}
}

// shrink gives at least want bytes of the cache back to the driver, if it has so
// many: of each class the ones that were freed longest ago.
func (p *pool) shrink(want int64) {
	for c, free := range p.free {
		for ; want > 0 && len(free) > 0; free = free[1:] {
			p.destroy(free[0])
			p.stats.Cached -= c.size
			want -= c.size
		}
		p.free[c] = free
	}
}

// trim empties the cache.
func (p *pool) trim() {
	p.shrink(p.stats.Cached)
	clear(p.free)
}

// PoolStats counts in Allocs all calls of Alloc whose options this device has.
func (d *device) PoolStats() core.PoolStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pool.stats
}

// SetPoolLimit gives cached memory beyond the limit back at once. A negative limit is none.
func (d *device) SetPoolLimit(limit int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool.stats.Limit = max(limit, 0)
	d.pool.keepLimit()
}

func (d *device) TrimPool() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool.trim()
}
