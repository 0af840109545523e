package opened

import (
	"context"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// importKey names memory of others, mostly of another process, that is open on a device.
type importKey struct {
	device core.Device
	memory core.ExternalMemory // without its handle
	handle core.HandleType
	vendor core.Vendor
	bytes  string       // of an IPC handle
	file   core.Backing // behind a descriptor
}

// importedMemory is memory of others that is open, or being opened.
type importedMemory struct {
	ready  chan struct{} // closed when the opening has ended
	err    error
	buffer *core.Buffer // guarded by the cache's mutex; nil until it is open
}

// Open makes a tensor on memory that was exported elsewhere. Memory that is open
// already, as far as that is known, is not opened again. Open takes the payload of x's
// handle on success and leaves it to the caller on failure.
func (c *Cache) Open(ctx context.Context, dst core.Device, x core.ExternalMemory, s core.Spec) (*core.Tensor, error) {
	i, err := importerOf(dst, x.Handle.Type())
	if err != nil {
		return nil, err
	}
	var t *core.Tensor
	if k, known := identify(dst, x); known {
		t, err = c.openOnce(ctx, k, i, x, s)
	} else {
		t, err = importDuplicate(ctx, i, x, s, nil)
	}
	if err == nil {
		_ = x.Close()
	}
	return t, err
}

// openOnce makes a tensor on the memory that k names, which it opens if
// it is not open. The handle of x stays the caller's.
func (c *Cache) openOnce(ctx context.Context, k importKey, i core.MemoryImporter, x core.ExternalMemory, s core.Spec) (*core.Tensor, error) {
	for {
		c.mu.Lock()
		f := c.imports[k]
		switch {
		case f != nil && f.buffer != nil && f.buffer.Retain() == nil:
			b := f.buffer
			c.mu.Unlock()
			defer b.Release()
			return core.NewTensor(b, s)
		case f == nil || f.buffer != nil: // nothing is there, or it is being closed
			f = &importedMemory{ready: make(chan struct{})}
			c.imports[k] = f
			c.mu.Unlock()
			return c.fillImport(ctx, k, f, i, x, s)
		}
		c.mu.Unlock()
		if err := await(ctx, f.ready); err != nil {
			return nil, err
		}
		if failedForAll(f.err) {
			return nil, f.err
		}
	}
}

// fillImport opens the memory of a fresh entry.
func (c *Cache) fillImport(ctx context.Context, k importKey, f *importedMemory, i core.MemoryImporter, x core.ExternalMemory, s core.Spec) (*core.Tensor, error) {
	defer close(f.ready)
	f.err = errPanicked // unless the import returns
	defer func() {
		if f.err != nil {
			c.forget(k, f)
		}
	}()
	t, err := importDuplicate(ctx, i, x, s, func() { c.forget(k, f) })
	var b *core.Buffer
	if err == nil {
		b, err = t.Buffer()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f.buffer, f.err = b, err
	return t, err
}

// forget takes an entry out that is being closed, or could not be opened.
func (c *Cache) forget(k importKey, f *importedMemory) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.imports[k] == f {
		delete(c.imports, k)
	}
}

// importDuplicate opens x by a duplicate of its handle, so that the caller still has it
// if a later step fails. closing is called before the memory is freed.
func importDuplicate(ctx context.Context, i core.MemoryImporter, x core.ExternalMemory, s core.Spec, closing func()) (*core.Tensor, error) {
	x, err := x.Duplicate()
	if err != nil {
		return nil, err
	}
	defer x.Close()
	m, err := i.ImportMemory(ctx, x)
	if err != nil {
		return nil, err
	}
	liveOpened.Add(1)
	privateCore.Opened(m.ID)
	f := importOwner{m, closing}
	if ordered, ok := m.Owner.(orderedOwner); ok {
		m.Owner = orderedImport{f, ordered}
	} else {
		m.Owner = f
	}
	t, err := core.Wrap(m, s)
	if err != nil {
		m.Free()
		return nil, err
	}
	return t, nil
}

// importOwner frees memory that was imported for [Cache.Open].
type importOwner struct {
	imported core.Memory
	closing  func()
}

func (f importOwner) Free() {
	f.close()
	f.imported.Free()
}

func (f importOwner) close() {
	if f.closing != nil {
		f.closing()
	}
	liveOpened.Add(-1)
	privateCore.Closed(f.imported.ID)
}

// orderedImport leaves the waiting for work to the device, whose Close waits for that.
type orderedImport struct {
	importOwner
	ordered orderedOwner
}

func (f orderedImport) FreeAfter(pending []core.Event) {
	f.close()
	f.ordered.FreeAfter(pending)
}

// identify finds what memory x stands for, and reports false if that is unknown.
func identify(d core.Device, x core.ExternalMemory) (importKey, bool) {
	k := importKey{device: d, memory: x, handle: x.Handle.Type(), vendor: x.Handle.Vendor()}
	k.memory.Handle = nil
	if file := x.Backing(); file != nil {
		k.file = *file
		return k, true
	}
	payload, err := x.Handle.Payload()
	k.bytes = string(payload)
	return k, err == nil
}

// importerOf returns d as an importer of memory of a type.
func importerOf(d core.Device, t core.HandleType) (core.MemoryImporter, error) {
	if d == nil {
		return nil, core.Errorf(core.ErrInvalid, "exchange", "Open", "dst is nil")
	}
	i, ok := core.As[core.MemoryImporter](d)
	if !ok {
		return nil, core.Errorf(core.ErrNotSupported, "exchange", "Open", "%v cannot import memory", d.ID())
	}
	if known := i.ImportTypes(); !slices.Contains(known, t) {
		return nil, core.Errorf(core.ErrNotSupported, "exchange", "Open", "the handle's type is %v, %v imports %v", t, d.ID(), known)
	}
	return i, nil
}
