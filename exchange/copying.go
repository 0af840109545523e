package exchange

import (
	"context"
	"math"

	"github.com/dlx-go/dlx/core"
)

// parcel is what a copy has to carry.
type parcel struct {
	source core.Spec    // on the source's memory
	result core.Spec    // on the fresh memory
	bytes  int64        // of the fresh memory
	fresh  *core.Tensor // with the type and shape of source, row-major
}

// parcel describes a copy of the source: its elements in row-major order. Packed
// elements narrower than a byte go as the bytes that they lie in, which every
// device can copy, and keep their strides.
func (m *move) parcel() *parcel {
	p := &parcel{source: m.spec, result: m.spec}
	if m.o.Copy == Always {
		p.result.Flags &^= core.FlagReadOnly
	}
	if _, whole := m.spec.DType.ItemSize(); !whole && !(m.src.Padded() && m.spec.DType.SubByte()) {
		p.bytes = m.high - m.low
		p.source = core.Spec{DType: core.TypeUint8, Shape: []int64{p.bytes}, Offset: m.low}
		p.result.Offset -= m.low
		return p
	}
	p.bytes = m.src.NumBytes()
	p.result.Strides, p.result.Offset = nil, 0
	return p
}

// copied allocates memory on the destination, which fill copies into, and makes
// the result of it.
func (r *run) copied(ctx context.Context, alloc core.AllocOptions, fill func(context.Context, *run, *parcel) error) (*core.Tensor, error) {
	p := r.parcel()
	if p.bytes == math.MaxInt64 {
		return nil, core.Errorf(core.ErrOutOfMemory, "exchange", "Run", "the elements of %v take more bytes than an int64 counts", r.src)
	}
	if alloc.Stream == nil {
		alloc.Stream = r.o.Stream
	}
	m, err := r.dst.Alloc(ctx, p.bytes, alloc)
	if err != nil {
		return nil, err
	}
	p.fresh, err = core.Wrap(m, core.Spec{DType: p.source.DType, Shape: p.source.Shape, Flags: p.source.Flags & core.FlagSubBytePadded})
	if err != nil {
		m.Free()
		return nil, err
	}
	defer p.fresh.Close()
	if err := fill(ctx, r, p); err != nil {
		return nil, err
	}
	b, err := p.fresh.Buffer()
	if err != nil {
		return nil, err
	}
	return core.NewTensor(b, p.result)
}

// on calls f with a tensor on b, which is closed then.
func on(b *core.Buffer, s core.Spec, f func(*core.Tensor) error) error {
	t, err := core.NewTensor(b, s)
	if err != nil {
		return err
	}
	defer t.Close()
	return f(t)
}

// withSource calls f with the source as the parcel has it.
func (r *run) withSource(p *parcel, f func(src *core.Tensor) error) error {
	return on(r.root, p.source, f)
}

// copyBy has d copy src into dst.
func (r *run) copyBy(ctx context.Context, d core.Device, dst, src *core.Tensor) error {
	return r.onLane(ctx, d, func(s core.Stream) error { return d.Copy(ctx, s, dst, src) })
}

// copyInto has the source's device copy into m, which is the memory of b, the
// buffer of the result, and is freed when that is done.
func (r *run) copyInto(ctx context.Context, m core.Memory, b *core.Buffer, p *parcel) error {
	t, err := wrapBorrowed(m, b, core.Spec{DType: p.source.DType, Shape: p.source.Shape, Flags: p.source.Flags & core.FlagSubBytePadded}, r.from.Device, r.dst)
	if err != nil {
		return err
	}
	defer t.Close()
	return r.withSource(p, func(src *core.Tensor) error { return r.copyBy(ctx, r.from.Device, t, src) })
}

// onLane calls f with the stream that copies of d run on: the one that the options
// name, or one of the cache.
func (r *run) onLane(ctx context.Context, d core.Device, f func(core.Stream) error) error {
	switch {
	case d == r.dst && r.o.Stream != nil && r.o.Stream.Device() == d:
		return f(r.o.Stream)
	case d == r.from.Device && r.o.From != nil && r.o.From.Device() == d:
		return f(r.o.From)
	}
	s, done, err := opened.lane(ctx, d)
	if err != nil {
		return err
	}
	err = f(s)
	if e := done(); err == nil {
		err = e
	}
	return err
}
