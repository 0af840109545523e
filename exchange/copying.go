package exchange

import (
	"context"
	"math"

	"github.com/dlx-go/dlx/core"
)

// copying is one copy of the source into fresh memory of the destination.
type copying struct {
	source core.Spec       // of what is read, on the source's memory
	result core.Spec       // of the move's result, on the fresh memory
	bytes  int64           // of the fresh memory
	handle core.HandleType // by which the source's device imports the fresh memory, if it does
	fresh  *core.Tensor    // with the type and shape of source, row-major
}

// inBytes reports whether the elements are copied as the bytes that they lie in: packed
// elements narrower than a byte, which not every device can copy. They keep their strides.
func (m *move) inBytes() bool {
	_, whole := m.spec.DType.ItemSize()
	return !whole && !(m.src.Padded() && m.spec.DType.SubByte())
}

// copyBytes is how many bytes one copy of the source has.
func (m *move) copyBytes() int64 {
	if m.inBytes() {
		return m.high - m.low
	}
	return m.src.NumBytes()
}

// copying describes a copy of the source: its elements in row-major order, or its bytes.
func (m *move) copying() *copying {
	c := &copying{source: m.spec, result: m.spec, bytes: m.copyBytes()}
	if m.o.Copy == Always {
		c.result.Flags &^= core.FlagReadOnly
	}
	if m.inBytes() {
		c.source = core.Spec{DType: core.TypeUint8, Shape: []int64{c.bytes}, Offset: m.low}
		c.result.Offset -= m.low
	} else {
		c.result.Strides, c.result.Offset = nil, 0
	}
	return c
}

// freshSpec describes the copy's elements, row-major.
func (c *copying) freshSpec() core.Spec {
	return core.Spec{DType: c.source.DType, Shape: c.source.Shape, Flags: c.source.Flags & core.FlagSubBytePadded}
}

// copied allocates memory on the destination, which fill copies into, and makes
// the result of it. h is 0 or the type of handle that the memory is exported by.
func (r *run) copied(ctx context.Context, h core.HandleType, fill func(context.Context, *run, *copying) error) (*core.Tensor, error) {
	c := r.copying()
	c.handle = h
	if err := r.allocate(ctx, c); err != nil {
		return nil, err
	}
	defer c.fresh.Close()
	if err := fill(ctx, r, c); err != nil {
		return nil, err
	}
	return on(c.fresh, c.result)
}

// allocate sets c.fresh, which the caller closes.
func (m *move) allocate(ctx context.Context, c *copying) error {
	alloc := m.o.Alloc
	if c.handle != 0 {
		alloc.Export = c.handle
	}
	if c.bytes == math.MaxInt64 {
		return core.Errorf(core.ErrOutOfMemory, "exchange", m.call, "the elements of %v take more bytes than an int64 counts", m.src)
	}
	if alloc.Stream == nil {
		alloc.Stream = m.o.Stream
	}
	memory, err := core.Alloc(ctx, m.dst, c.bytes, alloc)
	if err != nil {
		return err
	}
	if c.fresh, err = core.Wrap(memory, c.freshSpec()); err != nil {
		memory.Free()
	}
	return err
}

// copyByDestination has the destination copy.
func copyByDestination(ctx context.Context, r *run, c *copying) error {
	return copyBy(ctx, r, c, r.dst)
}

// copyBySource has the source's device copy.
func copyBySource(ctx context.Context, r *run, c *copying) error {
	return copyBy(ctx, r, c, r.from.Device)
}

func copyBy(ctx context.Context, r *run, c *copying, d core.Device) error {
	return r.withSource(c, func(src *core.Tensor) error { return r.copyOn(ctx, d, c.fresh, src) })
}

// copyPeer has the destination copy from the source's device.
func copyPeer(ctx context.Context, r *run, c *copying) error {
	return r.withSource(c, func(src *core.Tensor) error {
		return r.onStream(ctx, r.dst, func(s core.Stream) error {
			return r.dst.(core.PeerCopier).CopyPeer(ctx, s, c.fresh, src, r.from.Device)
		})
	})
}

// copyFromHost has the destination copy from the host's view of the source.
func copyFromHost(ctx context.Context, r *run, c *copying) error {
	v, err := r.hostView(ctx)
	if err != nil {
		return err
	}
	src, err := v.Tensor(r.root, c.source)
	if err != nil {
		return err
	}
	defer src.Close()
	return r.copyOn(ctx, r.dst, c.fresh, src)
}

// copyToHost has the source's device copy into the host's view of the fresh memory.
func copyToHost(ctx context.Context, r *run, c *copying) error {
	b, err := c.fresh.Buffer()
	if err != nil {
		return err
	}
	m, err := r.dst.(core.HostViewer).HostView(ctx, b)
	if err != nil {
		return err
	}
	return r.copyInto(ctx, m, b, c)
}

// copyToImport has the source's device import the fresh memory, and copy into it.
func copyToImport(ctx context.Context, r *run, c *copying) error {
	b, err := c.fresh.Buffer()
	if err != nil {
		return err
	}
	m, err := exportAndImport(ctx, r.dst, b, c.handle, r.from.Device)
	if err != nil {
		return err
	}
	return r.copyInto(ctx, m, b, c)
}

// copyInto has the source's device copy into m, which is the memory of b, the
// buffer of the result, and is freed when that is done.
func (r *run) copyInto(ctx context.Context, m core.Memory, b *core.Buffer, c *copying) error {
	t, err := cache.WrapBorrowed(m, b, c.freshSpec(), r.from.Device, r.dst)
	if err != nil {
		return err
	}
	defer t.Close()
	return r.withSource(c, func(src *core.Tensor) error { return r.copyOn(ctx, r.from.Device, t, src) })
}

// on makes another tensor on the memory of t.
func on(t *core.Tensor, s core.Spec) (*core.Tensor, error) {
	b, err := t.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, s)
}

// with calls f with a tensor on b, which is closed then.
func with(b *core.Buffer, s core.Spec, f func(*core.Tensor) error) error {
	t, err := core.NewTensor(b, s)
	if err != nil {
		return err
	}
	defer t.Close()
	return f(t)
}

// withSource calls f with the source as it is to be copied.
func (r *run) withSource(c *copying, f func(src *core.Tensor) error) error {
	return with(r.root, c.source, f)
}

// copyOn has d copy src into dst.
func (r *run) copyOn(ctx context.Context, d core.Device, dst, src *core.Tensor) error {
	if err := privateCore.Present(d, src); err != nil {
		return err
	}
	return r.onStream(ctx, d, func(s core.Stream) error { return d.Copy(ctx, s, dst, src) })
}

// onStream calls f with the stream that copies of d run on: the one that the options
// name, or one of the cache.
func (m *move) onStream(ctx context.Context, d core.Device, f func(core.Stream) error) error {
	switch {
	case d == m.dst && m.o.Stream != nil && m.o.Stream.Device() == d:
		return f(m.o.Stream)
	case d == m.from.Device && m.o.SourceStream != nil && m.o.SourceStream.Device() == d:
		return f(m.o.SourceStream)
	}
	s, giveBack, err := cache.Stream(ctx, d)
	if err != nil {
		return err
	}
	err = f(s)
	if e := giveBack(); err == nil {
		err = e
	}
	return err
}
