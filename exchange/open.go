package exchange

import (
	"context"
	"errors"
	"slices"

	"github.com/dlx-go/dlx/core"
)

// foreignKey names memory of others that is open on a device.
type foreignKey struct {
	device core.Device
	memory core.ExternalMemory // without its handle, of which the rest tells
	handle core.HandleType
	vendor core.Vendor
	bytes  string       // of an IPC handle
	file   core.Backing // behind a descriptor
}

// foreign is memory of others that is open, or being opened.
type foreign struct {
	ready  chan struct{} // closed when the opening has ended
	err    error
	buffer *core.Buffer // guarded by the cache's mutex; nil until it is open
}

// Open opens memory that was exported elsewhere, mostly by another process, and
// makes a tensor on it, which the caller closes.
//
// Memory that is open already is not opened again: its tensors share one buffer,
// and with it the order of their work. It is closed with the last of them. That
// two descriptors stand for the same memory is told by the file behind them (see
// [core.ExternalMemory.Backing]); where that does not tell, as with descriptors of a
// driver's device file, every call opens the memory anew, and callers keep the order
// themselves: that of tensors on one memory, and that no copy goes between parts of
// it that overlap.
//
// Open takes the payload of x's handle on success, as [core.MemoryImporter] does, and
// leaves it to the caller on failure. It fails with ErrNotSupported if dst imports no memory of that type,
// like [core.MemoryImporter] and like [core.NewTensor].
func Open(ctx context.Context, dst core.Device, x core.ExternalMemory, s core.Spec) (*core.Tensor, error) {
	i, err := importerOf(dst, x.Handle.Type())
	if err != nil {
		return nil, err
	}
	var t *core.Tensor
	if k, known := identify(dst, x); known {
		t, err = opened.openForeign(ctx, k, i, x, s)
	} else {
		t, err = importDuplicate(ctx, i, x, s, nil)
	}
	if err == nil {
		_ = x.Close()
	}
	return t, err
}

// openForeign makes a tensor on the memory that k names, which it opens where
// nobody has. The handle of x stays the caller's.
func (c *cache) openForeign(ctx context.Context, k foreignKey, i core.MemoryImporter, x core.ExternalMemory, s core.Spec) (*core.Tensor, error) {
	for {
		c.mu.Lock()
		f := c.foreign[k]
		switch {
		case f != nil && f.buffer != nil && f.buffer.Retain() == nil:
			b := f.buffer
			c.mu.Unlock()
			defer b.Release()
			return core.NewTensor(b, s)
		case f == nil || f.buffer != nil: // nothing is there, or it is being closed
			f = &foreign{ready: make(chan struct{})}
			c.foreign[k] = f
			c.mu.Unlock()
			return c.fillForeign(ctx, k, f, i, x, s)
		}
		c.mu.Unlock()
		select {
		case <-f.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if f.err != nil && !errors.Is(f.err, context.Canceled) && !errors.Is(f.err, context.DeadlineExceeded) {
			return nil, f.err
		}
	}
}

// fillForeign opens the memory of a fresh entry.
func (c *cache) fillForeign(ctx context.Context, k foreignKey, f *foreign, i core.MemoryImporter, x core.ExternalMemory, s core.Spec) (*core.Tensor, error) {
	defer close(f.ready)
	t, err := importDuplicate(ctx, i, x, s, func() { c.forget(k, f) })
	var b *core.Buffer
	if err == nil {
		b, err = t.Buffer()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.buffer, f.err = b, err; err != nil && c.foreign[k] == f {
		delete(c.foreign, k)
	}
	return t, err
}

// forget takes an entry out that is being closed.
func (c *cache) forget(k foreignKey, f *foreign) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.foreign[k] == f {
		delete(c.foreign, k)
	}
}

// importDuplicate opens x by a duplicate of its handle, so that the caller has it still
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
	f := foreignOwner{m, closing}
	if ordered, ok := m.Owner.(core.OrderedOwner); ok {
		m.Owner = orderedForeign{f, ordered}
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

// foreignOwner frees memory that was imported for [Open].
type foreignOwner struct {
	imported core.Memory
	closing  func()
}

func (f foreignOwner) Free() {
	f.leave()
	f.imported.Free()
}

func (f foreignOwner) leave() {
	if f.closing != nil {
		f.closing()
	}
	liveOpened.Add(-1)
}

// orderedForeign leaves the waiting for work to the device, whose Close waits for that.
type orderedForeign struct {
	foreignOwner
	ordered core.OrderedOwner
}

func (f orderedForeign) FreeAfter(pending []core.Event) {
	f.leave()
	f.ordered.FreeAfter(pending)
}

// identify finds what memory x stands for, and reports false if that cannot be told.
func identify(d core.Device, x core.ExternalMemory) (foreignKey, bool) {
	k := foreignKey{device: d, memory: x, handle: x.Handle.Type(), vendor: x.Handle.Vendor()}
	k.memory.Handle = nil
	if file := x.Backing(); file != nil {
		k.file = *file
		return k, true
	}
	payload, err := x.Handle.Payload()
	k.bytes = string(payload)
	return k, err == nil
}

// importerOf finds the ability to import memory of a type.
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
