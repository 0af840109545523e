package cudalike

import (
	"context"
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

// ExportTypes returns HandleOpaqueFD and HandleDMABuf, for mapped memory of the driver, and HandleIPC, as far as the
// driver and the device have them. A dma-buf is for other devices, such as network cards: drivers of this API do not
// import it.
func (d *device) ExportTypes() []core.HandleType { return slices.Clone(d.exportTypes) }

// ImportTypes returns HandleOpaqueFD and HandleIPC, as far as the driver and the device have them.
func (d *device) ImportTypes() []core.HandleType { return slices.Clone(d.importTypes) }

// allocExport makes an allocation of its own. The pool does not use the memory again, since another process or
// API may have it open and nothing says whether it has. size is at least 1.
func (d *device) allocExport(size int64, t core.HandleType) (core.Memory, error) {
	if t == core.HandleIPC {
		return d.allocIPC(size)
	}
	unit, s := d.backend.driver.Granularity(d.ordinal, t, true)
	if err := d.check(s, "the granularity of mapped memory of %v", d.ID()); err != nil {
		return core.Memory{}, err
	}
	whole := (size + unit - 1) / unit * unit
	var m Mapped
	err := d.allocOutsidePool(whole, size, t, func() (s Status) {
		m, s = d.context.NewMapped(whole, t, d.ordinal)
		return s
	})
	if err != nil {
		return core.Memory{}, err
	}
	d.mapped.Store(m.Address, &mappedMemory{Mapped: m})
	return d.handOutToDrain(m.Address, size, func() {
		d.mapped.Delete(m.Address)
		_ = d.check(d.context.CloseMapped(m), "an allocation of %d bytes that could be exported", whole)
	}, func() { d.uncharge(whole, size) }), nil
}

// mappedMemory is mapped memory of a device, and the other devices that have access to it.
type mappedMemory struct {
	Mapped
	mu    sync.Mutex
	peers []int32
}

// mappedAt returns the mapped memory that was handed out with an address, or nil.
func (d *device) mappedAt(address uintptr) *mappedMemory {
	m, _ := d.mapped.Load(address)
	found, _ := m.(*mappedMemory)
	return found
}

// openTo gives a peer access to mapped memory of a buffer, so that it copies without the host. It does nothing for other
// memory, and if the peer cannot have access. While a stream waits for the value of a semaphore it does nothing
// either, since the driver may wait for all work: the copy does not need access.
func (d *device) openTo(p *device, b *core.Buffer) error {
	if err := b.Retain(); err != nil {
		return err
	}
	defer b.Release()
	m := d.mappedAt(b.Memory().Handle)
	if m == nil || p.ordinal == d.ordinal {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if slices.Contains(m.peers, p.ordinal) {
		return nil
	}
	can, s := d.backend.driver.CanAccessPeer(p.ordinal, d.ordinal)
	if err := d.check(s, "access of %v to %v", p.ID(), d.ID()); err != nil || !can {
		return err
	}
	var err error
	d.backend.waits.now(func() {
		if err = d.check(d.context.OpenMapped(m.Mapped, p.ordinal), "access of %v to exported memory of %v", p.ID(), d.ID()); err == nil {
			m.peers = append(m.peers, p.ordinal)
		}
	})
	return err
}

// allocOutsidePool calls allocate, which allocates whole bytes, of which size were asked for. The allocation
// counts in the pool's figures and towards its limit, until uncharge is called.
func (d *device) allocOutsidePool(whole, size int64, t core.HandleType, allocate func() Status) error {
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
	if s.Kind == OutOfMemory { // free blocks of the pool may be what is missing
		d.Mu.Lock()
		d.Reclaim()
		d.Mu.Unlock()
		s = d.allocate(false, allocate)
	}
	if err = d.check(s, "an allocation of %d bytes that can be exported as %v", whole, t); err != nil {
		d.uncharge(whole, size)
	}
	return err
}

func (d *device) uncharge(whole, size int64) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Charge(-whole, -size)
}

// ExportMemory makes a new descriptor or an IPC handle. Memory of another library, which came by ImportPointer, is exported
// as a descriptor if the library mapped it by virtual memory management, and allocated it for such handles. The Size of the
// result is that of the whole allocation: a multiple of the driver's granularity, which can be more than was asked for. A
// dma-buf also has these bytes.
func (d *device) ExportMemory(b *core.Buffer, t core.HandleType) (core.ExternalMemory, error) {
	const call = "ExportMemory"
	if err := d.Hold(call); err != nil {
		return core.ExternalMemory{}, err
	}
	defer d.Drop()
	return d.Export(b, t, d.exportTypes, func(m core.Memory) (core.ExternalMemory, error) {
		if t == core.HandleIPC {
			return d.exportIPC(m)
		}
		return d.exportMapped(m, t)
	})
}

// TryExport exports memory as a descriptor, and closes it: only the driver knows whether it exports memory of another
// library. An IPC handle is only looked up.
func (d *device) TryExport(b *core.Buffer, t core.HandleType) error {
	if err := d.Hold("ExportMemory"); err != nil {
		return err
	}
	defer d.Drop()
	return d.Device.TryExport(b, t, d.exportTypes, func(m core.Memory) error {
		if t == core.HandleIPC {
			return d.canExportIPC(m)
		}
		x, err := d.exportMapped(m, t)
		_ = x.Close()
		return err
	})
}

// exportMapped exports mapped memory: that of the device itself, or memory of another library.
func (d *device) exportMapped(m core.Memory, t core.HandleType) (core.ExternalMemory, error) {
	var fd int
	var of Mapped
	var err error
	switch mapped := d.mappedAt(m.Handle); {
	case mapped == nil:
		fd, of, err = d.exportForeign(m, t)
	case mapped.Type != t:
		err = d.notForExport(t)
	default:
		var s Status
		of = mapped.Mapped
		fd, s = d.context.ExportMapped(of)
		err = d.check(s, "the memory at %#x", of.Address)
	}
	if err != nil {
		return core.ExternalMemory{}, err
	}
	h, err := external.Export(t, fd)
	return core.ExternalMemory{
		Handle: h, Size: of.Size, Offset: int64(m.Handle-of.Address) + m.Offset, Length: m.Size,
		MemoryType: backendkit.NoMemoryType, DeviceUUID: d.Info.UUID,
	}, err
}

// notForExport is the error of ExportMemory for memory that was not allocated for export as t.
func (d *device) notForExport(t core.HandleType) error {
	return d.Errorf(core.ErrInvalid, "ExportMemory", "the buffer was not allocated with AllocOptions.Export = %v, or has no bytes", t)
}

// retainForeign returns the mapping of another library in which m lies, as PyTorch makes them for its expandable segments.
// The caller gives it to releaseForeign. It fails for other memory, and for memory in several mappings.
func (d *device) retainForeign(m core.Memory, t core.HandleType) (Mapped, error) {
	if m.ID.Type != d.backend.Device || m.Host != 0 || m.Size < 1 {
		return Mapped{}, d.notForExport(t)
	}
	p := m.Handle + uintptr(m.Offset)
	of, s := d.context.RetainMapped(p, t)
	switch s.Kind {
	case BadValue, NotFound:
		return Mapped{}, d.notForExport(t)
	case NotSupported:
		return Mapped{}, d.backend.statusf(core.ErrNotSupported, s, "the driver does not export memory of other libraries as %v: allocate with AllocOptions.Export, or copy", t)
	}
	if err := d.check(s, "the memory at %#x", p); err != nil {
		return Mapped{}, err
	}
	if room := of.Address + uintptr(of.Size) - p; uintptr(m.Size) > room {
		d.releaseForeign(of)
		return Mapped{}, d.Errorf(core.ErrInvalid, "ExportMemory", "%d bytes at %#x lie in several allocations of another library, of which the first one has %d of the bytes, and a handle names one allocation: copy the tensor", m.Size, p, room)
	}
	return of, nil
}

// releaseForeign ends what retainForeign began.
func (d *device) releaseForeign(of Mapped) {
	_ = d.check(d.context.ReleaseMapped(of), "a reference to memory of another library")
}

// exportForeign exports memory that another library has mapped. It returns a descriptor of all that was mapped at once, in
// which other tensors of the library may lie, and the mapping.
func (d *device) exportForeign(m core.Memory, t core.HandleType) (fd int, of Mapped, err error) {
	of, err = d.retainForeign(m, t)
	if err != nil {
		return 0, of, err
	}
	defer d.releaseForeign(of)
	p := m.Handle + uintptr(m.Offset)
	fd, s := d.context.ExportMapped(of)
	if s.Kind == BadValue || s.Kind == NotSupported {
		return 0, of, d.backend.statusf(core.ErrInvalid, s, "another library has allocated the memory at %#x, and not for handles of the type %v: let it allocate for export, or copy", p, t)
	}
	return fd, of, d.check(s, "the memory at %#x", p)
}

// CanExport asks the driver only for memory that the device has not mapped: it may be another library's. It does not ask
// whether the library allocated it for handles of type t; TryExport does.
func (d *device) CanExport(m core.Memory, t core.HandleType) error {
	if t == core.HandleIPC {
		return d.canExportIPC(m)
	}
	if mapped := d.mappedAt(m.Handle); mapped != nil {
		if mapped.Type != t {
			return d.notForExport(t)
		}
		return nil
	}
	if err := d.Hold("ExportMemory"); err != nil {
		return err
	}
	defer d.Drop()
	of, err := d.retainForeign(m, t)
	if err == nil {
		d.releaseForeign(of)
	}
	return err
}

// EndExport says that no other process has the memory of b open. Without this call, memory that was exported as
// HandleIPC is not freed before the device is closed: the driver does not say whether another process uses it.
// For mapped memory EndExport does nothing, since the driver counts its users.
func (d *device) EndExport(b *core.Buffer) error {
	return d.Device.EndExport(b, func(m core.Memory) error {
		if mapped := d.mappedAt(m.Handle); mapped != nil && mapped.Type != 0 || d.ipc.endExport(m.Handle) || d.isForeign(m) {
			return nil
		}
		return d.Errorf(core.ErrInvalid, "EndExport", "the buffer was not allocated with AllocOptions.Export, or has no bytes")
	})
}

// isForeign reports whether memory of another library can be exported as some descriptor, by making one.
func (d *device) isForeign(m core.Memory) bool {
	return slices.ContainsFunc(d.exportTypes, func(t core.HandleType) bool {
		if t == core.HandleIPC {
			return false
		}
		x, err := d.exportMapped(m, t)
		_ = x.Close()
		return err == nil
	})
}

// ImportMemory opens memory that another API exported, or this API in this process or another one. MemoryType
// says which of the two made an opaque descriptor: it is backendkit.NoMemoryType for this API. Only the UUID of the
// device is compared, since drivers of this API have no UUID.
func (d *device) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	const call = "ImportMemory"
	if err := d.EnterWith(ctx, core.CapImportMemory, call); err != nil {
		return core.Memory{}, err
	}
	if err := d.Hold(call); err != nil {
		return core.Memory{}, err
	}
	defer d.Drop()
	i := d.importer()
	if err := i.CheckMemory(m); err != nil {
		return core.Memory{}, err
	}
	own := m.Handle.Type() == core.HandleIPC || m.MemoryType == backendkit.NoMemoryType
	if own && m.DriverUUID != (core.UUID{}) {
		return core.Memory{}, d.Errorf(core.ErrDevice, call, "DriverUUID is %v, but the memory is of %s, whose drivers have no UUID", m.DriverUUID, d.backend.API)
	}
	if m.Handle.Type() == core.HandleIPC {
		return d.importIPC(m)
	}
	open := d.openExternal
	if own {
		open = d.openMapped
	}
	return i.Memory(m, func(fd int) (_ core.Memory, taken bool, err error) {
		address, release, taken, err := open(m, fd)
		if err != nil {
			return core.Memory{}, taken, err
		}
		return d.handOutToDrain(address+uintptr(m.Offset), m.Length, release, func() {}), taken, nil
	})
}

// importer returns what handles are checked against.
func (d *device) importer() *external.Importer {
	return &external.Importer{Backend: d.backend.Name(), Types: d.importTypes, Vendor: d.backend.Vendor, DeviceUUID: d.Info.UUID}
}

// openExternal opens memory of a graphics API.
func (d *device) openExternal(m core.ExternalMemory, fd int) (address uintptr, release func(), taken bool, err error) {
	x, s := d.context.ImportExternal(fd, m.Size, m.Dedicated)
	if err := d.check(s, "the descriptor is not memory of this device, or has fewer than %d bytes, which is Size", m.Size); err != nil {
		return 0, nil, true, err
	}
	return x.Address, func() { _ = d.check(d.context.CloseExternal(x), "imported memory") }, true, nil
}

// openMapped opens mapped memory, which a driver of this API exported. The driver does not take the descriptor:
// it has a reference of its own.
func (d *device) openMapped(m core.ExternalMemory, fd int) (address uintptr, release func(), taken bool, err error) {
	if !slices.Contains(d.exportTypes, core.HandleOpaqueFD) { // the driver has both or neither
		return 0, nil, false, d.Errorf(core.ErrNotSupported, "ImportMemory", "the device does not export memory as %v, and cannot import such memory of %s", core.HandleOpaqueFD, d.backend.API)
	}
	unit, s := d.backend.driver.Granularity(d.ordinal, core.HandleOpaqueFD, false)
	if err := d.check(s, "the granularity of mapped memory of %v", d.ID()); err != nil {
		return 0, nil, false, err
	}
	if m.Size%unit != 0 || m.Size > d.Info.TotalMemory {
		return 0, nil, false, d.Errorf(core.ErrInvalid, "ImportMemory", "Size is %d bytes: it must be the size of the whole allocation, which for memory of %s is a multiple of %d and at most the device's %d", m.Size, d.backend.API, unit, d.Info.TotalMemory)
	}
	v, s := d.context.ImportMapped(fd, m.Size, d.ordinal)
	if err := d.check(s, "the descriptor is not memory of %s, or has fewer than %d bytes, which is Size", d.backend.API, m.Size); err != nil {
		return 0, nil, false, err
	}
	handed := v.Address + uintptr(m.Offset)
	d.mapped.Store(handed, &mappedMemory{Mapped: v})
	return v.Address, func() {
		d.mapped.Delete(handed)
		_ = d.check(d.context.CloseMapped(v), "imported memory")
	}, false, nil
}
