//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"math"
	"os"
	"slices"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/backends/vulkan/internal/driver"
	"github.com/dlx-go/dlx/core"
)

// HostView serves memory that is mapped: memory of Alloc with HostVisible, mapped host memory, and plain and
// imported memory if device and host share it.
func (d *device) HostView(ctx context.Context, b *core.Buffer) (core.Memory, error) {
	return d.View(ctx, b, func(m core.Memory) (uintptr, error) {
		o, err := d.objectOf("HostView", m)
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
	switch {
	case o.host != 0:
		return nil
	case o.foreign():
		return errorf(core.ErrNotSupported, "HostView", "the host cannot reach this memory: it is a VkBuffer of another library, without Mapped or in memory that is not coherent")
	default:
		return errorf(core.ErrNotSupported, "HostView", "the host cannot reach this memory: allocate it with AllocOptions.HostVisible")
	}
}

// CanView looks only at what the device knows of the memory.
func (d *device) CanView(m core.Memory) error {
	if m.Handle == 0 && d.visible != d.plain {
		return (&object{}).viewable()
	}
	if o := d.knownObject(m); o != nil {
		return o.viewable()
	}
	return nil
}

// CanExport looks only at what the device knows of the memory.
func (d *device) CanExport(m core.Memory, t core.HandleType) error {
	if o := d.knownObject(m); o != nil {
		return o.exportable("ExportMemory", t)
	}
	return nil
}

// knownObject returns the object of m, or nil if the device is closed or has no such object: a call says why.
func (d *device) knownObject(m core.Memory) *object {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if d.Closed.Load() {
		return nil
	}
	return d.objects[m.Handle]
}

// objectOf returns the object of memory of this device; an empty one for memory without bytes.
func (d *device) objectOf(call string, m core.Memory) (*object, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	switch o := d.objects[m.Handle]; {
	case d.Closed.Load():
		return nil, d.IsOpen(call)
	case m.Handle == 0:
		return &object{}, nil
	case o == nil:
		return nil, errorf(core.ErrInvalid, call, "%#x is not a handle of this device", m.Handle)
	default:
		return o, nil
	}
}

// HostAlignment is minImportedHostPointerAlignment.
func (d *device) HostAlignment() int64 { return d.physical.HostAlignment }

// MapHost imports the whole units that contain host (VK_EXT_external_memory_host). If a unit is larger than a
// page of the system, host must begin and end on multiples of it.
func (d *device) MapHost(ctx context.Context, host *core.Buffer) (core.Memory, error) {
	mapped, err := d.Map(ctx, host, d.CanMap, func(m core.Memory) (core.Memory, error) { return d.mapHost(host, m) })
	return mapped, d.NoteLoss(err)
}

// CanMap refuses memory that the host cannot write, since drivers pin imported pages for writing: the VkBuffer can be
// written. It refuses memory of other devices if the driver does not import it as such memory.
func (d *device) CanMap(host core.Memory) error {
	if err := d.CheckMap(host, false); err != nil {
		return err
	}
	if t := host.OriginType(); hostHandles(host) == driver.HostForeign && !d.importsForeign {
		return errorf(core.ErrNotSupported, "MapHost", "it is memory of %v devices, and the driver does not import it as VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_MAPPED_FOREIGN_MEMORY_BIT_EXT", t)
	}
	return nil
}

// hostHandles returns the handle type of m, host memory. What a driver has allocated and mapped for the host is not a
// host allocation to Vulkan, which includes Vulkan's own memory and CUDA's pinned memory.
func hostHandles(m core.Memory) driver.Handles {
	if m.OriginType() == core.DeviceCPU {
		return driver.HostPointer
	}
	return driver.HostForeign
}

// mapHost maps m, the memory of host.
func (d *device) mapHost(host *core.Buffer, m core.Memory) (core.Memory, error) {
	const call = "MapHost"
	first := m.Handle + uintptr(m.Offset)
	unit := uintptr(d.physical.HostAlignment)
	skip := int64(first % unit)
	if most := d.physical.MaxBuffer; m.Size > most || roundUp(skip+m.Size, int64(unit)) > most {
		return core.Memory{}, errorf(core.ErrOutOfMemory, call, "%d bytes are to be mapped, and maxBufferSize is %d", m.Size, most)
	}
	whole := roundUp(skip+m.Size, int64(unit))
	if unit > uintptr(os.Getpagesize()) && whole != m.Size {
		return core.Memory{}, errorf(core.ErrInvalid, call, "%d bytes at %#x do not begin and end on multiples of minImportedHostPointerAlignment, %d bytes: allocate them so", m.Size, first, unit)
	}
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, err
	}
	if m.Size == 0 {
		return d.handOut(0, 0, 0, nil, host.Release), nil
	}
	handles := hostHandles(m)
	types, err := d.driver.HostTypes(first-uintptr(skip), handles)
	if err != nil {
		return core.Memory{}, err
	}
	o := &object{size: whole, whole: whole, sharedWith: driver.OwnNone, host: first - uintptr(skip)}
	err = d.bindImported(o, types, driver.Request{Import: handles, Pointer: o.host})
	if err != nil {
		return core.Memory{}, err
	}
	return d.handOut(d.publish(o), skip, m.Size, func() { d.Destroy(o) }, host.Release), nil
}

// bindImported makes a buffer of o.size bytes over memory of o.whole bytes, which is imported by q with one
// of the memory types. If it fails, everything that it made is destroyed again. d.Mu is held.
func (d *device) bindImported(o *object, types uint32, q driver.Request) (err error) {
	defer func() {
		if err != nil {
			d.Destroy(o)
		}
	}()
	var need driver.Requirements
	if o.buffer, need, err = d.driver.NewBuffer(o.size, q.Import); err != nil {
		return err
	}
	k := local
	if q.Import.IsPointer() {
		k = visible
	}
	switch o.memoryType = d.findType(k, need.Types&types); {
	case o.memoryType < 0:
		return errorf(core.ErrNotSupported, "vkGetBufferMemoryRequirements", "no memory type is possible for both the buffer and the imported memory")
	case need.Size > o.whole:
		return errorf(core.ErrInvalid, "vkGetBufferMemoryRequirements", "a buffer of %d bytes needs %d, and the imported memory has %d", o.size, need.Size, o.whole)
	}
	q.Type = o.memoryType
	if q.Size = o.whole; q.Import == driver.OpaqueFD && types == math.MaxUint32 {
		// Memory of CUDA: as NVIDIA's sample simpleVulkanMMAP does it, which is all that says how. Memory that Vulkan
		// allocated must be imported with the size of the allocation (VUID-VkMemoryAllocateInfo-allocationSize-01742).
		q.Size = need.Size
	}
	if o.dedicated {
		q.Dedicated = o.buffer
	}
	if o.memory, err = d.allocate(q); err != nil {
		return err
	}
	if err = d.driver.Bind(o.buffer, o.memory, 0); err != nil {
		return err
	}
	if o.host == 0 && d.inReach(d.physical.Memory[o.memoryType]) {
		o.host, err = d.driver.Map(o.memory)
	}
	return err
}

// ExportTypes are the descriptors by which the driver exports and imports buffers.
func (d *device) ExportTypes() []core.HandleType { return slices.Clone(d.exportTypes) }

// ImportTypes are the descriptors that the driver imports.
func (d *device) ImportTypes() []core.HandleType { return slices.Clone(d.importTypes) }

// sharedWith is the queue family that owns memory of a handle type between commands.
func (d *device) sharedWith(t core.HandleType) uint32 {
	if t == core.HandleDMABuf && d.driver.Has(driver.QueueFamilyForeign) {
		return driver.OwnForeign
	}
	return driver.OwnExternal
}

// ExportMemory makes a new descriptor by vkGetMemoryFdKHR.
func (d *device) ExportMemory(b *core.Buffer, t core.HandleType) (core.ExternalMemory, error) {
	const call = "ExportMemory"
	return d.Export(b, t, d.exportTypes, func(m core.Memory) (core.ExternalMemory, error) {
		o, err := d.objectOf(call, m)
		switch {
		case err != nil:
			return core.ExternalMemory{}, err
		case o.exportable(call, t) != nil:
			return core.ExternalMemory{}, o.exportable(call, t)
		}
		fd, err := d.driver.ExportMemory(o.memory, externalHandles[t])
		if err != nil {
			return core.ExternalMemory{}, d.NoteLoss(err)
		}
		if fd < 0 && o.foreign() { // what drivers do is not defined
			return core.ExternalMemory{}, errorf(core.ErrInvalid, "vkGetMemoryFdKHR", "the driver gave no descriptor of the VkDeviceMemory of another library: allocate it with VkExportMemoryAllocateInfo, as ExportTypes %#x says", uint32(o.exports))
		}
		if err := external.CheckExported(name, "vkGetMemoryFdKHR", t, fd); err != nil {
			_ = os.NewFile(uintptr(fd), "exported").Close()
			return core.ExternalMemory{}, err
		}
		h, err := external.Export(t, fd)
		return core.ExternalMemory{
			Handle: h, Size: o.whole, Offset: o.offset + m.Offset, Length: m.Size,
			Dedicated: o.dedicated, MemoryType: uint32(o.memoryType),
			DeviceUUID: d.Info.UUID, DriverUUID: d.Info.DriverUUID,
		}, err
	})
}

// exportable fails if the object cannot be exported as t.
func (o *object) exportable(call string, t core.HandleType) error {
	switch {
	case o.exports&externalHandles[t] != 0:
		return nil
	case o.foreign():
		return errorf(core.ErrInvalid, call, "it is a VkBuffer of another library with ExportTypes %#x, without %v: allocate the VkDeviceMemory with VkExportMemoryAllocateInfo, and say so", uint32(o.exports), t)
	default:
		return errorf(core.ErrInvalid, call, "the buffer was not allocated with AllocOptions.Export = %v, or has no bytes", t)
	}
}

// EndExport does nothing: Vulkan counts who has the memory open.
func (d *device) EndExport(b *core.Buffer) error {
	const call = "EndExport"
	return d.Device.EndExport(b, func(m core.Memory) error {
		o, err := d.objectOf(call, m)
		if err == nil && o.exports == 0 {
			err = errorf(core.ErrInvalid, call, "the buffer was not allocated with AllocOptions.Export, or has no bytes")
		}
		return err
	})
}

// ImportMemory gives the driver a duplicate of the descriptor. The buffer spans the allocation up to the end of the
// part that is meant.
func (d *device) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	const call = "ImportMemory"
	if err := d.EnterWith(ctx, core.CapImportMemory, call); err != nil {
		return core.Memory{}, err
	}
	if err := d.checkExternal(call, m); err != nil {
		return core.Memory{}, err
	}
	imported, err := d.importer().Memory(m, func(fd int) (_ core.Memory, taken bool, err error) { return d.importFD(call, m, fd) })
	return imported, d.NoteLoss(err)
}

// importer describes what the device can import.
func (d *device) importer() *external.Importer {
	return &external.Importer{
		Backend: name, Types: d.importTypes, Semaphores: d.semaphoreType,
		DeviceUUID: d.Info.UUID, DriverUUID: d.Info.DriverUUID,
		Software: d.physical.DriverID == driver.Llvmpipe, Files: d.physical.DriverID == driver.SwiftShader,
	}
}

// checkExternal checks m, as far as possible, before the driver gets its descriptor.
func (d *device) checkExternal(call string, m core.ExternalMemory) error {
	by := d.importer()
	if err := by.CheckMemory(m); err != nil {
		return err
	}
	switch {
	case m.Size > d.physical.MaxBuffer:
		return errorf(core.ErrInvalid, call, "Size is %d bytes, and maxBufferSize is %d", m.Size, d.physical.MaxBuffer)
	case m.Handle.Type() == core.HandleOpaqueFD && m.MemoryType != backendkit.NoMemoryType && int64(m.MemoryType) >= int64(len(d.physical.Memory)):
		return errorf(core.ErrInvalid, call, "MemoryType is %d, and the device has %d", m.MemoryType, len(d.physical.Memory))
	}
	return nil
}

// importFD lets the driver import fd for m, and reports whether the driver owns it now.
func (d *device) importFD(call string, m core.ExternalMemory, fd int) (_ core.Memory, taken bool, err error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if err := d.IsOpen(call); err != nil {
		return core.Memory{}, false, err
	}
	types := uint32(1) << m.MemoryType
	if m.MemoryType == backendkit.NoMemoryType {
		types = math.MaxUint32
	}
	t := m.Handle.Type()
	handles := externalHandles[t]
	if t == core.HandleDMABuf {
		if types, err = d.driver.FDTypes(fd, handles); err != nil {
			return core.Memory{}, false, err
		}
	}
	o := &object{size: min(roundUp(m.Offset+m.Length, 4), m.Size), whole: m.Size, sharedWith: d.sharedWith(t), dedicated: m.Dedicated}
	if err := d.bindImported(o, types, driver.Request{Import: handles, FD: fd}); err != nil {
		return core.Memory{}, o.memory != 0, err // which the driver has closed with the memory
	}
	return d.handOut(d.publish(o), m.Offset, m.Length, func() { d.Destroy(o) }, nil), true, nil
}
