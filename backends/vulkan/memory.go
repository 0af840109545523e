//go:build vulkan && linux && cgo

package vulkan

import (
	"context"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// object is a VkBuffer and what is known of it.
type object struct {
	buffer     uint64
	memory     uint64
	offset     int64   // bytes from the start of the memory to that of the buffer
	size       int64   // bytes of the buffer
	whole      int64   // bytes of the memory; 0 if another library does not tell its memory
	host       uintptr // the host address of the buffer's first byte; 0 if the host cannot reach it
	memoryType int
	sharedWith uint32         // the queue family that owns it between commands
	exports    driver.Handles // as which the memory can be exported, a bit for each; 0 for none
	dedicated  bool
	descriptor descriptor // nil until it is published
	from       Buffer     // what another library said of its VkBuffer; zero if the buffer is the device's
	imports    int        // memories on such a VkBuffer, guarded by the device's Mu
}

// Bytes is the size of the buffer.
func (o *object) Bytes() int64 { return o.size }

// HostAt is the host address of a byte of the object.
func (o *object) HostAt(offset int64) uintptr { return o.host + uintptr(offset) }

// NewStaging makes memory that device and host reach. d.Mu is held.
func (d *device) NewStaging(size int64) (*object, error) {
	return d.newObject(request{size: size, kind: visible})
}

// operand is the object as an operand of a command.
func (o *object) operand() driver.Operand {
	return driver.Operand{Buffer: o.buffer, Owner: o.sharedWith, Range: o.size}
}

// publish makes a handle for the object, by which the device finds it. d.Mu is held.
func (d *device) publish(o *object) uintptr {
	o.descriptor = newDescriptor(d.driver, o)
	h := uintptr(cAddress(o.descriptor))
	d.objects[h] = o
	return h
}

// Destroy destroys the buffer of an object, and then its memory if that belongs to the object. d.Mu is held.
func (d *device) Destroy(o *object) {
	if o.descriptor != nil {
		delete(d.objects, uintptr(cAddress(o.descriptor)))
		freeDescriptor(o.descriptor)
	}
	if o.buffer != 0 {
		d.driver.DestroyBuffer(o.buffer)
	}
	if o.memory != 0 {
		d.driver.Free(o.memory)
	}
}

// handOut returns memory of the device: see [devicebase.Device.HandOut]. d.Mu is held.
func (d *device) handOut(handle uintptr, offset, size int64, locked, after func()) core.Memory {
	m := core.Memory{ID: d.ID(), Handle: handle, Offset: offset, Size: size}
	if o := d.objects[handle]; o != nil && o.host != 0 {
		m.Host = o.host + uintptr(offset)
	}
	return d.HandOut(m, locked, after)
}

// Alloc allocates from a pool, or a separate allocation if the memory is for export. The stream in opts has
// no influence: memory is reused only after its earlier work is done.
func (d *device) Alloc(ctx context.Context, size int64, opts core.AllocOptions) (core.Memory, error) {
	if err := d.Enter(ctx, "Alloc"); err != nil {
		return core.Memory{}, err
	}
	if err := d.CheckOptions(opts, d.exportTypes); err != nil {
		return core.Memory{}, err
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	m, err := d.alloc(size, opts)
	d.Count(err)
	return m, err
}

// alloc is Alloc with d.Mu held.
func (d *device) alloc(size int64, opts core.AllocOptions) (core.Memory, error) {
	p := d.plain
	if opts.HostVisible {
		p = d.visible
	}
	if err := d.CheckSize(size); err != nil {
		return core.Memory{}, err
	}
	switch {
	case size == 0:
		return d.handOut(0, 0, 0, nil, nil), nil
	case size > d.physical.MaxBuffer-slack:
		return core.Memory{}, errorf(core.ErrOutOfMemory, "Alloc", "%d bytes were asked for, and maxBufferSize is %d: use several tensors", size, d.physical.MaxBuffer)
	case d.LostError() != nil:
		return core.Memory{}, d.LostError()
	case opts.Export != 0:
		return d.allocExport(p, size, opts.Export)
	}
	s, err := p.take(size)
	if err != nil {
		return core.Memory{}, err
	}
	return d.handOut(s.block.handle, s.offset, size, func() { p.put(s, size) }, nil), nil
}

// slack is added to the size of exported memory, since OpenGL on Mesa's llvmpipe requires memory to be larger
// than its buffer.
const slack = 64

// allocExport makes a separate object, which is never reused. d.Mu is held.
func (d *device) allocExport(p *pool, size int64, t core.HandleType) (core.Memory, error) {
	if err := d.MakeRoom(roundUp(size+slack, minExport)); err != nil {
		return core.Memory{}, err
	}
	o, err := d.newObject(request{size: size, room: slack, kind: p.kind, export: t})
	if err != nil {
		return core.Memory{}, err
	}
	h := d.publish(o)
	d.Charge(o.whole, size)
	return d.handOut(h, 0, size, func() {
		d.Charge(-o.whole, -size)
		d.Destroy(o)
	}, nil), nil
}

// minExport is the granularity of exported memory: a page.
const minExport = 4096

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// request describes an object to make.
type request struct {
	size   int64
	room   int64 // bytes of memory beyond what the buffer needs
	kind   kind
	export core.HandleType
}

// newObject makes a buffer with memory of its own.
func (d *device) newObject(r request) (_ *object, err error) {
	o := &object{size: roundUp(r.size, 4), sharedWith: driver.OwnNone}
	defer func() {
		if err != nil {
			d.Destroy(o)
			err = d.NoteLoss(err)
		}
	}()
	var handles driver.Handles
	if r.export != 0 {
		handles = externalHandles[r.export]
		o.exports = handles
		o.sharedWith = d.sharedWith(r.export)
		o.dedicated = d.external[handles].Dedicated
	}
	var need driver.Requirements
	if o.buffer, need, err = d.driver.NewBuffer(o.size, handles); err != nil {
		return nil, err
	}
	if o.memoryType = d.findType(r.kind, need.Types); o.memoryType < 0 {
		return nil, errorf(core.ErrNotSupported, "vkGetBufferMemoryRequirements", "the device has no suitable memory type")
	}
	o.whole = need.Size
	if r.export != 0 {
		o.whole = roundUp(need.Size+r.room, minExport)
	}
	q := driver.Request{Size: o.whole, Type: o.memoryType, Export: handles}
	if o.dedicated {
		q.Size, o.whole = need.Size, need.Size // VUID-VkMemoryDedicatedAllocateInfo-buffer-02965
		q.Dedicated = o.buffer
	}
	if o.memory, err = d.allocate(q); err != nil {
		return nil, err
	}
	if err = d.driver.Bind(o.buffer, o.memory, 0); err != nil {
		return nil, err
	}
	if t := d.physical.Memory[o.memoryType]; d.inReach(t) || r.kind == visible {
		o.host, err = d.driver.Map(o.memory)
	}
	return o, err
}

// allocate asks the driver for memory that its heap can hold (VUID-vkAllocateMemory-pAllocateInfo-01713).
// maxMemoryAllocationSize is no bound: the driver says when it has no more, and NVIDIA's has more than that.
func (d *device) allocate(q driver.Request) (uint64, error) {
	if heap := d.physical.Heaps[d.physical.Memory[q.Type].Heap]; q.Size > heap {
		return 0, errorf(core.ErrOutOfMemory, "vkAllocateMemory", "%d bytes are wanted, and the heap of memory type %d has %d", q.Size, q.Type, heap)
	}
	return d.driver.Allocate(q)
}

// kind is the purpose of memory.
type kind uint8

const (
	local   kind = iota // for the device, and also for the host if that costs nothing
	visible             // for the host too
)

// findType chooses one of the memory types whose bits are set; -1 if none is suitable.
func (d *device) findType(k kind, bits uint32) int {
	best, most := -1, 0
	for i, t := range d.physical.Memory {
		if bits&(1<<i) == 0 || t.Protected {
			continue
		}
		score := 1
		add := func(has bool, points int) {
			if has {
				score += points
			}
		}
		switch k {
		case local:
			add(t.DeviceLocal, 4)
			add(d.inReach(t), 2)
		case visible:
			if !t.Visible || !t.Coherent {
				continue
			}
			add(t.Cached, 4)
			add(t.DeviceLocal, 2)
		}
		if score > most {
			best, most = i, score
		}
	}
	return best
}

// inReach reports whether the host accesses memory of a type as fast as its own.
func (d *device) inReach(t driver.MemoryType) bool {
	own := d.physical.Kind == driver.CPU || d.physical.Kind == driver.Integrated
	return own && !d.options.separate && t.Visible && t.Coherent && t.Cached
}
