//go:build vulkan && linux && cgo

package vulkan

import (
	"math"

	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// VkBuffers of other libraries. The device keeps an object for each that was imported, as for its own: the memory can be
// exported and viewed like other memory.

// ImportPointer takes the address of a DLVulkanBuffer, which another library may have made on the same
// VkDevice (see [Wrap]). The memory is the first size bytes of its VkBuffer. It fails with ErrInvalid if
// there is no such struct at the address, if its fields contradict each other or the device, for a size beyond the
// buffer's, and for a buffer of another VkDevice. If size is 0, p is ignored. It cannot check that the VkBuffer exists and has the usage flags of a
// transfer source and destination.
func (d *device) ImportPointer(p uintptr, size int64, owner core.Owner) (core.Memory, error) {
	const call = "ImportPointer"
	if size < 0 {
		return core.Memory{}, errorf(core.ErrInvalid, call, "size is %d bytes", size)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	if size == 0 {
		return d.handOut(0, 0, 0, nil, core.Memory{Owner: owner}.Free), nil
	}
	b, err := d.describedAt(call, p)
	if err != nil {
		return core.Memory{}, err
	}
	if size > b.Size {
		return core.Memory{}, errorf(core.ErrInvalid, call, "size is %d bytes, and the VkBuffer has %d", size, b.Size)
	}
	switch o := d.objects[p]; {
	case o == nil:
		d.objects[p] = d.objectFrom(b)
	case o.foreign() && o.descriptor == nil && o.from != b: // nobody but dlx writes its own descriptors, which say less than a Buffer
		return core.Memory{}, errorf(core.ErrInvalid, call, "the DLVulkanBuffer at %#x has changed since it was imported first: it must stay as it is until the deleter is called", p)
	}
	return d.handImported(p, size, owner), nil
}

// importBuffer is [ImportBuffer].
func importBuffer(to core.Device, b Buffer, s core.Spec, owner core.Owner) (*core.Tensor, error) {
	d, err := deviceOf("ImportBuffer", to)
	if err != nil {
		return nil, err
	}
	kept := &keeper{owner}
	m, err := d.importBuffer(b, kept)
	if err != nil {
		return nil, err
	}
	t, err := core.Wrap(m, s)
	if err != nil {
		kept.owner = nil // freeing the memory must not free the owner, which stays the caller's
		m.Free()
	}
	return t, err
}

// deviceOf returns the device of this package that d is.
func deviceOf(call string, d core.Device) (*device, error) {
	if d == nil {
		return nil, errorf(core.ErrInvalid, call, "the device is nil")
	}
	own, ok := d.(*device)
	if !ok {
		return nil, errorf(core.ErrDevice, call, "%v is not a device of this backend: open one by vulkan.Wrap over the VkDevice", d.ID())
	}
	return own, nil
}

// keeper is an owner that can be withdrawn.
type keeper struct{ owner core.Owner }

func (k *keeper) Free() {
	if k.owner != nil {
		k.owner.Free()
	}
}

// importBuffer makes a descriptor for a VkBuffer of which only Go knows, or finds the one that it has: tensors on one
// VkBuffer have one handle.
func (d *device) importBuffer(b Buffer, owner core.Owner) (core.Memory, error) {
	const call = "ImportBuffer"
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	switch {
	case b.Device != 0 && b.Device != uintptr(d.driver.Handle()):
		return core.Memory{}, d.otherVkDevice(call)
	case b.Buffer == 0:
		return core.Memory{}, errorf(core.ErrInvalid, call, "Buffer is 0: set it to the VkBuffer")
	case b.Usage&driver.Usage != driver.Usage:
		return core.Memory{}, errorf(core.ErrInvalid, call, "Usage is %#x, without some of %#x: make the VkBuffer with VK_BUFFER_USAGE_TRANSFER_SRC_BIT, VK_BUFFER_USAGE_TRANSFER_DST_BIT and VK_BUFFER_USAGE_STORAGE_BUFFER_BIT", b.Usage, uint32(driver.Usage))
	}
	b.Instance, b.PhysicalDevice, b.Device = uintptr(d.driver.Instance()), uintptr(d.physical.Handle), uintptr(d.driver.Handle())
	b.Queue, b.QueueFamily = uintptr(d.driver.Queue), uint32(d.driver.Family)
	b.DeviceUUID, b.DriverUUID = d.Info.UUID, d.Info.DriverUUID
	if b.SharedWith == 0 {
		b.SharedWith = d.ownerBetween(driver.Handles(b.ExportTypes))
	}
	if err := d.checkBuffer(call, &b); err != nil {
		return core.Memory{}, err
	}
	h, known := d.named[b]
	if !known {
		h = d.publish(d.objectFrom(b))
		d.named[b] = h
	}
	return d.handImported(h, b.Size, owner), nil
}

// ownerBetween is the queue family that owns memory between commands which is exported as some of the handle types.
func (d *device) ownerBetween(exports driver.Handles) uint32 {
	switch exports {
	case 0:
		return driver.OwnNone
	case driver.DMABuf:
		return d.sharedWith(core.HandleDMABuf)
	default:
		return d.sharedWith(core.HandleOpaqueFD)
	}
}

// objectFrom describes a VkBuffer of another library.
func (d *device) objectFrom(b Buffer) *object {
	o := &object{
		buffer: b.Buffer, memory: b.Memory, offset: b.MemoryOffset, size: b.Size, whole: b.MemorySize, host: b.Mapped,
		memoryType: int(b.MemoryType), sharedWith: b.SharedWith, exports: driver.Handles(b.ExportTypes), dedicated: b.Dedicated,
		from: b,
	}
	if b.Memory != 0 && !d.physical.Memory[b.MemoryType].Coherent {
		o.host = 0 // nobody would flush what the host writes through a view: the device copies
	}
	return o
}

// foreign reports whether the VkBuffer is another library's.
func (o *object) foreign() bool { return o.from.Buffer != 0 }

// handImported returns memory on the object of a handle, and frees owner last. d.Mu is held.
func (d *device) handImported(h uintptr, size int64, owner core.Owner) core.Memory {
	o, locked, after := d.objects[h], func() {}, func() {}
	if o.foreign() {
		o.imports++
		locked = func() { d.dropImport(h, o) }
	}
	if owner != nil {
		after = owner.Free
	}
	return d.handOut(h, 0, size, locked, after)
}

// dropImport forgets the object of a VkBuffer of another library with the last memory on it. d.Mu is held.
func (d *device) dropImport(h uintptr, o *object) {
	if o.imports--; o.imports > 0 {
		return
	}
	delete(d.objects, h)
	if o.descriptor != nil {
		delete(d.named, o.from)
		freeDescriptor(o.descriptor)
	}
}

// describedAt reads the descriptor of a VkBuffer of this VkDevice, which another library may have made.
func (d *device) describedAt(call string, handle uintptr) (Buffer, error) {
	b, err := readDescriptor(call, handle)
	switch {
	case err != nil:
		return b, err
	case b.Device != uintptr(d.driver.Handle()):
		return b, d.otherVkDevice(call)
	}
	return b, d.checkBuffer(call, &b)
}

func (d *device) otherVkDevice(call string) error {
	return errorf(core.ErrInvalid, call, "the VkBuffer belongs to another VkDevice: open the device by vulkan.Wrap over that, or share the memory by ExportMemory")
}

// checkBuffer checks what another library says of a VkBuffer, as far as that is possible without the VkBuffer.
func (d *device) checkBuffer(call string, b *Buffer) error {
	fail := func(format string, args ...any) error { return errorf(core.ErrInvalid, call, format, args...) }
	switch {
	case b.Size <= 0 || b.Size > d.physical.MaxBuffer:
		return fail("Size of the VkBuffer is %d bytes, and must be from 1 to maxBufferSize, %d", b.Size, d.physical.MaxBuffer)
	case uint64(b.Mapped) > math.MaxUint64-uint64(b.Size):
		return fail("a mapping of %d bytes at %#x reaches beyond the address space", b.Size, b.Mapped)
	case b.SharedWith != driver.OwnNone && b.SharedWith != driver.OwnExternal && b.SharedWith != driver.OwnForeign:
		return fail("SharedWith is queue family %d: it can be VK_QUEUE_FAMILY_IGNORED, VK_QUEUE_FAMILY_EXTERNAL or VK_QUEUE_FAMILY_FOREIGN_EXT", b.SharedWith)
	case b.Memory == 0 && (b.MemoryOffset != 0 || b.MemorySize != 0 || b.ExportTypes != 0 || b.Dedicated):
		return fail("Memory is 0, and MemoryOffset %d, MemorySize %d, ExportTypes %#x or Dedicated says something of it: set it to the VkDeviceMemory", b.MemoryOffset, b.MemorySize, b.ExportTypes)
	case b.Memory == 0:
		return nil
	}
	switch types := d.physical.Memory; {
	case int64(b.MemoryType) >= int64(len(types)):
		return fail("MemoryType is %d, and the device has %d", b.MemoryType, len(types))
	case b.MemorySize <= 0 || b.MemorySize > d.physical.Heaps[types[b.MemoryType].Heap]:
		return fail("MemorySize is %d bytes, and must be from 1 to the size of the heap of memory type %d, %d", b.MemorySize, b.MemoryType, d.physical.Heaps[types[b.MemoryType].Heap])
	case b.MemoryOffset < 0 || b.MemoryOffset > b.MemorySize-b.Size:
		return fail("a VkBuffer of %d bytes at MemoryOffset %d does not lie within its memory of %d bytes", b.Size, b.MemoryOffset, b.MemorySize)
	case b.Dedicated && b.MemoryOffset != 0:
		return fail("MemoryOffset is %d, and must be 0 in a dedicated allocation", b.MemoryOffset)
	case b.Mapped != 0 && !types[b.MemoryType].Visible:
		return fail("Mapped is %#x, and memory type %d is not visible to the host", b.Mapped, b.MemoryType)
	}
	return d.checkExports(call, driver.Handles(b.ExportTypes))
}

// checkExports checks the handle types that memory of another library was allocated for.
func (d *device) checkExports(call string, types driver.Handles) error {
	rest := types
	for t, h := range externalHandles {
		if types&h == 0 {
			continue
		}
		if rest &^= h; !d.external[h].Export {
			return errorf(core.ErrInvalid, call, "ExportTypes is %#x, and the driver does not export buffers as %v", uint32(types), t)
		}
	}
	if rest != 0 {
		return errorf(core.ErrInvalid, call, "ExportTypes is %#x, and can only have VK_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD_BIT and VK_EXTERNAL_MEMORY_HANDLE_TYPE_DMA_BUF_BIT_EXT: leave out others", uint32(types))
	}
	return nil
}
