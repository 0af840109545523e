package cpu

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/backends/internal/external"
	"github.com/dlx-go/dlx/core"
)

var (
	_ core.MemoryExporter = (*device)(nil)
	_ core.MemoryImporter = (*device)(nil)
)

// ExportTypes are memfd descriptors, if the system has them.
func (d *device) ExportTypes() []core.HandleType {
	if !d.Info.Capabilities.Has(core.CapExportMemory) {
		return nil
	}
	return slices.Clone(importer.Types)
}

// ImportTypes are the same as ExportTypes.
func (d *device) ImportTypes() []core.HandleType { return d.ExportTypes() }

// importer describes what the host can import. The host has no UUID.
var importer = external.Importer{Backend: "cpu", Types: []core.HandleType{core.HandleMemFD}}

// shared is exportable memory: a memfd that is mapped in this process.
type shared struct {
	mapping
	device    *device
	handle    *core.Handle
	requested int64
	freed     bool // guarded by device.Mu
}

var _ backendkit.OrderedOwner = (*shared)(nil)

// allocShared allocates memory on a memfd. It counts against the pool's limit, but it is not reused, since
// processes that have a descriptor can still write to it.
func (d *device) allocShared(size int64) (uintptr, core.Owner, error) {
	if err := probeMemFD(); err != nil {
		return 0, nil, err
	}
	if size == 0 {
		return d.allocBlock(0)
	}
	whole, err := wholePages(size)
	if err != nil {
		return 0, nil, err
	}
	if err := d.MakeRoom(whole); err != nil {
		return 0, nil, err
	}
	h, m, err := newMemFD(whole)
	if err != nil {
		return 0, nil, err
	}
	d.Charge(whole, size)
	s := &shared{mapping: m, device: d, handle: h, requested: size}
	d.exports[m.addr] = s
	return m.addr, s, nil
}

// Free unmaps the memory and closes this process's descriptor. The memory lives as long as other processes
// have it open. Another call does nothing.
func (s *shared) Free() {
	d := s.device
	d.Mu.Lock()
	defer d.Mu.Unlock()
	if s.freed {
		return
	}
	s.freed = true
	delete(d.exports, s.addr)
	d.Charge(-s.size, -s.requested)
	s.unmap()
	_ = s.handle.Close()
	d.DropMemory()
}

// FreeAfter frees the memory when pending is done.
func (s *shared) FreeAfter(pending []core.Event) { s.device.Reaper.After(pending, s.Free) }

// ExportMemory duplicates the descriptor of memory that was allocated with Export. It fails with
// ErrNotSupported for another handle type, ErrDevice for memory of another device, ErrClosed for a released
// buffer, and ErrInvalid if b was not allocated for export.
func (d *device) ExportMemory(b *core.Buffer, t core.HandleType) (core.ExternalMemory, error) {
	return d.Export(b, t, d.ExportTypes(), func(m core.Memory) (core.ExternalMemory, error) {
		// An imported pointer may lie on the same address: then b does not hold s.
		d.Mu.Lock()
		defer d.Mu.Unlock()
		s := d.exports[m.Handle]
		if s == nil || m.Offset+m.Size > s.size {
			return core.ExternalMemory{}, d.Errorf(core.ErrInvalid, "ExportMemory", "the buffer was not allocated with AllocOptions.Export = %v, or has no bytes", t)
		}
		h, err := s.handle.Duplicate()
		return core.ExternalMemory{Handle: h, Size: s.size, Offset: m.Offset, Length: m.Size}, err
	})
}

// EndExport does nothing: the system counts who has a memfd open.
func (d *device) EndExport(b *core.Buffer) error {
	return d.Device.EndExport(b, func(m core.Memory) error {
		d.Mu.Lock()
		defer d.Mu.Unlock()
		if s := d.exports[m.Handle]; s == nil || m.Offset+m.Size > s.size {
			return d.Errorf(core.ErrInvalid, "EndExport", "the buffer was not allocated with AllocOptions.Export, or has no bytes")
		}
		return nil
	})
}

// ImportMemory maps a memfd and closes the descriptor. If the descriptor is open for reading only, or the file is sealed
// against writing, the memory is mapped for reading, and Memory.ReadOnly is true: a write through a pointer ends the
// process. In addition to the errors of its interface, ImportMemory fails with ErrNotSupported for another handle type, and
// with ErrInvalid if the file is not sealed against shrinking, since an access beyond its end would end the process. The
// result starts on a multiple of 256 bytes only if m.Offset does.
func (d *device) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	if err := d.EnterWith(ctx, core.CapImportMemory, "ImportMemory"); err != nil {
		return core.Memory{}, err
	}
	if err := importer.CheckMemory(m); err != nil {
		return core.Memory{}, err
	}
	mapped, skip, readOnly, err := mapMemFD(m)
	if err != nil {
		return core.Memory{}, err
	}
	memory, err := d.newMemory("ImportMemory", mapped.addr+uintptr(skip), m.Length, core.FreeFunc(mapped.unmap))
	if err != nil {
		mapped.unmap()
		return core.Memory{}, err
	}
	memory.Backing, memory.ReadOnly = m.Backing(), readOnly
	_ = m.Close()
	return memory, nil
}
