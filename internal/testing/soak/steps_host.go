package soak

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// The ways in which a tensor is looked at.
const (
	byCopy    = iota // Device.Copy to the host, which waits
	byStream         // Device.Copy on a stream, then WaitReady
	byTo             // exchange.To the host
	byToDoor         // a copy of exchange.To, then core.Values
	byAddress        // its own memory
	byDoor           // core.Values of its own memory
	hows
)

var howNames = [hows]string{"copy", "stream", "to", "to_values", "address", "values"}

// compare compares a tensor with the model.
type compare struct {
	of     int
	how    int
	stream int
}

func (s *compare) run(t *thread) error {
	v := t.open(s.of)
	if v == nil || v.mem.hidden && v.mem.multi && !v.onHost() {
		return errSkip
	}
	how := s.how
	if !v.onHost() && how >= byAddress {
		how -= byAddress
	}
	if !v.onHost() && (v.dev == nil || v.dev.closed) {
		return errSkip // no elements, or memory of a stranger, which no device of ours can read
	}
	if (how == byDoor || how == byToDoor) && !doored[v.dtype] || how < byTo && v.packed() {
		how = byTo
	}
	if v.mem.failed != nil && v.mem.failed == v.root {
		return s.failed(t, v)
	}
	defer t.before(v)()
	want := v.read()
	t.say("check(parts.Expect(ctx, %s, %s, %q, %#x)) // %s", t.devName(t.readerOf(v)), v.name, howNames[how], crc32.ChecksumIEEE(want.data), short(want))
	got, err := parts.Look(t.ctx, t.readerOf(v).Device, t.host().Device, t.pickStream(s.stream, v), v.tensor, howNames[how])
	t.cover(v.mem.kind, "compare", v.dev, howNames[how])
	w := wants{}
	if v.mem.tainted {
		w.may = suspected
	}
	if v.packed() {
		w.may = append(w.may, core.ErrNotSupported)
	}
	if e := t.check("compare by "+howNames[how], err, w); e != nil || err != nil {
		return e
	}
	if d := v.differs(want, got); d != "" {
		return fmt.Errorf("%s (%v of %v memory, bit %d, strides %v), looked at by %s: %s", v.name, v.tensor, v.mem.kind, v.bit, v.strides, howNames[how], d)
	}
	return nil
}

// readerOf is the device that reads a tensor for the host.
func (t *thread) readerOf(v *variable) *Device {
	if d := deviceFor(t, v, v); d != nil && !d.closed {
		return d
	}
	return t.host()
}

func (t *thread) pickStream(i int, v *variable) core.Stream {
	on, _ := t.on(i, t.readerOf(v))
	return on
}

// failed proves that a tensor tells of the work that failed.
func (s *compare) failed(t *thread, v *variable) error {
	t.say("_ = %s.WaitReady(ctx) // fails: %v", v.name, errKernel)
	if err := v.tensor.WaitReady(t.ctx); !errors.Is(err, errKernel) {
		return fmt.Errorf("WaitReady of %s after a write that failed: %w", v.name, cmp.Or(err, errNothing))
	}
	return nil
}

// short is elements in words, if there are few.
func short(v values) string {
	if len(v.data) > 64 || v.unknown != nil {
		return fmt.Sprintf("%d bytes", len(v.data))
	}
	return fmt.Sprintf("%x", v.data)
}

// doored are the types that core.Values has a type of Go for, and the program tries.
var doored = map[core.DType]bool{
	core.TypeUint8: true, core.TypeInt16: true, core.TypeFloat16: true, core.TypeFloat32: true,
	core.TypeFloat64: true, core.TypeComplex128: true,
}

// aligned reports whether the elements of a tensor may be values of Go.
func (v *variable) aligned() bool {
	item, _ := v.dtype.ItemSize()
	address, err := v.tensor.Address()
	return err == nil && (item == 0 || address%uintptr(min(item, 8)) == 0)
}

// hostWrite writes the elements of a tensor that the host reaches.
type hostWrite struct {
	dst  int
	seed uint64
	door bool // by core.Mutable
}

func (s *hostWrite) run(t *thread) error {
	v := t.open(s.dst)
	if v == nil || v.mem.frozen || !v.onHost() || v.elements() == 0 {
		return errSkip
	}
	items := newItems(&v.place, s.seed)
	door := s.door && doored[v.dtype] && v.aligned()
	if !door && (v.readOnly || v.repeats()) {
		return errSkip
	}
	defer t.before(v)()
	w, call := wants{}, "Store"
	var err error
	if door {
		if call = "core.Mutable"; v.readOnly {
			w.must = []error{core.ErrReadOnly}
		} else if v.repeats() {
			w.must = []error{core.ErrLayout}
		}
		if v.mem.tainted {
			w.may = suspected
		}
		t.say("check(parts.DoorWrite(%s, parts.Items(%s, %d)))", v.name, v.name, s.seed)
		err = parts.DoorWrite(v.tensor, items.data)
	} else {
		t.say("check(parts.Store(ctx, %s, parts.Items(%s, %d)))", v.name, v.name, s.seed)
		err = parts.Store(t.ctx, v.tensor, items.data)
	}
	t.cover(v.mem.kind, "host_write", v.dev, map[bool]string{true: "mutable", false: "address"}[door])
	if e := t.check(call, err, w); e != nil || err != nil {
		return e
	}
	v.write(items)
	if !door { // Mutable does not say that something was written: a failed write stays one
		v.mem.wrote(v.root, false)
	}
	return nil
}

// newItems are elements for all of a place.
func newItems(p *place, seed uint64) values {
	v := values{item: (p.width() + 7) / 8}
	v.data = parts.ItemsOf(p.elements(), p.width(), seed)
	return v
}

// kernel is work of the program, which writes a tensor with an event of its own, or on
// a queue of the host.
type kernel struct {
	dst    int
	seed   uint64
	after  time.Duration
	fails  bool
	queued bool
}

func (s *kernel) run(t *thread) error {
	v := t.open(s.dst)
	if v == nil || v.mem.frozen || !v.onHost() || v.readOnly || v.repeats() || v.elements() == 0 {
		return errSkip
	}
	if v.dev != nil && v.dev.ID().Type == core.DeviceCUDA && !v.dev.has(core.CapHostMemory) && v.mem.kind == Managed {
		return errSkip // the host may not write managed memory while the card works elsewhere
	}
	items := newItems(&v.place, s.seed)
	defer t.before(v)()
	var err error
	option := "event"
	switch {
	case s.queued:
		option = "queue"
		t.say("check(parts.Queued(ctx, queue, %s, parts.Items(%s, %d)))", v.name, v.name, s.seed)
		err = parts.Queued(t.ctx, t.queue, v.tensor, items.data)
	case s.fails:
		option = "fails"
		t.say("check(parts.Kernel(%s, parts.Items(%s, %d), %d, errors.New(\"failed\")))", v.name, v.name, s.seed, s.after)
		err = parts.Kernel(v.tensor, items.data, s.after, errKernel)
	default:
		t.say("check(parts.Kernel(%s, parts.Items(%s, %d), %d, nil))", v.name, v.name, s.seed, s.after)
		err = parts.Kernel(v.tensor, items.data, s.after, nil)
	}
	t.cover(v.mem.kind, "kernel", v.dev, option)
	if e := t.check("kernel", err, wants{}); e != nil || err != nil {
		return e
	}
	v.write(items)
	v.mem.wrote(v.root, false)
	if s.fails && !s.queued {
		v.lose()
		v.mem.failed, v.mem.tainted = v.root, true
	}
	return nil
}

// reader is work of the program that reads a tensor later, noted by an event of its own.
type reader struct {
	of    int
	after time.Duration
}

func (s *reader) run(t *thread) error {
	v := t.open(s.of)
	if v == nil || !v.onHost() || v.mem.tainted || v.mem.hidden {
		return errSkip
	}
	want, p := v.read(), v.clone()
	defer t.before(v)()
	t.say("parts.Reads(%s, %d, %#x)", v.name, s.after, crc32.ChecksumIEEE(want.data))
	t.later.Add(1)
	name := v.name
	err := parts.Reader(v.tensor, s.after, func(got []byte, err error) {
		defer t.later.Done()
		if err != nil {
			t.fail(fmt.Errorf("a reader of %s learned: %w", name, err))
		} else if d := p.differs(want, got); d != "" {
			t.fail(fmt.Errorf("%s, read by work of the program that was noted as a use: %s", name, d))
		}
	})
	if err != nil {
		t.later.Done()
	}
	t.cover(v.mem.kind, "reader", v.dev, "event")
	return t.check("Reader", err, wants{})
}

// closeTensor closes a tensor, once or twice.
type closeTensor struct {
	of    int
	twice bool
}

func (s *closeTensor) run(t *thread) error {
	v := t.open(s.of)
	if v == nil || v.shared && t.index >= 0 {
		return errSkip
	}
	if v.mem.multi {
		t.noteWork(v)
	}
	t.say("check(%s.Close())", v.name)
	err := v.tensor.Close()
	if s.twice {
		t.say("check(%s.Close())", v.name)
		err = errors.Join(err, v.tensor.Close())
	}
	v.closed = true
	v.mem.names.Add(-1)
	for _, d := range v.involved {
		d.use(-1)
	}
	t.cover(v.mem.kind, "close", v.dev, map[bool]string{true: "twice", false: "once"}[s.twice])
	if err != nil {
		return fmt.Errorf("Tensor.Close: %w", err)
	}
	if _, err := v.tensor.Buffer(); !errors.Is(err, core.ErrClosed) {
		return fmt.Errorf("the Buffer of a closed tensor: %w", cmp.Or(err, errNothing))
	}
	return nil
}
