package soak

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// move is exchange.To.
type move struct {
	v, of    int
	dev      int
	copy     exchange.Copy
	only     exchange.Mechanism
	stream   int // of the destination
	from     int // a stream of the source's device
	kind     Kind
	plan     bool // by Plan and Run
	together bool // with others, by moveAll
	deadline int
}

func (s *move) run(t *thread) error {
	v, d := t.open(s.of), t.dev(s.dev)
	if v == nil || d == nil || d.closed {
		return errSkip
	}
	o, stream := s.options(t, d)
	var from string
	o.SourceStream, from = t.on(s.from, v.dev)
	ctx, ctxName, cancel := t.limited(s.deadline)
	defer cancel()
	after := t.before(v)
	call := "exchange.To"
	if s.plan {
		call = "parts.PlanAndRun"
	}
	t.say("t%d, report%d, err = %s(%s, t%d, %s, %s)", s.v, s.v, call, ctxName, s.of, t.devName(d), optionsCode(o, stream, from))
	t.say("check(err); fmt.Printf(\"%%+v\\n\", report%d)", s.v)
	var tensor *core.Tensor
	var report exchange.Report
	var err error
	if s.plan {
		tensor, report, err = parts.PlanAndRun(ctx, v.tensor, d.Device, o)
	} else {
		tensor, report, err = exchange.To(ctx, v.tensor, d.Device, o)
	}
	after()
	return s.judge(t, v, d, o, call, tensor, report, err)
}

// options are those of the call, without a stream of the source, and the name of the stream.
func (s *move) options(t *thread, d *Device) (o exchange.Options, stream string) {
	o = exchange.Options{Copy: s.copy, Only: s.only}
	o.Stream, stream = t.on(s.stream, d)
	switch s.kind {
	case Visible:
		o.Alloc.HostVisible = d.has(core.CapHostView)
	case Exportable:
		if e, ok := core.As[core.MemoryExporter](d.Device); ok && len(e.ExportTypes()) > 0 {
			o.Alloc.Export = e.ExportTypes()[0]
		}
	case Pinned:
		o.Alloc.Type = d.pinnedType()
	}
	return o, stream
}

// judge compares what came of the move of v to d with what has to, and keeps the result.
func (s *move) judge(t *thread, v *variable, d *Device, o exchange.Options, call string, tensor *core.Tensor, report exchange.Report, err error) error {
	option := s.option()
	if err != nil {
		option += refused
	}
	t.cover(v.mem.kind, "to", d, option)

	w := wants{}
	if s.copy == exchange.Never || s.only != 0 || v.dev == nil && !v.onHost() || v.packed() {
		w.may = append(w.may, errNoWay)
	}
	if s.deadline != 0 {
		w.may = append(w.may, ended...)
	}
	if v.mem.tainted {
		w.may = append(w.may, suspected...)
	}
	if o.Alloc.Export != 0 || o.Alloc.Type != 0 {
		w.may = append(w.may, errNoWay)
	}
	if e := t.check(call, err, w); e != nil || err != nil {
		return e
	}
	p, sharing := v.clone(), report.Mechanism.Copies() == 0
	empty := v.elements() == 0
	switch {
	case empty:
		p.mem = newMemory(v.mem.kind, nil)
		p.bit, p.strides = 0, tensor.Layout().Strides()
		if s.copy == exchange.Always {
			p.readOnly = false
		}
	case !sharing:
		p = v.copied()
		if s.copy == exchange.Always {
			p.readOnly = false
		}
		p.mem.kind = Plain
		if kind := tensor.DeviceID().Type; kind == core.DeviceCUDAHost || kind == core.DeviceROCMHost {
			p.mem.kind = Pinned
		} else if s.kind == Visible || s.kind == Exportable {
			p.mem.kind = s.kind
		}
	}
	from0 := v
	if !sharing || empty {
		from0 = nil
	}
	t.pass(s.from, o.SourceStream, v.mem)
	t.pass(s.stream, o.Stream, v.mem, p.mem)
	n, err := t.add(s.v, p, tensor, d, from0)
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	if empty { // it has no memory, and keeps no device open
		d.use(-1)
		n.involved = nil
	}
	if err := errors.Join(s.truth(v, n, report, o), s.waited(n, report, o), t.reopened(v, n, report)); err != nil {
		return fmt.Errorf("%s reports %+v: %w", call, report, err)
	}
	return nil
}

// refused follows an option that was asked for in vain.
const refused = ", refused"

func (s *move) option() string {
	name := s.copy.String()
	switch {
	case s.only != 0:
		name = "only_" + s.only.String()
	case s.plan:
		name = "plan"
	case s.together:
		name = "together"
	case s.deadline != 0:
		name = "deadline"
	}
	return name
}

// copied is what a copy of p looks like: row-major elements, or the same bytes where
// elements are no whole ones.
func (p *place) copied() place {
	q := p.clone()
	if p.packed() {
		low, high := p.reach()
		q.mem = newMemory(Plain, p.mem.data[low:high])
		if p.mem.unknown != nil {
			q.mem.unknown = slices.Clone(p.mem.unknown[low:high])
		}
		q.bit -= 8 * low
	} else {
		q.mem = newMemory(Plain, make([]byte, p.elements()*p.width()/8))
		q.bit, q.strides = 0, rowMajor(p.shape)
		q.write(p.read())
	}
	q.mem.tainted = p.mem.tainted
	return q
}

// window is what part of each axis a copy takes: none is all of it.
type window []cut

type cut struct{ start, stop, step int64 }

// copyTensor is Device.Copy between two tensors, or windows of them.
type copyTensor struct {
	dst, src int
	to, from window
	stream   int
	deadline int
}

func (s *copyTensor) run(t *thread) error {
	dst, src := t.vars[s.dst], t.vars[s.src]
	if dst == nil || src == nil || dst.mem.frozen {
		return errSkip
	}
	if dst.mem == src.mem && dst.mem.hidden && dst.root != src.root {
		return errSkip
	}
	d := deviceFor(t, dst, src)
	if d == nil || d.closed {
		return errSkip
	}
	dr, dp, dn, closeDst, err := s.cut(t, dst, s.to, "dst")
	if err != nil {
		return err
	}
	defer closeDst()
	sr, sp, sn, closeSrc, err := s.cut(t, src, s.from, "src")
	if err != nil {
		return err
	}
	defer closeSrc()
	on, name := t.on(s.stream, d)
	ctx, ctxName, cancel := t.limited(s.deadline)
	defer cancel()

	w := wants{}
	same := dp.mem == sp.mem && dp.bit == sp.bit && slices.Equal(dp.strides, sp.strides)
	// Whichever is found first is told.
	for _, x := range []struct {
		so  bool
		err error
	}{
		{dst.closed || src.closed, core.ErrClosed},
		{dp.readOnly, core.ErrReadOnly},
		{dp.repeats() || !slices.Equal(dp.shape, sp.shape), core.ErrLayout},
		{dp.dtype != sp.dtype || dp.dtype.SubByte() && dp.padded != sp.padded, core.ErrDType},
	} {
		if x.so {
			w.must = append(w.must, x.err)
		}
	}
	if dp.touches(&sp) && !same {
		w.may = append(w.may, core.ErrLayout)
	}
	if !reachable(d, dst) || !reachable(d, src) {
		w.may = append(w.may, core.ErrDevice, core.ErrNotSupported, core.ErrInvalid)
	}
	if len(w.must) > 0 && s.deadline != 0 {
		w.must = append(w.must, ended...)
	}
	if s.deadline != 0 {
		w.may = append(w.may, ended...)
	}
	if dp.mem.tainted || sp.mem.tainted {
		w.may = append(w.may, suspected...)
	}
	if dp.packed() {
		w.may = append(w.may, core.ErrNotSupported)
	}
	after := func() {}
	if !dst.closed && !src.closed {
		after = t.before(dst, src)
	}
	t.say("check(%s.Copy(%s, %s, %s, %s))", t.devName(d), ctxName, name, dn, sn)
	err = d.Copy(ctx, on, dr, sr)
	after()
	option := "no_stream"
	switch {
	case s.deadline != 0:
		option = "deadline"
	case same:
		option = "same"
	case dp.touches(&sp):
		option = "overlap"
	case on != nil:
		option = "stream"
	}
	t.cover(dst.mem.kind, "copy", d, option)
	t.cover(src.mem.kind, "copied", d, option)
	if e := t.check("Copy", err, w); e != nil {
		return e
	}
	switch {
	case err == nil && dp.elements() > 0:
		v := sp.read()
		dp.write(v)
		dst.mem.wrote(dst.root, src.mem.tainted)
		t.pass(s.stream, on, src.mem, dst.mem)
	case err != nil && !dst.closed && !dp.readOnly && !errors.Is(err, core.ErrLayout) && !errors.Is(err, core.ErrReadOnly) && !errors.Is(err, core.ErrDType) && !errors.Is(err, core.ErrClosed):
		dp.lose()
		dst.mem.wrote(dst.root, true)
	}
	return nil
}

// cut makes the view that a window is.
func (s *copyTensor) cut(t *thread, v *variable, w window, name string) (*core.Tensor, place, string, func(), error) {
	tensor, p, text := v.tensor, v.clone(), v.name
	var views []*core.Tensor
	end := func() {
		for _, x := range views {
			_ = x.Close()
		}
	}
	if v.closed {
		return tensor, p, text, end, nil
	}
	for axis, c := range w {
		if c.step == 0 || axis >= len(p.shape) {
			continue
		}
		next := p.slice(axis, c.start, c.stop, c.step)
		x, err := tensor.Slice(axis, c.start, c.stop, c.step)
		if err != nil {
			end()
			if p.packed() && errors.Is(err, core.ErrLayout) {
				return nil, p, "", nil, errSkip
			}
			return nil, p, "", nil, fmt.Errorf("Slice(%d, %d, %d, %d) of shape %v: %w", axis, c.start, c.stop, c.step, p.shape, err)
		}
		p, tensor = next, x
		text = fmt.Sprintf("parts.Slice(%s, %d, %d, %d, %d)", text, axis, c.start, c.stop, c.step)
		views = append(views, x)
	}
	return tensor, p, text, end, nil
}

// deviceFor is the device that copies between two tensors.
func deviceFor(t *thread, dst, src *variable) *Device {
	switch {
	case !dst.onHost() && dst.dev != nil:
		return dst.dev
	case !src.onHost() && src.dev != nil:
		return src.dev
	case dst.onHost() && src.onHost():
		return t.host()
	}
	return nil
}

// reachable reports whether a device can copy to or from a tensor.
func reachable(d *Device, v *variable) bool { return v.onHost() || v.dev == d }

// wrote notes a write to the memory: what failed before is over.
func (m *memory) wrote(root *core.Buffer, tainted bool) {
	m.failed = nil
	m.tainted = m.tainted || tainted
}

// fill copies new elements into a tensor from memory of Go that is let go at once.
type fill struct {
	dst    int
	skip   int64
	seed   uint64
	stream int
}

func (s *fill) run(t *thread) error {
	v := t.open(s.dst)
	if v == nil || v.mem.frozen || v.readOnly || v.repeats() {
		return errSkip
	}
	d := deviceFor(t, v, v)
	if d == nil || d.closed {
		return errSkip
	}
	p := v.clone()
	size := (v.elements()*v.width() + 7) / 8
	data := pattern(size, s.seed)
	p.mem, p.bit, p.strides, p.readOnly = newMemory(GoBytes, data), 0, rowMajor(v.shape), false
	b := parts.Bytes(s.skip, size)
	copy(b, data)
	spec := p.spec(0)
	from, err := parts.Over(b, spec)
	if err != nil {
		return err
	}
	on, name := t.on(s.stream, d)
	defer t.before(v)()
	t.say("check(parts.Fill(ctx, %s, %s, %s, parts.Filled(parts.Bytes(%d, %d), parts.Pattern(%d, %d))))", t.devName(d), name, v.name, s.skip, size, size, s.seed)
	err = d.Copy(t.ctx, on, v.tensor, from)
	_ = from.Close()
	t.cover(v.mem.kind, "fill", d, map[bool]string{true: "stream", false: "no_stream"}[on != nil])
	w := wants{}
	if v.packed() {
		w.may = []error{core.ErrNotSupported}
	}
	if e := t.check("Copy", err, w); e != nil {
		return e
	}
	if err == nil && v.elements() > 0 {
		v.write(p.read())
		v.mem.wrote(v.root, false)
		t.pass(s.stream, on, v.mem)
	} else if err != nil {
		v.lose()
	}
	return nil
}
