package cpu

import (
	"slices"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/core"
)

const (
	// spanBytes is the size of a mapping that blocks of a class share. Its pages cost
	// nothing before they are touched.
	spanBytes = 256 << 10
	// maxShared is the largest block that shares its mapping with others: large
	// enough that the mappings above it waste little of their last page.
	maxShared = 32 << 10
)

// pool allocates blocks by size class and keeps freed ones for reuse. The mutex of its device guards it.
//
// InUse of its stats includes exportable memory. Parts of a span that were never allocated are only address
// space, and are not counted.
type pool struct {
	*blockpool.Ledger
	classes [numClasses]class
}

// class is the state of one size class.
type class struct {
	free  []block // in the order of release: the last one is reused first, since it may still be in the processor's caches
	fresh *span   // a span with blocks that were never used; nil if there is none
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
	used  int64 // bytes from the start that were ever allocated
	inUse int   // allocated blocks
}

// take allocates a block of at least size bytes.
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
	p.Charge(classSize(c), size)
	return b, nil
}

// pick finds a block in the cache, else in the class's fresh span, else in a new span.
func (p *pool) pick(class int) (block, error) {
	c, bytes := &p.classes[class], classSize(class)
	if last := len(c.free) - 1; last >= 0 {
		b := c.free[last]
		c.free = c.free[:last]
		p.Stats.Cached -= bytes
		p.Stats.Hits++
		return b, nil
	}
	if err := p.MakeRoom(bytes); err != nil {
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

// mapSpan maps memory for blocks of the given size. If the system has none left, it frees the cache and tries
// again.
func (p *pool) mapSpan(bytes int64) (mapping, error) {
	if bytes <= maxShared {
		bytes = spanBytes / bytes * bytes
	}
	m, err := newMapping(bytes)
	if err != nil && p.Stats.Cached > 0 {
		p.Trim()
		m, err = newMapping(bytes)
	}
	return m, err
}

// put frees a block, of which size bytes were asked for.
func (p *pool) put(b block, size int64) {
	bytes := classSize(b.span.class)
	b.span.inUse--
	p.Charge(-bytes, -size)
	c := &p.classes[b.span.class]
	c.free = append(c.free, b)
	p.Stats.Cached += bytes
	p.KeepLimit()
}

// shrink returns at least want bytes of cached memory to the system, if that many lie in spans without blocks
// in use. The largest blocks are freed first, and among these the blocks that were freed earliest.
func (p *pool) shrink(want int64) {
	for i := numClasses - 1; i >= 0 && want > 0; i-- {
		c, bytes := &p.classes[i], classSize(i)
		c.free = slices.DeleteFunc(c.free, func(b block) bool {
			if b.span.open() && b.span.inUse == 0 && want > 0 {
				b.span.unmap()
				if c.fresh == b.span {
					c.fresh = nil
				}
			}
			if b.span.open() { // otherwise it was unmapped with another block of its span
				return false
			}
			p.Stats.Cached -= bytes
			want -= bytes
			return true
		})
	}
}
