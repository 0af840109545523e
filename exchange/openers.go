package exchange

import (
	"context"

	"github.com/dlx-go/dlx/core"
)

// alias makes a second tensor on the source's memory, which is the destination's.
func alias(_ context.Context, r *run) (*core.Tensor, error) {
	return core.NewTensor(r.root, r.spec)
}

// shared makes a tensor on memory of the destination that is the source's, opened
// now or before.
func (r *run) shared(ctx context.Context, by sharedBy, open opener) (*core.Tensor, error) {
	e, err := r.acquire(ctx, key{r.root, r.dst, r.size}, by, open)
	if err != nil {
		return nil, err
	}
	t, err := e.tensor(r.root, r.spec)
	if err == nil {
		r.entry = e
	}
	return t, err
}

// part is the source's memory as far as it is shared, without an owner.
func (m *move) part() core.Memory {
	p := m.from
	p.Size = m.size
	return p
}

// proxy calls f with a buffer that stands for memory which somebody else owns. A
// device that keeps a reference to what it opens keeps one to this, so that the
// memory's own buffer can be freed.
func proxy(m core.Memory, f func(*core.Buffer) (core.Memory, error)) (core.Memory, error) {
	m.Owner = nil
	t, err := core.Wrap(m, core.Spec{DType: core.TypeUint8, Shape: []int64{m.Size}})
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

// openPointer has the destination adopt the source's memory by its address or handle.
func openPointer(_ context.Context, r *run) (core.Memory, error) {
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
func openMapped(ctx context.Context, r *run) (core.Memory, error) {
	return proxy(r.part(), func(b *core.Buffer) (core.Memory, error) {
		return r.dst.(core.HostMapper).MapHost(ctx, b)
	})
}

// hostView returns the source's memory as the host sees it. The caller releases the entry.
func (r *run) hostView(ctx context.Context) (*entry, error) {
	return r.acquire(ctx, key{r.root, nil, r.size}, sharedBy{}, func(ctx context.Context, r *run) (core.Memory, error) {
		return proxy(r.part(), func(b *core.Buffer) (core.Memory, error) {
			return r.from.Device.(core.HostViewer).HostView(ctx, b)
		})
	})
}

// openView has the destination, a device of the host, adopt the host's view of the source's memory.
func openView(ctx context.Context, r *run) (core.Memory, error) {
	v, err := r.hostView(ctx)
	if err != nil {
		return core.Memory{}, err
	}
	m, err := r.dst.(core.PointerImporter).ImportPointer(v.memory.Handle+uintptr(v.memory.Offset), v.memory.Size, core.FreeFunc(v.release))
	if err != nil {
		v.release()
	}
	return m, err
}

// openMappedView maps the host's view of the source's memory into the destination.
func openMappedView(ctx context.Context, r *run) (core.Memory, error) {
	v, err := r.hostView(ctx)
	if err != nil {
		return core.Memory{}, err
	}
	m, err := proxy(v.memory, func(b *core.Buffer) (core.Memory, error) {
		return r.dst.(core.HostMapper).MapHost(ctx, b)
	})
	if err != nil {
		v.release()
		return core.Memory{}, err
	}
	mapped := m
	m.Owner = core.FreeFunc(func() {
		mapped.Free()
		v.release()
	})
	return m, nil
}

// transfer exports b from one device and imports it into another. The memory that
// it returns is b's, without keeping it.
func transfer(ctx context.Context, from core.MemoryExporter, b *core.Buffer, t core.HandleType, to core.MemoryImporter) (core.Memory, error) {
	x, err := from.ExportMemory(b, t)
	if err != nil {
		return core.Memory{}, err
	}
	defer x.Close()
	return to.ImportMemory(ctx, x)
}
