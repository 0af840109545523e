package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange/internal/opened"
)

// empty makes a tensor without elements, which needs no memory.
func (r *run) empty() (*core.Tensor, error) {
	s := r.spec
	s.Offset = 0
	if r.o.Copy == Always {
		s.Flags &^= core.FlagReadOnly
	}
	return core.Wrap(core.Memory{ID: r.dst.ID(), Device: r.dst}, s)
}

// alias makes a second tensor on the source's memory, which is the destination's.
func (r *run) alias() (*core.Tensor, error) { return core.NewTensor(r.root, r.spec) }

// share makes a tensor on memory of the destination that is the source's, opened now,
// as way i does it, or before.
func (r *run) share(ctx context.Context, i int) (*core.Tensor, error) {
	w := &r.ways[i]
	e, err := r.acquire(ctx, r.dst, r.sharing(i), func(ctx context.Context) (core.Memory, error) {
		m, err := w.open(ctx, r, w.handle)
		m.ReadOnly = m.ReadOnly || r.from.ReadOnly // whatever way it is opened
		return m, err
	})
	if err != nil {
		return nil, err
	}
	t, err := e.Tensor(r.root, r.spec)
	if err == nil {
		r.shared = e
	}
	return t, err
}

// acquire returns the source's memory as a device knows it, or the host if d is nil. The
// caller releases the entry.
func (r *run) acquire(ctx context.Context, d core.Device, how *account, open func(context.Context) (core.Memory, error)) (*opened.Entry, error) {
	e, fresh, err := cache.Acquire(ctx, opened.Key{Root: r.root, Device: d, Size: r.size}, how, open)
	r.opened = r.opened || fresh
	return e, err
}

// part is the source's memory as far as it is shared, without an owner.
func (m *move) part() core.Memory {
	p := m.from
	p.Size = m.size
	return p
}

// withBorrowed calls f with a buffer of memory which somebody else owns. A
// device that keeps a reference to what it opens keeps one to this, so that the
// memory's own buffer can be freed. flags are those of the tensor that is moved: read-only
// memory stays so.
func withBorrowed(m core.Memory, flags core.Flags, f func(*core.Buffer) (core.Memory, error)) (core.Memory, error) {
	m.Owner = nil
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}, Flags: flags & core.FlagReadOnly})
	if err != nil {
		return core.Memory{}, err
	}
	defer t.Close()
	b, err := t.Buffer()
	if err != nil {
		return core.Memory{}, err
	}
	return f(b)
}

// openPointer has the destination import the source's memory by its address or handle.
func openPointer(_ context.Context, r *run, _ core.HandleType) (core.Memory, error) {
	i, m := r.dst.(core.PointerImporter), r.part()
	if !m.ID.Type.OpaqueHandle() {
		return i.ImportPointer(m.Handle+uintptr(m.Offset), m.Size, nil)
	}
	p, err := i.ImportPointer(m.Handle, m.Offset+m.Size, nil)
	p.Offset, p.Size = p.Offset+m.Offset, m.Size
	if p.Host != 0 {
		p.Host += uintptr(m.Offset)
	}
	return p, err
}

// openMapped maps the source's memory, which is the host's, into the destination.
func openMapped(ctx context.Context, r *run, _ core.HandleType) (core.Memory, error) {
	return withBorrowed(r.part(), r.spec.Flags, func(b *core.Buffer) (core.Memory, error) {
		return r.dst.(core.HostMapper).MapHost(ctx, b)
	})
}

// hostView returns the source's memory as the host sees it. The caller releases the entry.
func (r *run) hostView(ctx context.Context) (*opened.Entry, error) {
	return r.acquire(ctx, nil, nil, r.view)
}

// view returns the source's memory as the host sees it. The caller frees it.
func (m *move) view(ctx context.Context) (core.Memory, error) {
	return withBorrowed(m.part(), m.spec.Flags, func(b *core.Buffer) (core.Memory, error) {
		return m.from.Device.(core.HostViewer).HostView(ctx, b)
	})
}

// openView has the destination, a device of the host, import the host's view of the source's memory.
func openView(ctx context.Context, r *run, _ core.HandleType) (core.Memory, error) {
	v, err := r.hostView(ctx)
	if err != nil {
		return core.Memory{}, err
	}
	m, err := r.dst.(core.PointerImporter).ImportPointer(v.Memory().Handle+uintptr(v.Memory().Offset), v.Memory().Size, core.FreeFunc(v.Release))
	if err != nil {
		v.Release()
	}
	m.Origin = v.Memory().OriginType()
	return m, err
}

// openMappedView maps the host's view of the source's memory into the destination.
func openMappedView(ctx context.Context, r *run, _ core.HandleType) (core.Memory, error) {
	v, err := r.hostView(ctx)
	if err != nil {
		return core.Memory{}, err
	}
	m, err := withBorrowed(v.Memory(), r.spec.Flags, func(b *core.Buffer) (core.Memory, error) {
		return r.dst.(core.HostMapper).MapHost(ctx, b)
	})
	if err != nil {
		v.Release()
		return core.Memory{}, err
	}
	mapped := m
	m.Owner = core.FreeFunc(func() {
		mapped.Free()
		v.Release()
	})
	return m, nil
}

// openExported exports the source's memory and imports it into the destination.
func openExported(ctx context.Context, r *run, h core.HandleType) (core.Memory, error) {
	return exportAndImport(ctx, r.from.Device, r.root, h, r.dst)
}

// exportAndImport exports b from one device and imports it into another. The memory that
// it returns is b's, and does not keep b.
func exportAndImport(ctx context.Context, from core.Device, b *core.Buffer, h core.HandleType, to core.Device) (core.Memory, error) {
	x, err := from.(core.MemoryExporter).ExportMemory(b, h)
	if err != nil {
		return core.Memory{}, err
	}
	defer x.Close()
	// APIs may give one card different UUIDs. The plan has compared the PCI addresses too.
	if p := to.Properties(); x.DeviceUUID != p.UUID && core.SamePhysicalDevice(from.Properties(), p) {
		x.DeviceUUID = p.UUID
	}
	return to.(core.MemoryImporter).ImportMemory(ctx, x)
}
