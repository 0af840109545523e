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
	hooks sharingHooks
	undo  []func()
	busy  atomic.Int32 // calls on their way, where a mutant counts them
}

type sharingHooks struct {
	export  func(*sharingDevice, *core.Buffer, core.HandleType) (core.ExternalMemory, error)
	open    func(*sharingDevice, context.Context, core.ExternalMemory) (core.Memory, error)
	end     func(*core.Buffer) error
	types   []core.HandleType // that it claims to export besides
	refuses error             // of CanExport
	wipe    bool              // memory when it is freed, the memory of others too
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
	if free := m.Owner; d.hooks.wipe && err == nil {
		bytes := unsafe.Slice(*(**byte)(unsafe.Pointer(&m.Handle)), size)
		m.Owner = core.FreeFunc(func() {
			clear(bytes)
			free.Free()
		})
	}
	return d.mine(m, err)
}

func (d *sharingDevice) ExportTypes() []core.HandleType {
	return append(d.sharer.ExportTypes(), d.hooks.types...)
}

func (d *sharingDevice) CanExport(core.Memory, core.HandleType) error { return d.hooks.refuses }

func (d *sharingDevice) CanView(core.Memory) error { return nil }

func (d *sharingDevice) ExportMemory(b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
	if d.hooks.export != nil {
		return d.hooks.export(d, b, h)
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
	m.Device = d.sharer
	_, err := asBuffer(m, func(own *core.Buffer) (core.Memory, error) { return m, f(own) })
	return err
}

func (d *sharingDevice) EndExport(b *core.Buffer) error {
	if d.hooks.end != nil {
		return d.hooks.end(b)
	}
	return d.asCPU(b, d.sharer.EndExport)
}

// exportCopy exports other memory with the contents of b.
func exportCopy(d *sharingDevice, b *core.Buffer, h core.HandleType) (x core.ExternalMemory, err error) {
	ctx, shape := context.Background(), []int64{b.Memory().Size}
	err = use(core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: shape}))(func(src *core.Tensor) error {
		return use(core.Empty(ctx, d.sharer, core.TypeUint8, shape, core.AllocOptions{Export: h}))(func(dst *core.Tensor) error {
			if err := d.Copy(ctx, nil, dst, src); err != nil {
				return err
			}
			other, err := dst.Buffer()
			if err == nil {
				x, err = d.sharer.ExportMemory(other, h)
			}
			return err
		})
	})
	return x, err
}

func (d *sharingDevice) ImportMemory(ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	if d.hooks.open != nil {
		return d.mine(d.hooks.open(d, ctx, m))
	}
	return d.mine(d.sharer.ImportMemory(ctx, m))
}

func TestSuiteFindsMutantsThatShareMemory(t *testing.T) {
	if !openAndClose(t, openCPU).Capabilities.Has(core.CapExportMemory | core.CapImportMemory) {
		t.Skip("the CPU exports no memory here")
	}
	open := func(t *testing.T, h sharingHooks) (func(testing.TB) core.Device, []Options) {
		return func(tb testing.TB) core.Device {
			d := &sharingDevice{sharer: openCPU(tb).(sharer), hooks: h}
			t.Cleanup(func() { // not sooner: calls of an earlier try may not have returned
				for _, f := range d.undo {
					f()
				}
			})
			return d
		}, nil
	}
	cases := append(slices.Clone(memoryCases), casesNamed(t, "hammer/export-memory")...)
	findMutants(t, cases, []mutant[sharingHooks]{
		{"exports a copy", "export-memory/same-memory", "the origin, after a write to the import", sharingHooks{export: exportCopy}},
		{"keeps a descriptor of every export", "export-memory/descriptor", "left 20 descriptors open", sharingHooks{export: keepExport}},
		{"keeps a descriptor of every import", "export-memory/handle", "left 20 descriptors open", sharingHooks{open: keepDescriptor}},
		{"imports from the start", "export-memory/part", "the import of a part",
			importsOther(func(m *core.ExternalMemory) error { m.Offset = 0; return nil })},
		{"is not safe for concurrent use", "hammer/export-memory", "two calls at once", sharingHooks{open: oneImportAtATime}},
		{"exports memory of another device", "export-memory/identity", "UUIDs of device and driver",
			exportsOther(func(m *core.ExternalMemory) { m.DeviceUUID[0]++ })},
		{"says that it exports nothing", "export-memory/checked", "and the error of ExportMemory is <nil>",
			sharingHooks{refuses: core.Errorf(core.ErrInvalid, "fake", "ExportMemory", "no")}},
		{"exports plain memory", "export-memory/plain-memory", "memory that was not allocated for it was exported", sharingHooks{export: exportCopy}},
		{"forgets the descriptor of an import", "export-memory/handle", "is still open", sharingHooks{open: forgetDescriptor}},
		{"leaves the handle of an import", "export-memory/handle", "Duplicate of a handle that was imported: error <nil>",
			importsOther(func(m *core.ExternalMemory) (err error) { *m, err = m.Duplicate(); return err })},
		{"closes the handle of an import that failed", "export-memory/refused-import", "Duplicate of mem_fd", sharingHooks{open: closeHandle}},
		{"exports what cannot be sent", "export-memory/message", "MarshalWithFDs",
			exportsOther(func(m *core.ExternalMemory) { m.Length = m.Size - m.Offset + 1 })},
		{"ends the export of any memory", "export-memory/end", "EndExport of nil: error <nil>",
			sharingHooks{end: func(*core.Buffer) error { return nil }}},
		{"wipes memory when it is freed", "export-memory/outlives-the-buffer", "the import, after the origin was closed", sharingHooks{wipe: true}},
		{"claims to export more", "export-memory/types", "Alloc for export as dma_buf",
			sharingHooks{types: []core.HandleType{core.HandleDMABuf}}},
		{"imports whatever it gets", "import-memory/types", "the import of dma_buf: error", sharingHooks{open: forgetType}},
		{"imports from any device", "export-memory/refused-import", "another device's UUID: error <nil>",
			importsOther(func(m *core.ExternalMemory) error { m.DeviceUUID, m.DriverUUID = core.UUID{}, core.UUID{}; return nil })},
	}, open)
	device, _ := open(t, sharingHooks{})
	wantPass(t, cases, device)
}

// exportsOther changes what it exports, importsOther what it imports.
func exportsOther(change func(*core.ExternalMemory)) sharingHooks {
	return sharingHooks{export: func(d *sharingDevice, b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
		m, err := d.exportTrue(b, h)
		change(&m)
		return m, err
	}}
}

func importsOther(change func(*core.ExternalMemory) error) sharingHooks {
	return sharingHooks{open: func(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
		if err := change(&m); err != nil {
			return core.Memory{}, err
		}
		return d.sharer.ImportMemory(ctx, m)
	}}
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
