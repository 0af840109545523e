package backendtest

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

// sharer is all that the CPU can do where it has descriptors of memory.
type sharer interface {
	core.Device
	core.PointerImporter
	core.PoolController
	core.SemaphoreCreator
	core.MemoryExporter
	core.MemoryImporter
}

// sharingDevice is the CPU, which exports and imports as its hooks say.
type sharingDevice struct {
	sharer
	export  func(*sharingDevice, *core.Buffer, core.HandleType) (core.ExternalMemory, error)
	open    func(*sharingDevice, context.Context, core.ExternalMemory) (core.Memory, error)
	end     func(*core.Buffer) error
	types   []core.HandleType // that it claims to export besides
	refuses error             // of CanExport
	wipe    bool              // memory when it is freed, the memory of others too
	undo    []func()
	busy    atomic.Int32 // calls on their way, where a mutant counts them
}

var _ sharer = (*sharingDevice)(nil)

func (d *sharingDevice) mine(m core.Memory, err error) (core.Memory, error) {
	if m.Device != nil {
		m.Device = d
	}
	return m, err
}

func (d *sharingDevice) Alloc(ctx context.Context, size int64, o core.AllocOptions) (core.Memory, error) {
	m, err := d.sharer.Alloc(ctx, size, o)
	if free := m.Owner; d.wipe && err == nil {
		bytes := unsafe.Slice(*(**byte)(unsafe.Pointer(&m.Handle)), size)
		m.Owner = core.FreeFunc(func() {
			clear(bytes)
			free.Free()
		})
	}
	return d.mine(m, err)
}

func (d *sharingDevice) ExportTypes() []core.HandleType {
	return append(d.sharer.ExportTypes(), d.types...)
}

func (d *sharingDevice) CanExport(core.Memory, core.HandleType) error { return d.refuses }

func (d *sharingDevice) CanView(core.Memory) error { return nil }

func (d *sharingDevice) ExportMemory(b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
	if d.export != nil {
		return d.export(d, b, h)
	}
	return d.exportTrue(b, h)
}

// exportTrue exports b, as memory of the CPU.
func (d *sharingDevice) exportTrue(b *core.Buffer, h core.HandleType) (x core.ExternalMemory, err error) {
	err = d.asCPU(b, func(own *core.Buffer) error {
		x, err = d.sharer.ExportMemory(own, h)
		return err
	})
	return x, err
}

// asCPU calls f with b as memory of the CPU.
func (d *sharingDevice) asCPU(b *core.Buffer, f func(*core.Buffer) error) error {
	if b == nil || b.Retain() != nil {
		return f(b)
	}
	defer b.Release()
	m := b.Memory()
	m.Device, m.Owner = d.sharer, nil
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
	if err != nil {
		return err
	}
	defer t.Close()
	own, err := t.Buffer()
	if err != nil {
		return err
	}
	return f(own)
}

func (d *sharingDevice) EndExport(b *core.Buffer) error {
	if d.end != nil {
		return d.end(b)
	}
	return d.asCPU(b, d.sharer.EndExport)
}

// exportCopy exports other memory with the contents of b.
func (d *sharingDevice) exportCopy(b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
	ctx, shape := context.Background(), []int64{b.Memory().Size}
	src, err := core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: shape})
	if err != nil {
		return core.ExternalMemory{}, err
	}
	defer src.Close()
	dst, err := core.Empty(ctx, d.sharer, core.TypeUint8, shape, core.AllocOptions{Export: h})
	if err != nil {
		return core.ExternalMemory{}, err
	}
	defer dst.Close()
	if err := d.Copy(ctx, nil, dst, src); err != nil {
		return core.ExternalMemory{}, err
	}
	other, err := dst.Buffer()
	if err != nil {
		return core.ExternalMemory{}, err
	}
	return d.sharer.ExportMemory(other, h)
}

func (d *sharingDevice) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	if d.open != nil {
		return d.mine(d.open(d, ctx, m))
	}
	return d.mine(d.sharer.ImportMemory(ctx, m))
}

func TestSuiteFindsMutantsThatShareMemory(t *testing.T) {
	if !openAndClose(t, openCPU).Capabilities.Has(core.CapExportMemory | core.CapImportMemory) {
		t.Skip("the CPU exports no memory here")
	}
	found := make(map[string]bool)
	for _, m := range []struct {
		name   string
		device *sharingDevice
		fails  string
		says   string
	}{
		{"exports a copy", &sharingDevice{export: (*sharingDevice).exportCopy},
			"export-memory/same-memory", "the origin, after a write to the import"},
		{"keeps a descriptor of every export", &sharingDevice{export: keepExport},
			"export-memory/descriptor", "left 20 descriptors open"},
		{"keeps a descriptor of every import", &sharingDevice{open: keepDescriptor},
			"export-memory/handle", "left 20 descriptors open"},
		{"imports from the start", &sharingDevice{open: forgetOffset},
			"export-memory/part", "the import of a part"},
		{"is not safe for concurrent use", &sharingDevice{open: oneImportAtATime},
			"hammer/export-memory", "two calls at once"},
		{"exports memory of another device", &sharingDevice{export: exportUUID},
			"export-memory/identity", "UUIDs of device and driver"},
		{"says that it exports nothing", &sharingDevice{refuses: core.Errorf(core.ErrInvalid, "fake", "ExportMemory", "no")},
			"export-memory/checked", "and the error of ExportMemory is <nil>"},
		{"exports plain memory", &sharingDevice{export: (*sharingDevice).exportCopy},
			"export-memory/plain-memory", "memory that was not allocated for it was exported"},
		{"forgets the descriptor of an import", &sharingDevice{open: forgetDescriptor},
			"export-memory/handle", "is still open"},
		{"leaves the handle of an import", &sharingDevice{open: leaveHandle},
			"export-memory/handle", "Duplicate of a handle that was imported: error <nil>"},
		{"closes the handle of an import that failed", &sharingDevice{open: closeHandle},
			"export-memory/refused-import", "Duplicate of mem_fd"},
		{"exports what cannot be sent", &sharingDevice{export: exportBeyond},
			"export-memory/message", "MarshalWithFDs"},
		{"ends the export of any memory", &sharingDevice{end: func(*core.Buffer) error { return nil }},
			"export-memory/end", "EndExport of nil: error <nil>"},
		{"wipes memory when it is freed", &sharingDevice{wipe: true},
			"export-memory/outlives-the-buffer", "the import, after the origin was closed"},
		{"claims to export more", &sharingDevice{types: []core.HandleType{core.HandleDMABuf}},
			"export-memory/types", "Alloc for export as dma_buf"},
		{"imports whatever it gets", &sharingDevice{open: forgetType},
			"import-memory/types", "the import of dma_buf: error"},
		{"imports from any device", &sharingDevice{open: forgetUUIDs},
			"export-memory/refused-import", "another device's UUID: error <nil>"},
	} {
		found[m.fails] = true
		t.Run(m.name, func(t *testing.T) {
			var opened []*sharingDevice // one for each try, since calls of the one before may not have returned
			wantFailure(t, m.fails, m.says, func(tb testing.TB) core.Device {
				like := m.device
				d := &sharingDevice{sharer: openCPU(tb).(sharer), export: like.export, open: like.open, end: like.end, types: like.types, wipe: like.wipe, refuses: like.refuses}
				opened = append(opened, d)
				return d
			})
			for _, d := range opened {
				for _, f := range d.undo {
					f()
				}
			}
		})
	}
	for _, c := range append(slices.Clone(memoryCases), caseNamed(t, "hammer/export-memory")) {
		if !found[c.Name] {
			t.Errorf("%s: no mutant shows that it can fail", c.Name)
		}
		// The hooks alone make the difference.
		r := record(t, c, func(tb testing.TB) core.Device { return &sharingDevice{sharer: openCPU(tb).(sharer)} })
		if r.Failed() || r.skipped {
			t.Errorf("%s, without hooks: %q", c.Name, r.log)
		}
	}
}

func exportUUID(d *sharingDevice, b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
	m, err := d.exportTrue(b, h)
	m.DeviceUUID[0]++
	return m, err
}

func exportBeyond(d *sharingDevice, b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
	m, err := d.exportTrue(b, h)
	m.Length = m.Size - m.Offset + 1
	return m, err
}

// forgetDescriptor takes the descriptor and does not close it.
func forgetDescriptor(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	given := m
	m, err := m.Duplicate()
	if err != nil {
		return core.Memory{}, err
	}
	if number, err := given.Handle.Take(); err == nil {
		d.undo = append(d.undo, func() { _ = syscall.Close(int(number)) })
	}
	return d.sharer.ImportMemory(ctx, m)
}

// keepExport opens a second descriptor.
func keepExport(d *sharingDevice, b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
	m, err := d.exportTrue(b, h)
	if err == nil {
		kept, failed := m.Duplicate()
		d.undo, err = append(d.undo, func() { _ = kept.Close() }), failed
	}
	return m, err
}

// keepDescriptor opens a second descriptor.
func keepDescriptor(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	kept, err := m.Duplicate()
	if err != nil {
		return core.Memory{}, err
	}
	d.undo = append(d.undo, func() { _ = kept.Close() })
	return d.sharer.ImportMemory(ctx, m)
}

func leaveHandle(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	m, err := m.Duplicate()
	if err != nil {
		return core.Memory{}, err
	}
	return d.sharer.ImportMemory(ctx, m)
}

func forgetOffset(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	m.Offset = 0
	return d.sharer.ImportMemory(ctx, m)
}

func oneImportAtATime(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	defer d.busy.Add(-1)
	if d.busy.Add(1) > 1 {
		return core.Memory{}, core.Errorf(core.ErrInvalid, "mutant", "ImportMemory", "two calls at once")
	}
	time.Sleep(time.Millisecond) // for the others to come
	return d.sharer.ImportMemory(ctx, m)
}

func closeHandle(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	memory, err := d.sharer.ImportMemory(ctx, m)
	if err != nil {
		_ = m.Close()
	}
	return memory, err
}

// forgetType takes any descriptor for one of a memfd.
func forgetType(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	if number, err := m.Handle.Take(); err == nil {
		if m.Handle, err = backendkit.NewHandle(core.HandleMemFD, number); err != nil {
			return core.Memory{}, err
		}
		defer m.Close()
	}
	return d.sharer.ImportMemory(ctx, m)
}

func forgetUUIDs(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	m.DeviceUUID, m.DriverUUID = core.UUID{}, core.UUID{}
	return d.sharer.ImportMemory(ctx, m)
}
