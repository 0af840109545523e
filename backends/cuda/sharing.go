//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"slices"
	"sync"

	"gorgonia.org/cu"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

// exports are the allocations of a device that have a descriptor, or may get one.
type exports struct {
	mu     sync.Mutex
	mapped map[uintptr]driver.Mapped // in use, by address
}

// find tells the allocation at an address.
func (e *exports) find(address uintptr) (driver.Mapped, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.mapped[address]
	return m, ok
}

func (e *exports) add(m driver.Mapped) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mapped == nil {
		e.mapped = make(map[uintptr]driver.Mapped)
	}
	e.mapped[m.Address] = m
}

func (e *exports) remove(m driver.Mapped) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.mapped, m.Address)
}

// ExportTypes are the opaque descriptors of memory of cuMemCreate, and CUDA's own
// handles for other processes, as far as driver and device have them.
func (d *device) ExportTypes() []core.HandleType { return slices.Clone(d.handleTypes) }

// ImportTypes are the same.
func (d *device) ImportTypes() []core.HandleType { return slices.Clone(d.handleTypes) }

// allocExport makes an allocation of its own, at least a byte, which is never used
// again: who else has it open nobody can tell.
func (d *device) allocExport(size int64, t core.HandleType) (core.Memory, error) {
	if t == core.HandleCUDAIPC {
		return d.allocIPC(size)
	}
	unit, s := driver.BestGranularity.Of(d.ordinal)
	if err := d.check(s, "cuMemGetAllocationGranularity", "of %v", d.ID()); err != nil {
		return core.Memory{}, err
	}
	whole := (size + unit - 1) / unit * unit
	var m driver.Mapped
	err := d.allocApart(whole, size, t, func() (call string, s driver.Status) {
		m, call, s = d.context.NewMapped(whole, d.sharers())
		return call, s
	})
	if err != nil {
		return core.Memory{}, err
	}
	d.exports.add(m)
	return d.handOut(d.ID(), m.Address, size, d.after(func() {
		d.exports.remove(m)
		_ = d.check(d.context.CloseMapped(m), "cuMemUnmap", "%d bytes that could be exported", whole)
		d.uncharge(whole, size)
	})), nil
}

// sharers are the devices that memory of cuMemCreate is mapped for: this one, and those
// that reach it, for copies between them.
func (d *device) sharers() []cu.Device {
	all := []cu.Device{d.ordinal}
	n, _ := driver.Devices()
	for i := range n {
		peer, s := driver.Device(i)
		if s != driver.Success || peer == d.ordinal {
			continue
		}
		if can, _ := driver.CanAccessPeer(peer, d.ordinal); can {
			all = append(all, peer)
		}
	}
	return all
}

// allocApart has allocate make an allocation of whole bytes, of which size were asked for,
// and name its call; it counts in the pool's figures until uncharge, if their limit has room.
func (d *device) allocApart(whole, size int64, t core.HandleType, allocate func() (call string, s driver.Status)) error {
	d.Mu.Lock()
	err := d.MakeRoom(whole)
	if err == nil {
		d.Charge(whole, size)
	}
	d.Mu.Unlock()
	if err != nil {
		return err
	}
	call, s := allocate()
	if s == driver.OutOfMemory { // the pool may keep what is wanted
		d.Mu.Lock()
		d.Reclaim()
		d.Mu.Unlock()
		call, s = allocate()
	}
	if err = d.check(s, call, "%d bytes that can be exported as %v", whole, t); err != nil {
		d.uncharge(whole, size)
	}
	return err
}

func (d *device) uncharge(whole, size int64) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Charge(-whole, -size)
}

// ExportMemory makes a new descriptor by cuMemExportToShareableHandle, or tells the
// handle of cuIpcGetMemHandle. Size is that of the whole allocation, which is more than
// was asked for: a multiple of cuMemGetAllocationGranularity.
func (d *device) ExportMemory(b *core.Buffer, t core.HandleType) (core.ExternalMemory, error) {
	const call = "ExportMemory"
	if err := d.hold(call); err != nil {
		return core.ExternalMemory{}, err
	}
	defer d.Drop()
	return d.Export(b, t, d.handleTypes, func(m core.Memory) (core.ExternalMemory, error) {
		if t == core.HandleCUDAIPC {
			return d.exportIPC(m)
		}
		mapped, ok := d.exports.find(m.Handle)
		if !ok {
			return core.ExternalMemory{}, errorf(core.ErrInvalid, call, "the buffer was not allocated with AllocOptions.Export = %v, or has no bytes", t)
		}
		fd, s := d.context.ExportMapped(mapped)
		return core.ExternalMemory{
			Type: t, FD: fd, Size: mapped.Size, Offset: m.Offset, Length: m.Size,
			MemoryType: core.NoMemoryType, DeviceUUID: d.Info.UUID,
		}, d.check(s, "cuMemExportToShareableHandle", "of %#x", mapped.Address)
	})
}

// ImportMemory opens memory that another API exported, or CUDA in another process. Who
// made what is behind an opaque descriptor its MemoryType tells: cuImportExternalMemory
// takes the memory of graphics APIs, cuMemImportFromShareableHandle that of
// cuMemCreate. CUDA does not tell the UUID of its driver, so that only the device's is compared.
func (d *device) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	const call = "ImportMemory"
	if err := d.EnterWith(ctx, core.CapImportMemory, call); err != nil {
		return core.Memory{}, err
	}
	if err := d.hold(call); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	i := d.importer()
	if err := i.CheckMemory(m); err != nil {
		return core.Memory{}, err
	}
	ofCUDA := m.Type == core.HandleCUDAIPC || m.MemoryType == core.NoMemoryType
	if ofCUDA && m.DriverUUID != (core.UUID{}) {
		return core.Memory{}, errorf(core.ErrDevice, call, "DriverUUID is %v, and CUDA, which made the memory, tells no UUID of its driver", m.DriverUUID)
	}
	if m.Type == core.HandleCUDAIPC {
		return d.importIPC(m)
	}
	open := d.openExternal
	if ofCUDA {
		open = d.openMapped
	}
	return i.Memory(m, func(fd int) (_ core.Memory, taken bool, err error) {
		address, release, taken, err := open(m, fd)
		if err != nil {
			return core.Memory{}, taken, err
		}
		return d.handOut(d.ID(), address+uintptr(m.Offset), m.Length, d.after(release)), taken, nil
	})
}

// importer has what handles of others are compared with.
func (d *device) importer() *external.Importer {
	return &external.Importer{Backend: name, Types: d.handleTypes, DeviceUUID: d.Info.UUID}
}

// openExternal opens memory of a graphics API.
func (d *device) openExternal(m core.ExternalMemory, fd int) (address uintptr, release func(), taken bool, err error) {
	x, call, s := d.context.ImportExternal(fd, m.Size, m.Dedicated)
	if err := d.check(s, call, "FD %d is no memory of this device, or has less than Size, %d bytes", m.FD, m.Size); err != nil {
		return 0, nil, true, err
	}
	return x.Address, func() { _ = d.check(d.context.CloseExternal(x), "cuDestroyExternalMemory", "memory that was imported") }, true, nil
}

// openMapped opens memory of cuMemCreate. The driver has a reference of its own then, and
// takes no descriptor.
func (d *device) openMapped(m core.ExternalMemory, fd int) (address uintptr, release func(), taken bool, err error) {
	unit, s := driver.LeastGranularity.Of(d.ordinal)
	if err := d.check(s, "cuMemGetAllocationGranularity", "of %v", d.ID()); err != nil {
		return 0, nil, false, err
	}
	if m.Size%unit != 0 || m.Size > d.Info.TotalMemory {
		return 0, nil, false, errorf(core.ErrInvalid, "ImportMemory", "Size is %d bytes: memory that CUDA made has a multiple of %d, and the device %d in all; its owner tells the size of the whole allocation", m.Size, unit, d.Info.TotalMemory)
	}
	v, failed, s := d.context.ImportMapped(fd, m.Size, d.sharers())
	if err := d.check(s, failed, "FD %d is no memory of cuMemCreate, or has less than Size, %d bytes", m.FD, m.Size); err != nil {
		return 0, nil, false, err
	}
	return v.Address, func() { _ = d.check(d.context.CloseMapped(v), "cuMemUnmap", "memory that was imported") }, false, nil
}
