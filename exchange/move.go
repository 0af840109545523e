package exchange

import (
	"context"
	"reflect"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/hostmem"
	"github.com/dlx-go/dlx/stream"
)

// move is what is asked for: a tensor that is to get to a device.
type move struct {
	call string // the function that was called, for errors

	src *core.Tensor
	dst core.Device
	o   Options

	root *core.Buffer // where the move starts, see rootOf; held from look, or begin, until release
	from core.Memory  // of root
	size int64        // bytes of it that are shared: all, or those up to the last element
	spec core.Spec    // of the source on that memory
	low  int64        // bytes from the memory's start to the first that an element reaches
	high int64        // and to the end of the last
}

// check checks what can be checked without looking at the source's memory.
func (m *move) check() error {
	if m.src == nil {
		return core.Errorf(core.ErrInvalid, "exchange", m.call, "src is nil")
	}
	return m.checkRest()
}

// checkRest is check without the source.
func (m *move) checkRest() error {
	fail := func(sentinel error, format string, args ...any) error {
		return core.Errorf(sentinel, "exchange", m.call, format, args...)
	}
	o := &m.o
	switch {
	case m.dst == nil:
		return fail(core.ErrInvalid, "dst is nil")
	case !reflect.TypeOf(m.dst).Comparable():
		return fail(core.ErrInvalid, "dst is a %T, which cannot be compared: pass a pointer", m.dst)
	case o.Copy > Always || o.Only > Staged:
		return fail(core.ErrInvalid, "Options.Copy is %d and Options.Only %d: at least one is not a value of its type", o.Copy, o.Only)
	case o.Stream != nil && !sameDevice(o.Stream.Device(), m.dst):
		return fail(core.ErrDevice, "Options.Stream is not a stream of %v", m.dst.ID())
	}
	return nil
}

// sameDevice reports whether a stream's device is d. A queue of the host belongs to none.
func sameDevice(of, d core.Device) bool {
	return of == d || of == nil && d.ID().Type.HostAccessible()
}

// look takes a reference to the memory that the move starts from and notes what a plan
// needs of it. The caller gives the reference back by calling release.
func (m *move) look() error {
	b, err := m.src.Buffer()
	if err != nil {
		return err
	}
	if err := b.Retain(); err != nil {
		return err
	}
	m.root = b // memory that lies on dst already is taken as it is; a copy reads the origin
	if m.o.Copy == Always || b.Memory().Device != m.dst {
		m.root = rootOf(b)
	}
	if m.root != b {
		err = m.root.Retain()
		b.Release()
		if err != nil {
			return err
		}
	}
	if err := m.measure(b.Memory().Offset); err != nil { // cannot be: the tensor was checked when it was made
		m.release()
		return err
	}
	return nil
}

// asked returns why a way is not possible, as far as the system or a try of the device shows beyond what [newPlan] knows,
// and nil if it may be possible. Only [Plan] asks, since that takes some 100 us: in a move the device finds it out, and refuses.
func (m *move) asked(w way) reason {
	switch w.method {
	case &mapHostMemory:
		if memory, target := m.from, m.dst.Properties(); m.cannotBeWritten() {
			memory.ReadOnly = true
			return mapReason(m.dst, &target, memory)
		}
	case &exportImport:
		if e, ok := m.from.Device.(exportTrier); ok {
			if err := e.TryExport(m.root, w.handle); err != nil {
				return failure{err}
			}
		}
	case &viewOnHost, &mapView, &copyFromView:
		view, err := m.view(context.Background())
		if err != nil {
			return failure{err}
		}
		view.Free()
	}
	return nil
}

// why returns the reason against a way that was tried and failed with err. If the host cannot write the memory, that is the
// reason, as a plan says: a driver that finds out by itself has only a status for it.
func (m *move) why(w way, err error) reason {
	if w.method == &mapHostMemory {
		if known := m.asked(w); known != nil {
			return known
		}
	}
	return failure{err}
}

// cannotBeWritten reports whether the memory is that of a read-only tensor, and the host cannot write it.
func (m *move) cannotBeWritten() bool {
	f := &m.from
	if f.ReadOnly || !m.root.ReadOnly() {
		return false
	}
	first, size := f.Handle+uintptr(f.Offset), f.Size
	if size == core.UnknownSize { // as of a tensor of another library: its elements lie there
		first, size = first+uintptr(m.low), m.high-m.low
	}
	return !hostmem.CanWrite(first, size)
}

// measure notes where the elements of the source lie in the memory of root. offset is
// where the memory of the source's own buffer starts.
func (m *move) measure(offset int64) error {
	m.from = m.root.Memory()
	t := m.src
	l := t.Layout()
	n := l.Rank()
	dims := l.AppendStrides(l.AppendShape(make([]int64, 0, 2*n)))
	m.spec = core.Spec{
		DType:   t.DType(),
		Shape:   dims[:n:n],
		Strides: dims[n:],
		Offset:  t.Offset() - offset,
		Flags:   t.Flags() &^ core.FlagCopied,
	}
	first, last := l.Extent()
	before, err := m.spec.DType.Size(-first, t.Padded())
	if err != nil {
		return err
	}
	after, err := m.spec.DType.Size(last, t.Padded())
	if err != nil {
		return err
	}
	m.low, m.high = m.spec.Offset-before, m.spec.Offset+after
	m.size = m.from.Size
	if m.size == core.UnknownSize {
		m.size = m.high
	}
	return nil
}

// begin looks at the source, and makes all work on Options.SourceStream its last write.
// Once it succeeded, the caller calls release.
func (m *move) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := m.look(); err != nil {
		return err
	}
	if m.o.SourceStream == nil {
		return nil
	}
	err := m.noteSourceStream(ctx)
	if err != nil {
		m.release()
	}
	return err
}

func (m *move) release() { m.root.Release() }

// count counts a move that has ended, for [core.ReadMetrics].
func (m *move) count(r *Report, err error) {
	switch {
	case err != nil:
		privateCore.MoveFailed(err)
	case r.BytesCopied > 0:
		privateCore.Moved(r.From, r.To, int(r.Mechanism), r.BytesCopied/r.Mechanism.Copies())
	default: // the memory is shared, or there are no elements
		privateCore.Moved(r.From, r.To, int(r.Mechanism), max(0, m.high-m.low))
	}
}

// isEmpty reports whether the source has no elements.
func (m *move) isEmpty() bool { return m.low >= m.high || m.src.IsEmpty() }

// wanted is the type of memory that the move is to end in.
func (m *move) wanted() core.DeviceType {
	if t := m.o.Alloc.Type; t != 0 {
		return t
	}
	return m.dst.ID().Type
}

// rootOf is the buffer that moves of b start from: the first owner of the memory,
// if that is memory of an opened device or of the host, and has the bytes of b.
func rootOf(b *core.Buffer) *core.Buffer {
	o := b.Origin()
	if o == b || privateCore.OriginOffset(b) != 0 {
		return b
	}
	m := o.Memory()
	if m.Device == nil && !m.ID.Type.HostAccessible() || m.Size != core.UnknownSize && m.Size != b.Memory().Size {
		return b
	}
	return o
}

// noteSourceStream makes all work on Options.SourceStream the last write of the source.
func (m *move) noteSourceStream(ctx context.Context) error {
	t, err := core.NewTensor(m.root, m.spec)
	if err != nil {
		return err
	}
	defer t.Close()
	list := []*core.Tensor{t}
	return stream.Submit(ctx, m.o.SourceStream, list, list, func() error { return nil })
}

// finish makes Options.Stream wait for the result t. If that fails, it closes t.
func (m *move) finish(ctx context.Context, t *core.Tensor, report *Report) (*core.Tensor, error) {
	if m.o.Stream == nil {
		return t, nil
	}
	how, err := m.handoff(ctx, t)
	if err != nil {
		_ = t.Close()
		return nil, err
	}
	report.waited(how, m.o.Stream)
	return t, nil
}

// handoff makes Options.Stream wait until t may be read.
func (m *move) handoff(ctx context.Context, t *core.Tensor) (stream.Wait, error) {
	from, to := m.o.SourceStream, m.o.Stream
	if from == nil || from.Device() == nil || to.Device() == nil {
		return stream.Handoff(ctx, t, nil, to)
	}
	s, giveBack, err := cache.Semaphore(ctx, from, to)
	if err != nil || s == nil { // the host can always wait
		return stream.Handoff(ctx, t, nil, to)
	}
	defer giveBack()
	return s.Handoff(ctx, t, from, to)
}
