package triton

import (
	"context"
	"maps"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/live"
)

const (
	smallestSlot = 4 << 10  // a page, the unit in which memory is allocated
	usualRegion  = 64 << 20 // a region has as many slots as fit into this, from one to mostSlots
	mostSlots    = 16
	// goodbye bounds the time to take regions away from the server when nobody waits for it.
	goodbye = 5 * time.Second
	// grace is how long an abandoned region stays registered: some servers do not check whether a request still uses a
	// region that is taken away.
	grace = time.Minute
)

var liveRegions = live.NewCounter("triton.Region")

// class is what the slots of a region have in common.
type class struct {
	device core.Device // of memory of CUDA; nil: memory of the host
	size   int64       // of a slot
}

// region is memory that the server opens, with slots of one size.
type region struct {
	pool  *pool
	class class
	name  string // with the server
	base  uintptr
	slots int64
	file  *file      // memory of the host
	card  *cardBlock // memory of CUDA

	// turn holds a value while nobody changes registered.
	turn       chan struct{}
	registered bool

	// Below: guarded by pool.mu.
	free      []int64 // slots that nobody uses
	reserved  []int64 // how many bytes of each slot are allocated
	used      int64
	abandoned time.Time // since when the server may write to a slot that nobody waits for; zero: it does not
	removed   bool      // taken out of the pool: no slot is handed out
}

// slot is a part of a region that a tensor uses. Its owner calls Free once.
type slot struct {
	region *region
	index  int64
	size   int64 // bytes that can be used
}

var _ core.Owner = (*slot)(nil)

func (s *slot) offset() int64    { return s.index * s.region.class.size }
func (s *slot) address() uintptr { return s.region.base + uintptr(s.offset()) }
func (s *slot) at(size int64) *place {
	return &place{region: s.region.name, offset: s.offset(), size: size}
}

// pool owns the regions of a client.
type pool struct {
	folder string
	limit  int64 // of the sum of the sizes of all regions
	server transport

	background sync.WaitGroup // removals of regions

	mu      sync.Mutex
	regions map[class][]*region  // whose slots are handed out
	all     map[*region]struct{} // also those with slots that are still in use
	sum     int64                // of the sizes of regions
	closed  bool
}

func newPool(folder string, limit int64, server transport) *pool {
	return &pool{folder: folder, limit: limit, server: server, regions: make(map[class][]*region), all: make(map[*region]struct{})}
}

// classFor returns the class for size bytes, which is positive.
func classFor(d core.Device, size int64) class {
	least := int64(smallestSlot)
	if d != nil {
		least = cardUnit
	}
	if size <= least {
		return class{d, least}
	}
	return class{d, 1 << bits.Len64(uint64(size-1))}
}

// get returns a slot for size bytes on d, or in memory of the host if d is nil. The caller owns it. ctx bounds what memory of
// CUDA takes.
func (p *pool) get(ctx context.Context, d core.Device, size int64) (*slot, error) {
	const call, largest = "Empty", 1 << 46
	if size <= 0 || size > largest {
		return nil, core.Errorf(core.ErrOutOfMemory, backend, call, "%d bytes do not fit into a region", size)
	}
	k := classFor(d, size)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, core.Errorf(core.ErrClosed, backend, call, "the client was closed")
	}
	p.reap(time.Now())
	for _, r := range p.regions[k] {
		if len(r.free) > 0 {
			return r.take(size)
		}
	}
	slots := int64(1)
	if d == nil {
		slots = min(max(usualRegion/k.size, 1), mostSlots)
	}
	if p.sum+k.size*slots > p.limit {
		slots = 1
	}
	if p.sum+k.size*slots > p.limit {
		p.trim()
	}
	if p.sum+k.size*slots > p.limit {
		return nil, core.Errorf(core.ErrOutOfMemory, backend, call,
			"%d bytes more than the %d of all regions are above Options.PoolLimit, which is %d: close tensors, or raise it", k.size*slots, p.sum, p.limit)
	}
	r, err := p.newRegion(ctx, k, slots)
	if err != nil {
		return nil, err
	}
	return r.take(size)
}

// newRegion makes a region and adds it to the pool, whose mutex the caller holds.
func (p *pool) newRegion(ctx context.Context, k class, slots int64) (*region, error) {
	r := &region{pool: p, class: k, slots: slots, turn: make(chan struct{}, 1), reserved: make([]int64, slots)}
	r.turn <- struct{}{}
	if k.device != nil {
		card, err := newCardBlock(ctx, k.device, k.size)
		if err != nil {
			return nil, err
		}
		r.card, r.name, r.base = card, card.name, card.address
	} else {
		f, err := newFile(p.folder, k.size*slots)
		if err != nil {
			return nil, err
		}
		r.file, r.name, r.base = f, f.name(), f.base()
	}
	for i := slots - 1; i >= 0; i-- {
		r.free = append(r.free, i)
	}
	p.regions[k] = append(p.regions[k], r)
	p.all[r] = struct{}{}
	p.sum += r.size()
	liveRegions.Add(1)
	return r, nil
}

func (r *region) size() int64 { return r.class.size * r.slots }

// take hands out a free slot. The caller holds pool.mu.
func (r *region) take(size int64) (*slot, error) {
	last := len(r.free) - 1
	i := r.free[last]
	pages := (size + smallestSlot - 1) / smallestSlot * smallestSlot
	if r.file != nil && r.reserved[i] < pages {
		if err := r.file.reserve(i*r.class.size, pages); err != nil {
			r.removeIfUnused()
			return nil, err
		}
		r.reserved[i] = pages
	}
	r.free = r.free[:last]
	r.used++
	room := r.class.size
	if r.file != nil {
		room = r.reserved[i]
	}
	return &slot{region: r, index: i, size: room}, nil
}

// Free returns the slot to the pool.
func (s *slot) Free() {
	r, p := s.region, s.region.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	r.used--
	r.free = append(r.free, s.index)
	if p.closed {
		r.removeIfUnused()
	}
}

// abandon keeps the region of the slot from being used again, because the server may still use the slot. The caller still
// owns the slot.
func (s *slot) abandon() {
	p := s.region.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.region.abandoned = time.Now()
	p.drop(s.region)
}

// drop takes a region out of the pool, so that no slot of it is handed out. The caller holds mu.
func (p *pool) drop(r *region) {
	if r.removed {
		return
	}
	r.removed = true
	list := p.regions[r.class]
	for i := range list {
		if list[i] == r {
			p.regions[r.class] = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(p.regions[r.class]) == 0 {
		delete(p.regions, r.class)
	}
	p.sum -= r.size()
}

// removeIfUnused removes a region that no tensor uses. The caller holds pool.mu. The server is told in the background, because
// Free must not block; Close of the client waits for that.
func (r *region) removeIfUnused() {
	if r.used > 0 {
		return
	}
	r.pool.drop(r)
	delete(r.pool.all, r)
	if r.pool.closed { // Close has told the server
		r.release()
		return
	}
	r.pool.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), goodbye)
		defer cancel()
		r.unregister(ctx)
		r.release()
	})
}

// trim removes the regions that no tensor uses. The caller holds mu.
func (p *pool) trim() {
	for _, r := range slices.Collect(maps.Keys(p.all)) {
		if r.abandoned.IsZero() {
			r.removeIfUnused()
		}
	}
}

// reap removes the regions that no tensor uses and that were abandoned long ago. The caller holds mu.
func (p *pool) reap(now time.Time) {
	for r := range p.all {
		if !r.abandoned.IsZero() && now.Sub(r.abandoned) > grace {
			r.removeIfUnused()
		}
	}
}

// release frees the memory and the name of a region.
func (r *region) release() {
	if r.file != nil {
		r.file.unlink()
		r.file.close()
	} else {
		r.card.close(!r.registered)
	}
	liveRegions.Add(-1)
}

// hold waits for the turn to change registered. On success the caller calls yield.
func (r *region) hold(ctx context.Context) error {
	select {
	case <-r.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *region) yield() { r.turn <- struct{}{} }

// ensure registers the region with the server, unless it is.
func (r *region) ensure(ctx context.Context) error {
	if err := r.hold(ctx); err != nil {
		return err
	}
	defer r.yield()
	if r.registered {
		return nil
	}
	if err := r.pool.server.register(ctx, r.card != nil, r.registration()); err != nil {
		return err
	}
	r.registered = true
	return nil
}

func (r *region) registration() registration {
	if r.card != nil {
		return registration{name: r.name, size: r.card.size, handle: r.card.handle, device: r.card.number}
	}
	return registration{name: r.name, size: r.size(), key: "/" + r.name}
}

// lost asks the server whether it has the region. If it has not, as after a restart, lost registers the region again and
// reports true.
func (r *region) lost(ctx context.Context) (bool, error) {
	if err := r.hold(ctx); err != nil {
		return false, err
	}
	here, err := !r.registered, error(nil) // the server cannot lose what it was not given
	if r.registered {
		here, err = r.pool.server.registered(ctx, r.card != nil, r.name)
		r.registered = here || err != nil
	}
	r.yield()
	if err != nil || here {
		return false, err
	}
	return true, r.ensure(ctx)
}

// unregister takes the region away from the server, if it has it. An error means that the server may still have it open.
func (r *region) unregister(ctx context.Context) {
	if r.hold(ctx) != nil {
		return
	}
	defer r.yield()
	if r.registered && r.pool.server.unregister(ctx, r.card != nil, r.name) == nil {
		r.registered = false
	}
}

// find returns the region that has the bytes from address on, the offset in it, and nil if no region has them.
func (p *pool) find(d core.Device, address uintptr, size int64) (*region, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for r := range p.all { // an abandoned region may still have tensors of the program
		if offset := int64(address - r.base); r.class.device == d && address >= r.base && offset <= r.size() && size <= r.size()-offset {
			return r, offset
		}
	}
	return nil, 0
}

// close takes all regions away from the server and removes their names. The memory of slots that are still in use stays
// until they are freed. No call of the client runs any more.
func (p *pool) close(ctx context.Context) {
	p.mu.Lock()
	p.closed = true
	all := slices.Collect(maps.Keys(p.all))
	for _, r := range all {
		r.used++ // so that a slot that is freed meanwhile does not release the region
	}
	p.mu.Unlock()
	p.background.Wait()
	for _, r := range all {
		r.unregister(ctx)
		if r.file != nil {
			r.file.unlink()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range all {
		r.used--
		r.removeIfUnused()
	}
}

// lost asks the server for all regions, and reports whether it has lost some. It registers them again.
func (p *pool) lost(ctx context.Context) bool {
	p.mu.Lock()
	all := slices.Collect(maps.Keys(p.all))
	p.mu.Unlock()
	some := false
	for _, r := range all {
		if gone, err := r.lost(ctx); err == nil && gone {
			some = true
		}
	}
	return some
}
