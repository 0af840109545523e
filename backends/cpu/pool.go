package cpu

import (
	"math"
	"slices"

	"github.com/dlx-go/dlx/core"
)

const (
	// spanBytes is what is mapped at once for classes that share a mapping. Its
	// pages cost nothing before they are touched.
	spanBytes = 256 << 10
	// maxShared is the largest block that shares its mapping with others: large
	// enough that the mappings above it waste little of their last page.
	maxShared = 32 << 10
)

// pool hands out blocks by size class and keeps freed ones for reuse. It is
// guarded by the mutex of its device.
//
// InUse + Cached of its stats stays within Limit. Parts of a span that were never
// handed out are address space only and do not count.
type pool struct {
	stats   core.PoolStats
	classes [numClasses]class
}

// class is the state of one size class.
type class struct {
	free  []block // the block freed last, whose cache lines are warmest, at the end
	fresh *span   // where blocks that were never used come from; nil if there are none
}

// block is memory of one size class.
type block struct {
	span *span
	addr uintptr
}

// span is a mapping that is cut into blocks of one class.
type span struct {
	mapping
	class int
	used  int64 // bytes from the start that were ever handed out
	inUse int   // blocks that are handed out
}

// take hands out a block of at least size bytes.
func (p *pool) take(size int64) (block, error) {
	if size > maxSize {
		return block{}, core.Errorf(core.ErrOutOfMemory, "cpu", "Alloc", "%d bytes were asked for; no allocation can have more than %d", size, int64(maxSize))
	}
	c := classOf(size)
	b, err := p.pick(c)
	if err != nil {
		return block{}, err
	}
	b.span.inUse++
	p.charge(classSize(c), size)
	return b, nil
}

// pick finds a block in the cache, else in the class's fresh span, else in a new one.
func (p *pool) pick(class int) (block, error) {
	c, bytes := &p.classes[class], classSize(class)
	if last := len(c.free) - 1; last >= 0 {
		b := c.free[last]
		c.free = c.free[:last]
		p.stats.Cached -= bytes
		p.stats.Hits++
		return b, nil
	}
	if err := p.makeRoom(bytes); err != nil {
		return block{}, err
	}
	if c.fresh == nil {
		m, err := p.mapSpan(bytes)
		if err != nil {
			return block{}, err
		}
		c.fresh = &span{mapping: m, class: class}
	}
	s := c.fresh
	b := block{s, s.addr + uintptr(s.used)}
	if s.used += bytes; s.used+bytes > s.size {
		c.fresh = nil
	}
	return b, nil
}

// mapSpan maps memory for blocks of the given size. If the system has none left,
// the cache is given back for another try.
func (p *pool) mapSpan(bytes int64) (mapping, error) {
	if bytes <= maxShared {
		bytes = spanBytes / bytes * bytes
	}
	m, err := newMapping(bytes)
	if err != nil && p.stats.Cached > 0 {
		p.release(math.MaxInt64)
		m, err = newMapping(bytes)
	}
	return m, err
}

// put takes a block back, of which size bytes had been asked for.
func (p *pool) put(b block, size int64) {
	bytes := classSize(b.span.class)
	b.span.inUse--
	p.charge(-bytes, -size)
	c := &p.classes[b.span.class]
	c.free = append(c.free, b)
	p.stats.Cached += bytes
	if p.stats.Limit > 0 {
		p.release(p.stats.InUse + p.stats.Cached - p.stats.Limit)
	}
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
	if s.InUse+bytes <= s.Limit {
		p.release(s.InUse + s.Cached + bytes - s.Limit)
	}
	if s.InUse+s.Cached+bytes > s.Limit {
		return core.Errorf(core.ErrOutOfMemory, "cpu", "Alloc",
			"%d bytes are needed, but %d are in use and %d cached of the pool's limit of %d: close tensors or raise the limit",
			bytes, s.InUse, s.Cached, s.Limit)
	}
	return nil
}

// setLimit sets the limit and gives back what the cache holds beyond it.
func (p *pool) setLimit(limit int64) {
	p.stats.Limit = max(limit, 0)
	if limit > 0 {
		p.release(p.stats.InUse + p.stats.Cached - limit)
	}
}

// release gives at least want bytes of cached memory back to the system, if spans
// that hold so much are idle: the largest blocks first, of those the ones that
// were freed longest ago.
func (p *pool) release(want int64) {
	for i := numClasses - 1; i >= 0 && want > 0; i-- {
		c, bytes := &p.classes[i], classSize(i)
		c.free = slices.DeleteFunc(c.free, func(b block) bool {
			if b.span.open() && b.span.inUse == 0 && want > 0 {
				b.span.unmap()
				if c.fresh == b.span {
					c.fresh = nil
				}
			}
			if b.span.open() { // else by now, or by a neighbour's turn, it is unmapped
				return false
			}
			p.stats.Cached -= bytes
			want -= bytes
			return true
		})
	}
}
