package soak

import (
	"fmt"
	"runtime"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/dlpack"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
	"github.com/dlx-go/dlx/stream"
)

// openStream opens a stream of a device.
type openStream struct{ v, dev int }

func (s *openStream) run(t *thread) error {
	d := t.dev(s.dev)
	if d == nil || d.closed {
		return errSkip
	}
	t.say("s%d, err = %s.NewStream(ctx)", s.v, t.devName(d))
	t.say("check(err)")
	x, err := d.NewStream(t.ctx)
	t.cover(Plain, "new_stream", d, "stream")
	if e := t.check("NewStream", err, wants{}); e != nil || err != nil {
		return e
	}
	t.stream[s.v] = &streamVar{Stream: x, dev: d, slot: s.v}
	d.use(1)
	return nil
}

// has is a stream of the program that is open, nil if there is none.
func (t *thread) has(i int) *streamVar {
	if s := t.stream[i]; s != nil && !s.closed {
		return s
	}
	return nil
}

// closeStream closes a stream, whatever work it has.
type closeStream struct{ of int }

func (s *closeStream) run(t *thread) error {
	x := t.has(s.of)
	if x == nil {
		return errSkip
	}
	t.say("check(s%d.Close())", s.of)
	x.closed = true
	x.dev.use(-1)
	err := x.Close()
	t.cover(Plain, "close_stream", x.dev, "stream")
	return t.check("Stream.Close", err, wants{may: suspected})
}

// synchronize waits for a stream.
type synchronize struct{ of, deadline int }

func (s *synchronize) run(t *thread) error {
	x := t.has(s.of)
	if x == nil {
		return errSkip
	}
	ctx, name, cancel := t.limited(s.deadline)
	defer cancel()
	t.say("check(s%d.Synchronize(%s))", s.of, name)
	err := x.Synchronize(ctx)
	t.cover(Plain, "synchronize", x.dev, option(s.deadline, "stream"))
	w := wants{may: suspected}
	if s.deadline != 0 {
		w.may = append(w.may, ended...)
	}
	return t.check("Synchronize", err, w)
}

func option(deadline int, name string) string {
	if deadline != 0 {
		return "deadline"
	}
	return name
}

// record makes an event of a stream.
type record struct{ v, of int }

func (s *record) run(t *thread) error {
	x := t.has(s.of)
	if x == nil {
		return errSkip
	}
	t.say("e%d, err = s%d.Record()", s.v, s.of)
	t.say("check(err)")
	e, err := x.Record()
	t.events[s.v] = e
	t.cover(Plain, "record", x.dev, "stream")
	return t.check("Record", err, wants{})
}

// waitEvent makes a stream, or the caller, wait for an event.
type waitEvent struct{ event, stream int }

func (s *waitEvent) run(t *thread) error {
	e := t.events[s.event]
	if e == nil {
		return errSkip
	}
	w := wants{may: suspected}
	if s.stream < 0 {
		t.say("check(e%d.Wait(ctx))", s.event)
		t.cover(Plain, "wait_event", nil, "host")
		return t.check("Event.Wait", e.Wait(t.ctx), w)
	}
	x := t.has(s.stream)
	if x == nil {
		return errSkip
	}
	t.say("check(s%d.Wait(e%d))", s.stream, s.event)
	t.cover(Plain, "wait_event", x.dev, "stream")
	w.may = append(w.may, core.ErrNotSupported)
	x.tainted = true // the event may be that of work that fails
	return t.check("Stream.Wait", x.Wait(e), w)
}

// handoff makes a stream wait until a tensor may be read there.
type handoff struct{ of, from, to int }

func (s *handoff) run(t *thread) error {
	v, to := t.open(s.of), t.has(s.to)
	if v == nil || to == nil {
		return errSkip
	}
	var from core.Stream
	name := "nil"
	if s.from >= 0 && t.has(s.from) != nil {
		from, name = t.has(s.from).Stream, fmt.Sprintf("s%d", s.from)
	}
	t.say("_, err = stream.Handoff(ctx, %s, %s, s%d)", v.name, name, s.to)
	t.say("check(err)")
	to.tainted = to.tainted || v.mem.tainted || from != nil
	_, err := stream.Handoff(t.ctx, v.tensor, from, to.Stream)
	t.cover(v.mem.kind, "handoff", to.dev, "stream")
	return t.check("Handoff", err, wants{may: suspected})
}

// openDevice opens a device of the world once more.
type openDevice struct {
	v, of    int
	renderer bool // by a context of the program's
}

func (s *openDevice) run(t *thread) error {
	of := t.world.Devices[s.of]
	if s.renderer {
		return t.openRenderer(s.v, of)
	}
	t.say("d%d = open(%q)", s.v, of.Name)
	x, err := of.Open(t.ctx)
	t.cover(Plain, "open_device", of, "stream")
	w := wants{}
	if t.world.Tight { // drivers have many words for a want of memory
		w.may = []error{core.ErrInvalid, core.ErrDevice}
	}
	if e := t.check("Open", err, w); e != nil || err != nil {
		return e
	}
	t.device[s.v-len(t.world.Devices)] = &Device{Name: of.Name, Open: of.Open, Device: x, private: true, number: s.v}
	return nil
}

// closeDevice closes a device that the program has opened. It must refuse while
// something of it is open.
type closeDevice struct{ dev int }

func (s *closeDevice) run(t *thread) error {
	d := t.dev(s.dev)
	if d == nil || !d.private || d.closed {
		return errSkip
	}
	dlpack.Flush() // what was exported is given back a moment later
	t.say("dlpack.Flush()")
	end, call := d.Close, "%s.Close()"
	if d.renderer {
		end, call = func() error { return parts.EndRenderer(d.Device) }, "parts.EndRenderer(%s)"
	}
	t.say("check("+call+") // %d tensors and streams of it are open", t.devName(d), d.users)
	w := wants{}
	option := "idle"
	if d.users > 0 {
		w.must = []error{core.ErrInvalid}
		option = "in_use"
	}
	err := end()
	t.cover(Plain, "close_device", d, option)
	if e := t.check("Device.Close", err, w); e != nil {
		return e
	}
	d.closed = err == nil
	return nil
}

// collect runs the garbage collector.
type collect struct{}

func (collect) run(t *thread) error {
	t.say("runtime.GC()")
	runtime.GC()
	return nil
}

// crowd makes, moves and closes many small tensors.
type crowd struct {
	n, dev int
	size   int64
	seed   uint64
}

func (s *crowd) run(t *thread) error {
	d := t.dev(s.dev)
	if d == nil || d.closed {
		return errSkip
	}
	t.say("check(parts.Crowd(ctx, %s, %d, %d, %d))", t.devName(d), s.n, s.size, s.seed)
	t.cover(GoNumbers, "crowd", d, "no_stream")
	return t.check("Crowd", parts.Crowd(t.ctx, d.Device, s.n, s.size, s.seed), wants{})
}
