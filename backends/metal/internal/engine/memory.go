package engine

import (
	"context"

	"github.com/dlx-go/dlx/backends/internal/blockpool"
	"github.com/dlx-go/dlx/backends/metal/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// alignment is that of every allocation: what dlpack.h asks for. An allocation begins with its MTLBuffer.
const alignment = 256

// object is an MTLBuffer and what is known of it.
type object struct {
	buffer   driver.ID // owned
	size     int64     // bytes of the buffer
	host     uintptr   // where the host sees the first byte; 0 if it does not
	class    class     // of a block of the pool
	memories int       // open memories on it
}

// Bytes is the size of the buffer.
func (o *object) Bytes() int64 { return o.size }

// HostAt is the host address of a byte of the object.
func (o *object) HostAt(offset int64) uintptr { return o.host + uintptr(offset) }

// class is what blocks must have in common to replace each other.
type class struct {
	size   int64 // bytes
	shared bool  // storage mode: shared, else private
}

func (c class) Bytes() int64 { return c.size }

// Alloc takes an MTLBuffer from the pool, with offset 0. On a machine with unified memory all memory is shared: the host
// and the GPU then reach the same bytes equally fast. Elsewhere plain memory is private, and memory with HostVisible is
// shared. Managed memory is not used: its two copies would have to be synchronised around every use, also by other
// owners of the buffer. The stream in opts has no influence: memory is reused only after its earlier work is done.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.Enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	if err := d.CheckOptions(opts, nil); err != nil {
		return core.Memory{}, err
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	m, err := d.alloc(size, d.about.Unified || opts.HostVisible)
	d.Count(err)
	return m, err
}

// alloc is Alloc with d.Mu held.
func (d *device) alloc(size int64, shared bool) (core.Memory, error) {
	if err := d.CheckSize(size); err != nil {
		return core.Memory{}, err
	}
	largest := bytesOf(d.about.MaxBufferLength)
	switch {
	case size == 0:
		return d.HandOut(core.Memory{ID: d.ID()}, nil, nil), nil
	case size > largest:
		return core.Memory{}, errorf(core.ErrOutOfMemory, "Alloc", "%d bytes were asked for, and maxBufferLength is %d: use several tensors", size, largest)
	case d.LostError() != nil:
		return core.Memory{}, d.LostError()
	}
	c := class{min(blockpool.RoundUp(size, alignment), largest), shared}
	p, _, err := d.Take(c, size, nil)
	if err != nil {
		return core.Memory{}, err
	}
	return d.handOut(p.Block, 0, size, func() { d.Put(p, size, nil) }, nil), nil
}

// newBlock makes a block of the pool. d.Mu is held.
func (d *device) newBlock(c class) (*object, error) {
	options := driver.StoragePrivate
	if c.shared {
		options = driver.StorageShared
	}
	// What the blit encoder copies are whole words.
	o := &object{size: roundUp(c.size, blitUnit), class: c}
	if o.buffer = d.driver.NewBuffer(d.id, uint64(o.size), options); o.buffer == 0 {
		return nil, errorf(core.ErrOutOfMemory, "newBufferWithLength:options:", "Metal has no %d bytes of memory", o.size)
	}
	o.host = d.driver.Buffer(o.buffer).Contents
	if c.shared && o.host == 0 {
		d.Destroy(o)
		return nil, errorf(core.ErrOutOfMemory, "contents", "a shared MTLBuffer of %d bytes has no address on the host", o.size)
	}
	return o, nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// Destroy releases the buffer of an object.
func (d *device) Destroy(o *object) { d.driver.Release(o.buffer) }

// handOut returns size bytes of o as memory of the device: see [devicebase.Device.HandOut]. d.Mu is held.
func (d *device) handOut(o *object, offset, size int64, locked, after func()) core.Memory {
	own := d.objects[o.buffer]
	if own == nil {
		own = o
		d.objects[o.buffer] = own
	}
	own.memories++
	m := core.Memory{ID: d.ID(), Handle: uintptr(o.buffer), Offset: offset, Size: size}
	if own.host != 0 {
		m.Host = own.host + uintptr(offset)
	}
	return d.HandOut(m, func() {
		if own.memories--; own.memories == 0 {
			delete(d.objects, own.buffer)
		}
		if locked != nil {
			locked()
		}
	}, after)
}

// lookUp returns what is known of a buffer, also of one of another library, which keeps it alive. The caller does not own
// the result.
func (d *device) lookUp(call string, id driver.ID) (*object, error) {
	d.Mu.Lock()
	o := d.objects[id]
	d.Mu.Unlock()
	if o != nil {
		return o, nil
	}
	if !d.driver.Conforms(id, driver.ProtocolBuffer) {
		return nil, errorf(core.ErrInvalid, call, "%#x is not an id<MTLBuffer>", uintptr(id))
	}
	b := d.driver.Buffer(id)
	if b.Device != d.id {
		return nil, errorf(core.ErrInvalid, call, "the MTLBuffer %#x belongs to another GPU than %v", uintptr(id), d.ID())
	}
	found := &object{buffer: id, size: bytesOf(b.Length)}
	if b.Storage == driver.StorageShared { // the host's copy of managed memory may be stale
		found.host = b.Contents
	}
	return found, nil
}

// ImportPointer takes an id<MTLBuffer> of this device, and retains it. The memory is its first size bytes. It fails with
// ErrInvalid if p is not such a buffer, as far as the system can tell, and for a size beyond [buffer length]. If size is
// 0, p is ignored.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	const call = "ImportPointer"
	switch {
	case size < 0:
		return core.Memory{}, errorf(core.ErrInvalid, call, "size is %d bytes", size)
	case size == 0:
		d.Mu.Lock()
		defer d.Mu.Unlock()
		if err := d.IsOpen(call); err != nil {
			return core.Memory{}, err
		}
		return d.HandOut(core.Memory{ID: d.ID()}, nil, core.Memory{Owner: owner}.Free), nil
	case p == 0:
		return core.Memory{}, errorf(core.ErrInvalid, call, "the MTLBuffer is nil")
	}
	o, err := d.lookUp(call, driver.ID(p))
	if err != nil {
		return core.Memory{}, err
	}
	if size > o.size {
		return core.Memory{}, errorf(core.ErrInvalid, call, "size is %d bytes, and the MTLBuffer has %d", size, o.size)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	d.driver.Retain(o.buffer)
	return d.handOut(o, 0, size, nil, func() {
		d.driver.Release(o.buffer)
		if owner != nil {
			owner.Free()
		}
	}), nil
}

// MapHost makes an MTLBuffer over the pages of host memory. It also maps memory that the host cannot write, such as the
// pages of a mapped file.
func (d *device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	return d.Map(ctx, host, d.CanMap, func(m core.Memory) (core.Memory, error) { return d.mapHost(host, m) })
}

// CanMap refuses memory of other devices: Metal takes memory that vm_allocate or mmap has made (Apple,
// "newBufferWithBytesNoCopy:length:options:deallocator:").
func (d *device) CanMap(host core.Memory) error {
	if err := d.CheckMap(host, true); err != nil {
		return err
	}
	if t := host.OriginType(); t != core.DeviceCPU {
		return errorf(core.ErrNotSupported, "MapHost", "it is memory of a device of type %v, and newBufferWithBytesNoCopy takes memory of vm_allocate and mmap only", t)
	}
	return nil
}

// HostAlignment is the size of a page.
func (d *device) HostAlignment() int64 { return d.about.PageSize }

// mapHost maps m, the memory of host: the whole pages on which it lies.
func (d *device) mapHost(host *core.Buffer, m core.Memory) (core.Memory, error) {
	const call = "MapHost"
	first := m.Handle + uintptr(m.Offset)
	skip := int64(first % uintptr(d.about.PageSize))
	if most := bytesOf(d.about.MaxBufferLength); m.Size > most-2*d.about.PageSize {
		return core.Memory{}, errorf(core.ErrOutOfMemory, call, "%d bytes are to be mapped, and maxBufferLength is %d", m.Size, most)
	}
	whole := roundUp(skip+m.Size, d.about.PageSize)
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	if m.Size == 0 {
		return d.HandOut(core.Memory{ID: d.ID()}, nil, host.Release), nil
	}
	o := &object{size: whole, host: first - uintptr(skip)}
	// Release may wait, and calls what the program made to free the memory.
	o.buffer = d.driver.NewBufferNoCopy(d.id, o.host, uint64(whole), driver.StorageShared, func() { go host.Release() })
	if o.buffer == 0 {
		return core.Memory{}, errorf(core.ErrInvalid, "newBufferWithBytesNoCopy:length:options:deallocator:",
			"Metal does not take the %d bytes at %#x: memory that it maps was made by mmap or vm_allocate. Copy it", whole, o.host)
	}
	return d.handOut(o, skip, m.Size, nil, func() { d.Destroy(o) }), nil
}

// HostView gives the host shared memory.
func (d *device) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return d.View(ctx, b, func(m core.Memory) (uintptr, error) {
		o, err := d.lookUp("HostView", driver.ID(m.Handle))
		if err == nil {
			err = o.viewable()
		}
		if err != nil {
			return 0, err
		}
		return o.host, nil
	})
}

// viewable fails if the host cannot view the object.
func (o *object) viewable() error {
	if o.host == 0 {
		return errorf(core.ErrNotSupported, "HostView", "the memory is private to the GPU: allocate it with AllocOptions.HostVisible, or copy it")
	}
	return nil
}

// CanView looks only at what the device knows of the memory.
func (d *device) CanView(m core.Memory) error {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if m.Handle == 0 && !d.about.Unified {
		return (&object{}).viewable()
	}
	if o := d.objects[driver.ID(m.Handle)]; o != nil {
		return o.viewable()
	}
	return nil
}

// NewStaging makes shared memory. d.Mu is held.
func (d *device) NewStaging(size int64) (*object, error) {
	c := class{size: size, shared: true}
	o, err := d.newBlock(c)
	if err != nil && d.Reclaim() {
		o, err = d.newBlock(c)
	}
	return o, err
}
