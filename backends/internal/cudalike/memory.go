package cudalike

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/core"
)

// class is what blocks of the pool must have in common to stand in for each other.
type class struct {
	kind core.DeviceType
	size int64
}

// Bytes implements [blockpool.Class].
func (c class) Bytes() int64 { return c.size }

// block is memory that the driver allocated for the pool.
type block struct {
	kind    core.DeviceType
	address uintptr
}

// memory owns what was handed out.
type memory struct {
	device  *device
	release func(pending []core.Event) // called once, without device.Mu
	freed   atomic.Bool
}

var _ core.OrderedOwner = (*memory)(nil)

// Free gives the memory back. Another call does nothing.
func (m *memory) Free() { m.FreeAfter(nil) }

// FreeAfter gives the memory back when pending is done, or to the pool at once, which
// orders its next use behind that. [device.Close] waits for it.
func (m *memory) FreeAfter(pending []core.Event) {
	if !m.freed.Swap(true) {
		m.release(pending)
	}
}

// handOut makes memory of the device of size bytes at an address. release gives it
// back, once, and says so by [device.dropMemory].
func (d *device) handOut(id core.DeviceID, address uintptr, size int64, release func(pending []core.Event)) core.Memory {
	d.Mu.Lock()
	d.CountMemory()
	d.Mu.Unlock()
	return core.Memory{
		ID: id, Device: d, Handle: address, Size: size,
		Owner: &memory{device: d, release: release},
	}
}

// dropMemory counts memory that was given back.
func (d *device) dropMemory() {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.DropMemory()
}

// after makes a release of free: it is called when all work is done.
func (d *device) after(free func()) func([]core.Event) {
	all := func() {
		free()
		d.dropMemory()
	}
	return func(pending []core.Event) {
		if len(pending) == 0 {
			all()
			return
		}
		d.Reaper.After(pending, all)
	}
}

// Alloc takes memory from the pool: of the device, pinned or managed, by
// AllocOptions.Type. Where a block is kept on
// which work is unfinished, AllocOptions.Stream is made to wait for that on the
// device; without a stream only blocks without work are handed out. Memory to be
// exported is an allocation of its own. Managed memory that the device has no room
// for is refused, though the driver would swap it.
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
	case opts.HostVisible && id.Type == b.Device:
		return core.Memory{}, d.Errorf(core.ErrNotSupported, call, "AllocOptions.HostVisible: the host does not reach memory of the card; ask for one of the others of %v", b.memoryTypes())
	case size < 0:
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "size is %d bytes", size)
	}
	if opts.Stream != nil {
		var err error
		if s, err = d.streamOf(call, opts.Stream); err != nil {
			return core.Memory{}, err
		}
	}
	if err := d.hold(call); err != nil {
		return core.Memory{}, err
	}
	m, err := d.alloc(ctx, id, size, opts.Export, s)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Held-- // as Drop
	d.Count(err)
	return m, err
}

// memoryTypes are the types of memory that the backend allocates.
func (b *Backend) memoryTypes() []core.DeviceType {
	types := []core.DeviceType{b.Device, b.Host}
	if b.Managed != 0 {
		types = append(types, b.Managed)
	}
	return types
}

// alloc does it for options that the device has.
func (d *device) alloc(ctx context.Context, id core.DeviceID, size int64, export core.HandleType, s *queue) (core.Memory, error) {
	switch {
	case size == 0:
		return d.handOut(id, 0, 0, d.after(func() {})), nil
	case size > maxAlloc:
		return core.Memory{}, d.Errorf(core.ErrOutOfMemory, "Alloc", "%d bytes were asked for, more than any device has", size)
	case export != 0:
		return d.allocExport(size, export)
	}
	c := class{id.Type, blockpool.RoundUp(size, alignment)}
	b, busy, err := d.take(ctx, c, size, s)
	if err != nil {
		return core.Memory{}, err
	}
	return d.handOut(id, b.address, size, func(pending []core.Event) {
		d.Mu.Lock()
		d.Put(c, b, size, slices.Concat(busy, pending))
		d.Mu.Unlock()
		d.dropMemory()
	}), nil
}

// maxAlloc bounds sizes so that they can be rounded up.
const maxAlloc = 1 << 56

// take takes a block from the pool. Where there is no room, it waits for the work on
// those that are kept, and tries again.
func (d *device) take(ctx context.Context, c class, size int64, s *queue) (b block, busy []core.Event, err error) {
	var accept func([]core.Event) bool
	if s != nil {
		accept = s.waitForAll
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	b, busy, err = d.Take(c, size, accept)
	if err != nil && d.Await(ctx) {
		b, busy, err = d.Take(c, size, accept)
	}
	return b, busy, err
}

// makeBlock has the driver make a block of the pool. d.Mu is held, before and after.
func (d *device) makeBlock(c class) (block, error) {
	d.Mu.Unlock() // which others want while the driver waits for the device, as it may
	defer d.Mu.Lock()
	b := block{kind: c.kind}
	allocate := d.context.Alloc
	switch c.kind {
	case d.backend.Host:
		allocate = d.context.AllocHost
	case d.backend.Managed:
		free, s := d.context.FreeMemory()
		if err := d.check(s, "before an allocation of managed memory"); err != nil {
			return b, err
		}
		if free < c.size {
			return b, d.Errorf(core.ErrOutOfMemory, "Alloc", "%d bytes of managed memory were asked for, and the device has %d free", c.size, free)
		}
		allocate = d.context.AllocManaged
	}
	var s Status
	b.address, s = allocate(c.size)
	return b, d.check(s, "%d bytes", c.size)
}

// freeBlock gives a block back to the driver, which waits for the device. That it fails
// means that the device is lost, with all its memory. d.Mu is held, before and after.
func (d *device) freeBlock(b block) {
	d.Mu.Unlock()
	defer d.Mu.Lock()
	if b.kind == d.backend.Host {
		_ = d.check(d.context.FreeHost(b.address), "a block of the pool")
		return
	}
	_ = d.check(d.context.Free(b.address), "a block of the pool")
}
