package shell

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlx-go/dlx/core"
)

// memory owns what a device has handed out.
type memory struct {
	device        *Device
	locked, after func()
	freed         atomic.Bool
}

var _ core.OrderedOwner = (*memory)(nil)

// HandOut makes m memory of the device. When m is freed, locked is called with Mu held, and
// then after without it; either may be nil. Until both have returned the memory counts as
// open. Mu is held.
func (d *Device) HandOut(m core.Memory, locked, after func()) core.Memory {
	d.CountMemory()
	m.Device = d.self
	m.Owner = &memory{device: d, locked: locked, after: after}
	return m
}

// CountMemory counts memory that a caller gets. Mu is held.
func (d *Device) CountMemory() {
	d.Memories++
	d.live.Memory.Add(1)
}

// DropMemory counts memory that was freed. Mu is held.
func (d *Device) DropMemory() {
	d.Memories--
	d.live.Memory.Add(-1)
}

// Free gives the memory back. Another call does nothing.
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

// FreeAfter gives the memory back when pending is done. [Device.Shut] waits for it.
func (m *memory) FreeAfter(pending []core.Event) { m.device.Reaper.After(pending, m.Free) }

// CheckOptions refuses an Alloc that asks for another type of memory than the device's, or
// for an export as what is not in exports.
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

// CheckSize refuses an Alloc of a negative size, or of a closed device. Mu is held.
func (d *Device) CheckSize(size int64) error {
	if size < 0 {
		return d.Errorf(core.ErrInvalid, "Alloc", "size is %d bytes", size)
	}
	return d.IsOpen("Alloc")
}

// Map is MapHost: f maps m, which is memory of the host of known size, and what it returns
// releases the buffer when it is freed. If f fails, Map releases the buffer.
func (d *Device) Map(ctx context.Context, host *core.Buffer, f func(m core.Memory) (core.Memory, error)) (core.Memory, error) {
	const call = "MapHost"
	if err := d.EnterWith(ctx, core.CapMapHost, call); err != nil {
		return core.Memory{}, err
	}
	return held(d, call, host, func(m core.Memory) (core.Memory, error) {
		switch {
		case !m.ID.Type.HostAccessible():
			return core.Memory{}, d.Errorf(core.ErrInvalid, call, "the buffer lies on %v, which the host cannot reach: view it first, where its device can show it", m.ID)
		case m.Size < 0:
			return core.Memory{}, d.Errorf(core.ErrInvalid, call, "the size of the buffer is not known")
		}
		return f(m)
	})
}

// View is HostView: address tells where the host sees the handle of m, memory of the device
// with at least a byte.
func (d *Device) View(ctx context.Context, b *core.Buffer, address func(m core.Memory) (uintptr, error)) (core.Memory, error) {
	const call = "HostView"
	if err := d.Info.Require(core.CapHostView, call); err != nil {
		return core.Memory{}, err
	}
	if err := d.Begin(ctx, call); err != nil {
		return core.Memory{}, err
	}
	return held(d, call, b, func(m core.Memory) (core.Memory, error) {
		view := core.Memory{ID: core.CPU, Size: m.Size, Owner: core.FreeFunc(sync.OnceFunc(b.Release))}
		if m.Device != d.self {
			return view, d.Errorf(core.ErrDevice, call, "the buffer belongs to another device")
		}
		if m.Size == 0 {
			return view, nil
		}
		base, err := address(m)
		view.Handle = base + uintptr(m.Offset)
		return view, err
	})
}

// held calls f with the memory of b, of which it takes a reference that is f's if f succeeds.
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
	if m.Device != d.self {
		return d.Errorf(core.ErrDevice, call, "the buffer belongs to another device")
	}
	return f(m)
}

// Export is ExportMemory: f exports m, memory of the device, as t, which is one of types.
func (d *Device) Export(b *core.Buffer, t core.HandleType, types []core.HandleType, f func(m core.Memory) (core.ExternalMemory, error)) (core.ExternalMemory, error) {
	const call = "ExportMemory"
	fail := func(sentinel error, format string, args ...any) (core.ExternalMemory, error) {
		return core.ExternalMemory{}, d.Errorf(sentinel, call, format, args...)
	}
	if err := d.Info.Require(core.CapExportMemory, call); err != nil {
		return core.ExternalMemory{}, err
	}
	switch {
	case !slices.Contains(types, t):
		return fail(core.ErrNotSupported, "the device exports %v, not %v", types, t)
	case b == nil:
		return fail(core.ErrInvalid, "the buffer is nil")
	}
	if err := b.Retain(); err != nil {
		return core.ExternalMemory{}, err
	}
	defer b.Release()
	m := b.Memory()
	if m.Device != d.self {
		return fail(core.ErrDevice, "the buffer belongs to another device")
	}
	x, err := f(m)
	if err == nil {
		b.Exported(x)
	}
	return x, err
}
