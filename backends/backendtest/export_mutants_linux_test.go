package backendtest

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

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
	export func(*sharingDevice, *core.Buffer, core.HandleType) (core.ExternalMemory, error)
	open   func(*sharingDevice, context.Context, core.ExternalMemory) (core.Memory, error)
	types  []core.HandleType // that it claims to export besides
	wipe   bool              // memory when it is freed, the memory of others too
	undo   []func()
	busy   atomic.Int32 // calls on their way, where a mutant counts them
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

func (d *sharingDevice) ExportMemory(b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
	if d.export != nil {
		return d.export(d, b, h)
	}
	return d.exportTrue(b, h)
}

// exportTrue exports b, as memory of the CPU.
func (d *sharingDevice) exportTrue(b *core.Buffer, h core.HandleType) (core.ExternalMemory, error) {
	m := b.Memory()
	m.Device = d.sharer
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
	if err != nil {
		return core.ExternalMemory{}, err
	}
	defer t.Close()
	own, err := t.Buffer()
	if err != nil {
		return core.ExternalMemory{}, err
	}
	return d.sharer.ExportMemory(own, h)
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
		{"keeps a descriptor of every import", &sharingDevice{open: keepDescriptor},
			"export-memory/descriptor", "left 20 descriptors open"},
		{"imports from the start", &sharingDevice{open: forgetOffset},
			"export-memory/part", "the import of a part"},
		{"is not safe for concurrent use", &sharingDevice{open: oneImportAtATime},
			"hammer/export-memory", "two calls at once"},
		{"exports memory of another device", &sharingDevice{export: exportUUID},
			"export-memory/identity", "UUIDs of device and driver"},
		{"exports plain memory", &sharingDevice{export: (*sharingDevice).exportCopy},
			"export-memory/plain-memory", "memory that was not allocated for it was exported"},
		{"forgets the descriptor of an import", &sharingDevice{open: forgetDescriptor},
			"export-memory/descriptor", "is still open"},
		{"closes the descriptor of an import that failed", &sharingDevice{open: closeDescriptor},
			"export-memory/refused-import", "closing a descriptor that is the caller's"},
		{"wipes memory when it is freed", &sharingDevice{wipe: true},
			"export-memory/outlives-the-buffer", "the import, after the origin was closed"},
		{"claims to export more", &sharingDevice{types: []core.HandleType{core.HandleDMABuf}},
			"export-memory/types", "Alloc for export as dma_buf"},
		{"imports whatever it gets", &sharingDevice{open: forgetType},
			"import-memory/types", "ImportMemory of dma_buf: error"},
		{"imports from any device", &sharingDevice{open: forgetUUIDs},
			"export-memory/refused-import", "another device's UUID: error <nil>"},
	} {
		found[m.fails] = true
		t.Run(m.name, func(t *testing.T) {
			wantFailure(t, m.fails, m.says, func(tb testing.TB) core.Device {
				m.device.sharer = openCPU(tb).(sharer)
				return m.device
			})
			for _, f := range m.device.undo {
				f()
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

func forgetDescriptor(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	forgotten := m.FD
	fd, err := syscall.Dup(m.FD)
	if err != nil {
		return core.Memory{}, err
	}
	d.undo = append(d.undo, func() { _ = syscall.Close(forgotten) })
	m.FD = fd
	return d.sharer.ImportMemory(ctx, m)
}

func keepDescriptor(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	fd, err := syscall.Dup(m.FD)
	if err != nil {
		return core.Memory{}, err
	}
	d.undo = append(d.undo, func() { _ = syscall.Close(fd) })
	return d.sharer.ImportMemory(ctx, m)
}

func forgetOffset(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	m.Offset = 0
	return d.sharer.ImportMemory(ctx, m)
}

func oneImportAtATime(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	defer d.busy.Add(-1)
	if d.busy.Add(1) > 1 {
		_ = syscall.Close(m.FD)
		return core.Memory{}, core.Errorf(core.ErrInvalid, "mutant", "ImportMemory", "two calls at once")
	}
	time.Sleep(time.Millisecond) // for the others to come
	return d.sharer.ImportMemory(ctx, m)
}

func closeDescriptor(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	memory, err := d.sharer.ImportMemory(ctx, m)
	if err != nil && m.FD >= 0 {
		_ = syscall.Close(m.FD)
	}
	return memory, err
}

func forgetType(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	m.Type = core.HandleMemFD
	return d.sharer.ImportMemory(ctx, m)
}

func forgetUUIDs(d *sharingDevice, ctx context.Context, m core.ExternalMemory) (core.Memory, error) {
	m.DeviceUUID, m.DriverUUID = core.UUID{}, core.UUID{}
	return d.sharer.ImportMemory(ctx, m)
}
