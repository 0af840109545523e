package exchange

import (
	"context"
	"reflect"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// move is what is asked for: a tensor that is to get to a device.
type move struct {
	src *core.Tensor
	dst core.Device
	o   Options

	from core.Memory // that the source stands on, see rootOf
	size int64       // bytes of it that are shared: all, or those up to the last element
	spec core.Spec   // of the source on that memory
	low  int64       // bytes from the memory's start to the first that an element reaches
	high int64       // and to the end of the last
}

// newMove checks the arguments of a call.
func newMove(call string, src *core.Tensor, dst core.Device, o Options) (*move, error) {
	m := &move{src: src, dst: dst, o: o}
	if err := m.check(call); err != nil {
		return nil, err
	}
	root, err := m.look()
	if err != nil {
		return nil, err
	}
	root.Release()
	return m, nil
}

// check proves what can be told without looking at the source's memory.
func (m *move) check(call string) error {
	fail := func(sentinel error, format string, args ...any) error {
		return core.Errorf(sentinel, "exchange", call, format, args...)
	}
	o := &m.o
	switch {
	case m.src == nil || m.dst == nil:
		return fail(core.ErrInvalid, "src or dst is nil")
	case !reflect.TypeOf(m.dst).Comparable():
		return fail(core.ErrInvalid, "dst is a %T, which cannot be compared: pass a pointer", m.dst)
	case o.Copy > Always || o.Only > Staged:
		return fail(core.ErrInvalid, "Options.Copy is %d and Options.Only %d: at least one is no value of its type", o.Copy, o.Only)
	case o.Stream != nil && !sameDevice(o.Stream.Device(), m.dst):
		return fail(core.ErrDevice, "Options.Stream is no stream of %v", m.dst.ID())
	}
	return nil
}

// sameDevice reports whether a stream's device is d. A queue of the host belongs to none.
func sameDevice(of, d core.Device) bool {
	return of == d || of == nil && d.ID().Type.HostAccessible()
}

// look takes a reference to the memory to move, and notes what the plan needs of it.
func (m *move) look() (*core.Buffer, error) {
	b, err := m.src.Buffer()
	if err != nil {
		return nil, err
	}
	if err := b.Retain(); err != nil {
		return nil, err
	}
	root := b // where it lies on dst already, whoever made it; a copy reads the origin
	if m.o.Copy == Always || b.Memory().Device != m.dst {
		root = rootOf(b)
	}
	if root != b {
		err = root.Retain()
		b.Release()
		if err != nil {
			return nil, err
		}
	}
	m.from = root.Memory()
	t := m.src
	l := t.Layout()
	n := l.Rank()
	dims := l.AppendStrides(l.AppendShape(make([]int64, 0, 2*n)))
	m.spec = core.Spec{
		DType:   t.DType(),
		Shape:   dims[:n:n],
		Strides: dims[n:],
		Offset:  t.Offset() - b.Memory().Offset,
		Flags:   t.Flags() &^ core.FlagCopied,
	}
	m.size = m.from.Size
	first, last := l.Extent()
	before, err := m.spec.DType.Size(-first, t.Padded())
	if err == nil {
		m.low = m.spec.Offset - before
		var after int64
		after, err = m.spec.DType.Size(last, t.Padded())
		m.high = m.spec.Offset + after
	}
	if err != nil { // cannot be: the tensor was checked when it was made
		root.Release()
		return nil, err
	}
	if m.size == core.UnknownSize {
		m.size = m.high
	}
	return root, nil
}

// rootOf is the buffer that moves of b start from: the first owner of the memory,
// where that is memory of an opened device or of the host, and has the bytes of b.
func rootOf(b *core.Buffer) *core.Buffer {
	o := b.Origin()
	if o == b || b.OriginOffset() != 0 {
		return b
	}
	m := o.Memory()
	if m.Device == nil && !m.ID.Type.HostAccessible() || m.Size != core.UnknownSize && m.Size != b.Memory().Size {
		return b
	}
	return o
}

// run is one execution of a move.
type run struct {
	move
	root     *core.Buffer // held
	unshared []Refusal    // ways to share the memory that could not be taken so far
	entry    *entry       // that the candidate being tried shares or copies from, if any
	opened   bool         // something was opened
}

// start holds the source's memory and makes work on Options.From part of its order.
func (m *move) start(ctx context.Context) (*run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &run{move: *m}
	var err error
	if r.root, err = r.look(); err != nil {
		return nil, err
	}
	if m.o.From != nil {
		if err := r.follow(ctx); err != nil {
			r.end()
			return nil, err
		}
	}
	return r, nil
}

func (r *run) end() { r.root.Release() }

// follow notes the work on Options.From as the last write of the source.
func (r *run) follow(ctx context.Context) error {
	t, err := core.NewTensor(r.root, r.spec)
	if err != nil {
		return err
	}
	defer t.Close()
	list := []*core.Tensor{t}
	return stream.Submit(ctx, r.o.From, list, list, func() error { return nil })
}

// finish makes Options.Stream wait for the result, and closes that if it cannot.
func (m *move) finish(ctx context.Context, t *core.Tensor, report Report) (*core.Tensor, Report, error) {
	if m.o.Stream == nil {
		return t, report, nil
	}
	how, err := m.handoff(ctx, t)
	if err != nil {
		_ = t.Close()
		return nil, report, err
	}
	report.Wait = how
	return t, report, nil
}
