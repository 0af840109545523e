package cudalike

import (
	"context"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

// exports are the allocations of a device that have a descriptor, or may get one.
type exports struct {
	mu     sync.Mutex
	mapped map[uintptr]Mapped // in use, by address
}

// find tells the allocation at an address.
func (e *exports) find(address uintptr) (Mapped, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.mapped[address]
	return m, ok
}

func (e *exports) add(m Mapped) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mapped == nil {
		e.mapped = make(map[uintptr]Mapped)
	}
	e.mapped[m.Address] = m
}

func (e *exports) remove(m Mapped) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.mapped, m.Address)
}

// ExportTypes are the opaque descriptors of the driver's mapped memory, and its own
// handles for other processes, as far as driver and device have them.
func (d *device) ExportTypes() []core.HandleType { return slices.Clone(d.handleTypes) }

// ImportTypes are the same.
func (d *device) ImportTypes() []core.HandleType { return slices.Clone(d.handleTypes) }

// allocExport makes an allocation of its own, at least a byte, which is never used
// again: who else has it open nobody can tell.
func (d *device) allocExport(size int64, t core.HandleType) (core.Memory, error) {
	if t == core.HandleIPC {
		return d.allocIPC(size)
	}
	unit, s := d.backend.driver.Granularity(d.ordinal, true)
	if err := d.check(s, "of %v", d.ID()); err != nil {
		return core.Memory{}, err
	}
	whole := (size + unit - 1) / unit * unit
	var m Mapped
	err := d.allocApart(whole, size, t, func() (s Status) {
		m, s = d.context.NewMapped(whole, d.sharers())
		return s
	})
	if err != nil {
		return core.Memory{}, err
	}
	d.exports.add(m)
	return d.handOut(d.ID(), m.Address, size, d.after(func() {
		d.exports.remove(m)
		_ = d.check(d.context.CloseMapped(m), "%d bytes that could be exported", whole)
		d.uncharge(whole, size)
	})), nil
}

// sharers are the ordinals of the devices that exportable memory is mapped for: this one, and
// those that reach it, for copies between them.
func (d *device) sharers() []int32 {
	all := []int32{d.ordinal}
	n, _ := d.backend.driver.Devices()
	for peer := range int32(n) {
		if peer == d.ordinal {
			continue
		}
		if can, _ := d.backend.driver.CanAccessPeer(peer, d.ordinal); can {
			all = append(all, peer)
		}
	}
	return all
}

// allocApart has allocate make an allocation of whole bytes, of which size were asked for,
// and it counts in the pool's figures until uncharge, if their limit has room.
func (d *device) allocApart(whole, size int64, t core.HandleType, allocate func() Status) error {
	d.Mu.Lock()
	err := d.MakeRoom(whole)
	if err == nil {
		d.Charge(whole, size)
	}
	d.Mu.Unlock()
	if err != nil {
		return err
	}
	s := allocate()
	if s.Kind == OutOfMemory { // the pool may keep what is wanted
		d.Mu.Lock()
		d.Reclaim()
		d.Mu.Unlock()
		s = allocate()
	}
	if err = d.check(s, "%d bytes that can be exported as %v", whole, t); err != nil {
		d.uncharge(whole, size)
	}
	return err
}

func (d *device) uncharge(whole, size int64) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Charge(-whole, -size)
}

// ExportMemory makes a new descriptor, or tells the handle for other processes. Size is that
// of the whole allocation, which is more than was asked for: a multiple of the driver's granularity.
func (d *device) ExportMemory(b *core.Buffer, t core.HandleType) (core.ExternalMemory, error) {
	const call = "ExportMemory"
	if err := d.hold(call); err != nil {
		return core.ExternalMemory{}, err
	}
	defer d.Drop()
	return d.Export(b, t, d.handleTypes, func(m core.Memory) (core.ExternalMemory, error) {
		if t == core.HandleIPC {
			return d.exportIPC(m)
		}
		mapped, ok := d.exports.find(m.Handle)
		if !ok {
			return core.ExternalMemory{}, d.Errorf(core.ErrInvalid, call, "the buffer was not allocated with AllocOptions.Export = %v, or has no bytes", t)
		}
		fd, s := d.context.ExportMapped(mapped)
		if err := d.check(s, "of %#x", mapped.Address); err != nil {
			return core.ExternalMemory{}, err
		}
		h, err := external.Export(t, fd)
		return core.ExternalMemory{
			Handle: h, Size: mapped.Size, Offset: m.Offset, Length: m.Size,
			MemoryType: core.NoMemoryType, DeviceUUID: d.Info.UUID,
		}, err
	})
}

// EndExport lets an allocation that was exported as HandleIPC be freed with its last
// tensor: the driver does not tell whether somebody uses it, and must not free it before. Of
// mapped memory the driver counts the users, and EndExport does nothing.
func (d *device) EndExport(b *core.Buffer) error {
	return d.Device.EndExport(b, func(m core.Memory) error {
		if _, ok := d.exports.find(m.Handle); ok || d.ipc.end(m.Handle) {
			return nil
		}
		return d.Errorf(core.ErrInvalid, "EndExport", "the buffer was not allocated with AllocOptions.Export, or has no bytes")
	})
}

// ImportMemory opens memory that another API exported, or this one in another process. The
// MemoryType tells which of both made what is behind an opaque descriptor. The API has no UUID of
// its driver, so that only the device's is compared.
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
	ours := m.Handle.Type() == core.HandleIPC || m.MemoryType == core.NoMemoryType
	if ours && m.DriverUUID != (core.UUID{}) {
		return core.Memory{}, d.Errorf(core.ErrDevice, call, "DriverUUID is %v, and %s, which made the memory, tells no UUID of its driver", m.DriverUUID, d.backend.API)
	}
	if m.Handle.Type() == core.HandleIPC {
		return d.importIPC(m)
	}
	open := d.openExternal
	if ours {
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
	return &external.Importer{Backend: d.backend.Name(), Types: d.handleTypes, Vendor: d.backend.Vendor, DeviceUUID: d.Info.UUID}
}

// openExternal opens memory of a graphics API.
func (d *device) openExternal(m core.ExternalMemory, fd int) (address uintptr, release func(), taken bool, err error) {
	x, s := d.context.ImportExternal(fd, m.Size, m.Dedicated)
	if err := d.check(s, "the descriptor is no memory of this device, or has less than Size, %d bytes", m.Size); err != nil {
		return 0, nil, true, err
	}
	return x.Address, func() { _ = d.check(d.context.CloseExternal(x), "memory that was imported") }, true, nil
}

// openMapped opens memory that the driver exported. The driver has a reference of its own then, and
// takes no descriptor.
func (d *device) openMapped(m core.ExternalMemory, fd int) (address uintptr, release func(), taken bool, err error) {
	unit, s := d.backend.driver.Granularity(d.ordinal, false)
	if err := d.check(s, "of %v", d.ID()); err != nil {
		return 0, nil, false, err
	}
	if m.Size%unit != 0 || m.Size > d.Info.TotalMemory {
		return 0, nil, false, d.Errorf(core.ErrInvalid, "ImportMemory", "Size is %d bytes: memory that %s made has a multiple of %d, and the device %d in all; its owner tells the size of the whole allocation", m.Size, d.backend.API, unit, d.Info.TotalMemory)
	}
	v, s := d.context.ImportMapped(fd, m.Size, d.sharers())
	if err := d.check(s, "the descriptor is no memory of %s, or has less than Size, %d bytes", d.backend.API, m.Size); err != nil {
		return 0, nil, false, err
	}
	return v.Address, func() { _ = d.check(d.context.CloseMapped(v), "memory that was imported") }, false, nil
}
