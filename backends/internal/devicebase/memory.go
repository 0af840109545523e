package devicebase

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/hostmem"
)

// memory is the owner of memory that a device has allocated or imported.
type memory struct {
	device        *Device
	locked, after func()
	freed         atomic.Bool
}

var _ backendkit.OrderedOwner = (*memory)(nil)

// HandOut returns m as memory of the device, with an owner. When the owner is freed, it calls locked with Mu
// held, and then after without Mu. Either may be nil. The memory counts as open until both have returned. Mu
// is held.
func (d *Device) HandOut(m core.Memory, locked, after func()) core.Memory {
	d.CountMemory()
	m.Device = d.self
	m.Owner = &memory{device: d, locked: locked, after: after}
	return m
}

// CountMemory counts memory that is returned to a caller. Mu is held.
func (d *Device) CountMemory() {
	d.Memories++
	d.memory.Add(1)
}

// DropMemory counts memory that was freed. Mu is held.
func (d *Device) DropMemory() {
	d.Memories--
	d.memory.Add(-1)
}

// Free frees the memory. Another call does nothing.
func (m *memory) Free() {
	if m.freed.Swap(true) {
		return
	}
	d := m.device
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if m.locked != nil {
		m.locked()
	}
	if m.after != nil {
		d.Mu.Unlock()
		m.after()
		d.Mu.Lock()
	}
	d.DropMemory()
}

// FreeAfter frees the memory when pending is done. [Device.Shut] waits for it.
func (m *memory) FreeAfter(pending []core.Event) { m.device.Reaper.After(pending, m.Free) }

// CheckOptions fails with ErrNotSupported if opts asks for another type of memory than the device's, or for
// an export type that is not in exports.
func (d *Device) CheckOptions(opts core.AllocOptions, exports []core.HandleType) error {
	const call = "Alloc"
	switch own := d.Info.ID.Type; {
	case opts.Type != 0 && opts.Type != own:
		return d.Errorf(core.ErrNotSupported, call, "AllocOptions.Type is %v; this device has memory of type %v only", opts.Type, own)
	case opts.Export != 0 && !slices.Contains(exports, opts.Export):
		return d.Errorf(core.ErrNotSupported, call, "AllocOptions.Export is %v; this device exports memory as %v: allocate where it can be exported, and import it here", opts.Export, exports)
	}
	return nil
}

// CheckSize fails for a negative size, and if the device is closed. Mu is held.
func (d *Device) CheckSize(size int64) error {
	if size < 0 {
		return d.Errorf(core.ErrInvalid, "Alloc", "size is %d bytes", size)
	}
	return d.IsOpen("Alloc")
}

// CheckMap is what CanMap of every device checks of m. readOnly says whether the driver maps memory that the host
// cannot write.
func (d *Device) CheckMap(m core.Memory, readOnly bool) error {
	const call = "MapHost"
	if err := d.Info.Require(core.CapMapHost, call); err != nil {
		return err
	}
	switch {
	case !m.ID.Type.HostAccessible():
		return d.Errorf(core.ErrInvalid, call, "the buffer lies on %v, which the host cannot reach: view it first, if its device is a core.HostViewer", m.ID)
	case m.ReadOnly && !readOnly:
		return d.Errorf(core.ErrReadOnly, call, "the host can only read the memory, and a driver pins pages to write to them: copy it")
	}
	return nil
}

// Map implements MapHost. can is CanMap of the device. f maps m, which is host memory of known size; m.ReadOnly is
// true if the host cannot write it. The memory that f returns releases host when it is freed. If f fails, Map
// releases host.
func (d *Device) Map(ctx context.Context, host *core.Buffer, can func(m core.Memory) error, f func(m core.Memory) (core.Memory, error)) (core.Memory, error) {
	const call = "MapHost"
	if err := d.EnterWith(ctx, core.CapMapHost, call); err != nil {
		return core.Memory{}, err
	}
	return held(d, call, host, func(m core.Memory) (core.Memory, error) {
		if err := can(m); err != nil {
			return core.Memory{}, err
		}
		if m.Size < 0 {
			return core.Memory{}, d.Errorf(core.ErrInvalid, call, "the size of the buffer is unknown")
		}
		if !m.ReadOnly && host.ReadOnly() && !hostmem.CanWrite(m.Handle+uintptr(m.Offset), m.Size) {
			m.ReadOnly = true
			if err := can(m); err != nil {
				return core.Memory{}, err
			}
		}
		mapped, err := f(m)
		mapped.Origin, mapped.ReadOnly = m.OriginType(), m.ReadOnly
		return mapped, err
	})
}

// View implements HostView. address returns the address at which the host sees the handle of m, which is
// memory of the device and not empty.
func (d *Device) View(ctx context.Context, b *core.Buffer, address func(m core.Memory) (uintptr, error)) (core.Memory, error) {
	const call = "HostView"
	if err := d.Info.Require(core.CapHostView, call); err != nil {
		return core.Memory{}, err
	}
	if err := d.Begin(ctx, call); err != nil {
		return core.Memory{}, err
	}
	return held(d, call, b, func(m core.Memory) (core.Memory, error) {
		view := core.Memory{ID: core.CPU, Size: m.Size, Origin: m.OriginType(), ReadOnly: m.ReadOnly, Owner: core.FreeFunc(sync.OnceFunc(b.Release))}
		if err := d.owns(call, m); err != nil {
			return view, err
		}
		if m.Size == 0 {
			return view, nil
		}
		base, err := address(m)
		view.Handle = base + uintptr(m.Offset)
		return view, err
	})
}

// CanExport of a device that cannot tell which of its memory it exports: see [backendkit.ShareChecker].
func (d *Device) CanExport(core.Memory, core.HandleType) error { return nil }

// CanView is CanExport for HostView.
func (d *Device) CanView(core.Memory) error { return nil }

// held calls f with the memory of b. It takes a reference to b, which f owns if it succeeds.
func held(d *Device, call string, b *core.Buffer, f func(core.Memory) (core.Memory, error)) (core.Memory, error) {
	if b == nil {
		return core.Memory{}, d.Errorf(core.ErrInvalid, call, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return core.Memory{}, err
	}
	m, err := f(b.Memory())
	if err != nil {
		b.Release()
		return core.Memory{}, err
	}
	return m, nil
}

// owns fails with ErrDevice unless m is memory of the device. The error says what the caller can do instead.
func (d *Device) owns(call string, m core.Memory) error {
	const format = "the buffer is memory of %v, and not of this device, %v: "
	id := d.Info.ID
	switch {
	case m.Device == d.self:
		return nil
	case m.Device != nil && m.ID == id:
		return d.Errorf(core.ErrDevice, call, "the buffer belongs to %v as it was opened another time: call %s of that core.Device", id, call)
	case m.Device != nil:
		return d.Errorf(core.ErrDevice, call, format+"call %s of that device, or move the tensor here by exchange.To", m.ID, id, call)
	case m.ID == core.CPU:
		return d.Errorf(core.ErrDevice, call, "the buffer is memory of the host that no device allocated, such as that of core.FromSlice: make a tensor of this device, %v, by core.Empty with the core.AllocOptions that %s needs, and copy into it", id, call)
	case m.ID == id:
		return d.Errorf(core.ErrDevice, call, "the buffer is memory of another library, and no opened device has it: import it by ImportPointer of this device, %v", id)
	}
	return d.Errorf(core.ErrDevice, call, format+"import it by ImportPointer of a device of that type", m.ID, id)
}

// EndExport is the method of [core.MemoryExporter]: f checks that m, memory of the device,
// was allocated for export, and does what is to be done.
func (d *Device) EndExport(b *core.Buffer, f func(m core.Memory) error) error {
	const call = "EndExport"
	if err := d.Info.Require(core.CapExportMemory, call); err != nil {
		return err
	}
	if b == nil {
		return d.Errorf(core.ErrInvalid, call, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return err
	}
	defer b.Release()
	m := b.Memory()
	if err := d.owns(call, m); err != nil {
		return err
	}
	return f(m)
}

// Export is ExportMemory: f exports m, memory of the device, as t, which is one of types.
func (d *Device) Export(b *core.Buffer, t core.HandleType, types []core.HandleType, f func(m core.Memory) (core.ExternalMemory, error)) (x core.ExternalMemory, err error) {
	err = d.exporting(b, t, types, func(m core.Memory) error {
		if x, err = f(m); err == nil {
			b.Exported(x)
		}
		return err
	})
	return x, err
}

// TryExport is TryExport of [backendkit.ExportTrier]: f is called as that of Export, and checks m.
func (d *Device) TryExport(b *core.Buffer, t core.HandleType, types []core.HandleType, f func(m core.Memory) error) error {
	return d.exporting(b, t, types, f)
}

// exporting calls f with the memory of b, if ExportMemory may export it as t.
func (d *Device) exporting(b *core.Buffer, t core.HandleType, types []core.HandleType, f func(m core.Memory) error) error {
	const call = "ExportMemory"
	if err := d.Info.Require(core.CapExportMemory, call); err != nil {
		return err
	}
	switch {
	case !slices.Contains(types, t):
		return d.Errorf(core.ErrNotSupported, call, "the device exports %v, not %v", types, t)
	case b == nil:
		return d.Errorf(core.ErrInvalid, call, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return err
	}
	defer b.Release()
	m := b.Memory()
	if err := d.owns(call, m); err != nil {
		return err
	}
	return f(m)
}
