package cudalike

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/core"
)

// hostVisible is the kind of managed memory of an API for which DLPack has no such type: it is memory of the device.
const hostVisible core.DeviceType = -1

// class is what a block of the pool must have in common with the one that is asked for.
type class struct {
	kind core.DeviceType
	size int64
}

// Bytes implements [blockpool.Class].
func (c class) Bytes() int64 { return c.size }

// sized returns the class with another size.
func (c class) sized(bytes int64) class { return class{c.kind, bytes} }

// part is memory of the pool.
type part = blockpool.Part[class, block]

// block is memory that the driver allocated for the pool. Several tensors may lie in it, so it is never exported: another
// process would see them all. Memory for export is allocated by [device.allocExport].
type block struct {
	kind    core.DeviceType
	size    int64
	address uintptr
}

// orderedMemory is the owner of memory that can be released before the work on it is done.
type orderedMemory struct {
	release func(pending []core.Event)
	freed   atomic.Bool
}

var _ backendkit.OrderedOwner = (*orderedMemory)(nil)

// Free implements [core.Owner].
func (m *orderedMemory) Free() { m.FreeAfter(nil) }

// FreeAfter calls release. Another call does nothing.
func (m *orderedMemory) FreeAfter(pending []core.Event) {
	if !m.freed.Swap(true) {
		m.release(pending)
	}
}

// handOutOrdered returns m as memory of the device. When the memory is released, it calls
// release once, with the work that is unfinished and without Mu held. release must call [device.dropMemory].
func (d *device) handOutOrdered(m core.Memory, release func(pending []core.Event)) core.Memory {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.CountMemory()
	m.Device, m.Owner = d, &orderedMemory{release: release}
	return m
}

// dropMemory counts memory that was freed.
func (d *device) dropMemory() {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.DropMemory()
}

// handOutToDrain returns size bytes at address as memory of the device. When the memory is released and the work on it
// is done, it calls free and then after once, as [semaphoreWaits.afterWaits] does, without Mu held.
func (d *device) handOutToDrain(address uintptr, size int64, free, after func()) core.Memory {
	return d.handOut(core.Memory{ID: d.ID(), Handle: address, Size: size}, func() { d.backend.waits.afterWaits(free, func(bool) { after() }) })
}

// handOut returns m as memory of the device. When the memory is released and the work on it is done, it calls free once, without Mu held. free must not call the driver if that may wait for work of the device:
// see [device.handOutToDrain].
func (d *device) handOut(m core.Memory, free func()) core.Memory {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	return d.HandOut(m, nil, free)
}

// Alloc takes memory from the pool: AllocOptions.Type is the device's own type, pinned or managed memory. Where DLPack has
// no type for managed memory, memory of the device is managed if AllocOptions.HostVisible is set. The
// pool may have a block on which work is unfinished. Then AllocOptions.Stream waits for that work on the device.
// Without a stream, Alloc returns only blocks without work. Memory for export is an allocation of its own.
// Managed memory fails with ErrOutOfMemory if the device has no room for it, although the driver would swap it.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	const call = "Alloc"
	if err := d.Gate.Enter(ctx); err != nil {
		return core.Memory{}, err
	}
	id := core.DeviceID{Type: opts.Type}
	if opts.Type == 0 || opts.Type == d.backend.Device {
		id = d.ID()
	}
	var s *queue
	b := d.backend
	switch {
	case id.Type.BackendName() != b.Name():
		return core.Memory{}, d.Errorf(core.ErrNotSupported, call, "AllocOptions.Type is %v; this device has %v", opts.Type, b.memoryTypes())
	case id.Type == b.Managed && !d.managed:
		return core.Memory{}, d.Errorf(core.ErrNotSupported, call, "the device has no managed memory, or none that the host may use while the device works")
	case opts.Export != 0 && (id.Type != b.Device || !slices.Contains(d.ExportTypes(), opts.Export)):
		return core.Memory{}, d.Errorf(core.ErrNotSupported, call, "AllocOptions.Export is %v; memory of %v can be exported as %v", opts.Export, b.Device, d.ExportTypes())
	case opts.HostVisible && id.Type == b.Device && (opts.Export != 0 || !d.hostView()):
		return core.Memory{}, d.Errorf(core.ErrNotSupported, call, "AllocOptions.HostVisible: the host cannot reach memory of the card: ask for another type of %v", b.memoryTypes())
	case size < 0:
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "size is %d bytes", size)
	}
	if opts.Stream != nil {
		var err error
		if s, err = d.streamOf(call, opts.Stream); err != nil {
			return core.Memory{}, err
		}
	}
	if err := d.Hold(call); err != nil {
		return core.Memory{}, err
	}
	kind := id.Type
	if opts.HostVisible && kind == b.Device {
		kind = hostVisible
	}
	m, err := d.alloc(ctx, id, kind, size, opts.Export, s)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Calls-- // like Drop
	d.Count(err)
	return m, err
}

// memoryTypes returns the types of memory that the backend can allocate.
func (b *Backend) memoryTypes() []core.DeviceType {
	types := []core.DeviceType{b.Device, b.Host}
	if b.Managed != 0 {
		types = append(types, b.Managed)
	}
	return types
}

// alloc is Alloc with checked options.
func (d *device) alloc(ctx context.Context, id core.DeviceID, kind core.DeviceType, size int64, export core.HandleType, s *queue) (core.Memory, error) {
	switch {
	case size == 0:
		return d.handOut(core.Memory{ID: id}, nil), nil
	case size > maxAlloc:
		return core.Memory{}, d.Errorf(core.ErrOutOfMemory, "Alloc", "%d bytes were asked for, more than any device has", size)
	case export != 0:
		return d.allocExport(size, export)
	}
	p, busy, err := d.takePart(ctx, class{kind, blockpool.RoundUp(size, alignment)}, size, s)
	if err != nil {
		return core.Memory{}, err
	}
	m := core.Memory{ID: id, Handle: p.Block.address + uintptr(p.Offset), Size: size}
	if kind == hostVisible {
		m.Host = m.Handle
	}
	return d.handOutOrdered(m, func(pending []core.Event) {
		d.Mu.Lock()
		d.Put(p, size, slices.Concat(busy, pending))
		d.Mu.Unlock()
		d.dropMemory()
	}), nil
}

// maxAlloc bounds sizes, so that they can be rounded up without overflow.
const maxAlloc = 1 << 56

// takePart takes memory from the pool, on which the work busy is unfinished. If the device has no memory left,
// takePart waits for the work on free memory, and tries again.
func (d *device) takePart(ctx context.Context, c class, size int64, s *queue) (p *part, busy []core.Event, err error) {
	var accept func([]core.Event) bool
	if s != nil {
		accept = s.waitForAll
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	p, busy, err = d.Take(c, size, accept)
	if err != nil && d.Await(ctx) {
		p, busy, err = d.Take(c, size, accept)
	}
	return p, busy, err
}

// makeBlock allocates a block of the pool. d.Mu is held before and after.
func (d *device) makeBlock(c class) (block, error) {
	d.Mu.Unlock() // the driver may wait for the device
	defer d.Mu.Lock()
	b := block{kind: c.kind, size: c.size}
	allocate := d.context.Alloc
	switch c.kind {
	case d.backend.Host:
		allocate = d.context.AllocHost
	case d.backend.Managed, hostVisible:
		free, s := d.context.FreeMemory()
		if err := d.check(s, "the free memory, before an allocation of managed memory"); err != nil {
			return b, err
		}
		if free < c.size {
			return b, d.Errorf(core.ErrOutOfMemory, "Alloc", "%d bytes of managed memory were asked for, and the device has %d free", c.size, free)
		}
		allocate = d.context.AllocManaged
	}
	s := d.allocate(c.kind == d.backend.Host, func() (s Status) {
		b.address, s = allocate(c.size)
		return s
	})
	return b, d.check(s, "an allocation of %d bytes", c.size)
}

// allocate calls f, which allocates memory, of the host or not. If the driver has none left, it takes back what the pools
// of other opened devices with the same memory keep, and calls f again. Mu is not held.
func (d *device) allocate(ofHost bool, f func() Status) Status {
	s := f()
	if s.Kind == OutOfMemory && d.backend.reclaim(func(other *device) bool { return other != d && (ofHost || other.ordinal == d.ordinal) }) {
		s = f()
	}
	return s
}

// reclaim takes back the memory that the pools of some opened devices keep, and reports whether there was any. No Mu is
// held.
func (b *Backend) reclaim(which func(*device) bool) (freed bool) {
	b.opened.Range(func(key, _ any) bool {
		if d := key.(*device); which(d) {
			d.Mu.Lock()
			freed = d.Reclaim() || freed
			d.Mu.Unlock()
		}
		return true
	})
	return freed
}

// TrimPools returns the memory that the pools of all opened devices keep to the driver.
func (b *Backend) TrimPools() { b.reclaim(func(*device) bool { return true }) }

// freeBlock frees a block of the pool, as [semaphoreWaits.afterWaits] does; until then the block counts as in use.
// The driver may wait for the device. If the call fails, the device is lost with all its memory. d.Mu is held before
// and after.
func (d *device) freeBlock(b block) {
	free := d.context.Free
	if b.kind == d.backend.Host {
		free = d.context.FreeHost
	}
	d.Mu.Unlock()
	now := d.backend.waits.afterWaits(func() { _ = d.check(free(b.address), "a free block of the pool") }, func(deferred bool) {
		if deferred {
			d.Mu.Lock()
			defer d.Mu.Unlock()
			d.Stats.InUse -= b.size
		}
	})
	d.Mu.Lock()
	if !now {
		d.Stats.InUse += b.size
	}
}
