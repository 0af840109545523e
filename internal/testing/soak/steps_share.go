package soak

import (
	"context"
	"fmt"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
	"github.com/dlx-go/dlx/stream"
)

// The ways to make another name for memory of a memfd.
const (
	aliasTold   = iota // a mapping that tells its file
	aliasUntold        // a mapping of which only the kernel knows
	aliasImport        // ImportMemory of the host
	aliasOpen          // exchange.Open on a device
	aliases
)

var aliasNames = [aliases]string{"told", "untold", "import", "open"}

// alias gives memory of a memfd another name.
type alias struct {
	v, of int
	how   int
	dev   int // for aliasOpen
}

func (s *alias) run(t *thread) error {
	v := t.open(s.of)
	if v == nil || v.mem.frozen || v.mem.file == nil || v.mem.file.Length == 0 || v.bit%8 != 0 {
		return errSkip
	}
	d := t.host()
	if s.how == aliasOpen {
		d = t.dev(s.dev)
	}
	if d == nil || d.closed {
		return errSkip
	}
	t.before(v) // the other name does not wait for the work
	if err := parts.Wait(t.ctx, v.tensor); err != nil {
		return err
	}
	x, spec, w := *v.mem.file, v.spec(0), wants{}
	var tensor *core.Tensor
	var err error
	if s.how >= aliasImport {
		t.say("x%d, err = %s.Duplicate()", s.v, v.mem.fileName)
		t.say("check(err)")
		if x, err = x.Duplicate(); err != nil {
			return t.check("Duplicate", err, w)
		}
	}
	switch s.how {
	case aliasTold, aliasUntold:
		t.say("t%d, err = parts.Wrapped(parts.MapFD(%s, %v))(nil, %s)", s.v, v.mem.fileName, s.how == aliasTold, specCode(spec))
		tensor, err = parts.Wrapped(parts.MapFD(x, s.how == aliasTold))(nil, spec)
		d = nil
	case aliasImport:
		t.say("t%d, err = parts.Wrapped(parts.Imported(ctx, %s, x%d))(nil, %s)", s.v, t.devName(d), s.v, specCode(spec))
		tensor, err = parts.Wrapped(parts.Imported(t.ctx, d.Device, x))(nil, spec)
	case aliasOpen:
		t.say("t%d, err = exchange.Open(ctx, %s, x%d, %s)", s.v, t.devName(d), s.v, specCode(spec))
		tensor, err = exchange.Open(t.ctx, d.Device, x, spec)
		_ = x.Close()
		w.may = []error{core.ErrNotSupported, core.ErrDevice, core.ErrInvalid}
	}
	t.say("check(err)")
	option := aliasNames[s.how]
	if err != nil {
		option += refused
	}
	t.cover(v.mem.kind, "alias", d, option)
	if e := t.check("alias", err, w); e != nil || err != nil {
		return e
	}
	if _, err = t.add(s.v, v.clone(), tensor, d, v); err != nil {
		return err
	}
	n := t.vars[s.v]
	for _, x := range n.involved { // the file keeps itself
		x.use(-1)
	}
	n.involved = nil
	if d != nil {
		n.involved = []*Device{d}
		d.use(1)
	}
	v.mem.hidden = v.mem.hidden || !v.mem.told || s.how == aliasUntold
	return nil
}

// linkVar is a shared semaphore of the program.
type linkVar struct {
	*stream.SharedSemaphore
	from, to *streamVar
	devices  []*Device // that have its semaphores
	closed   bool
}

// openLink makes a shared semaphore by which one stream waits for another.
type openLink struct{ v, from, to int }

func (s *openLink) run(t *thread) error {
	from, to := t.has(s.from), t.has(s.to)
	if from == nil || to == nil || from.dev == to.dev {
		return errSkip
	}
	t.say("l%d, _, err = parts.Linked(ctx, s%d, s%d)", s.v, s.from, s.to)
	t.say("check(err)")
	l, of, err := parts.Linked(t.ctx, from.Stream, to.Stream)
	option := "linked"
	if err != nil {
		option += refused
	}
	t.cover(Plain, "link", from.dev, option)
	if e := t.check("Linked", err, wants{may: []error{core.ErrNotSupported}}); e != nil || err != nil {
		return e
	}
	x := &linkVar{SharedSemaphore: l, from: from, to: to}
	if of {
		x.devices = []*Device{from.dev, to.dev}
	}
	for _, d := range x.devices {
		d.use(1)
	}
	t.links[s.v] = x
	return nil
}

// linkHandoff makes the waiting stream of a shared semaphore wait until a tensor may be read there.
type linkHandoff struct{ link, of int }

func (s *linkHandoff) run(t *thread) error {
	v, l := t.open(s.of), t.links[s.link]
	if v == nil || l == nil || l.closed || l.from.closed || l.to.closed || v.mem.frozen {
		return errSkip
	}
	defer t.before(v)()
	t.say("_, err = l%d.Handoff(ctx, %s, s%d, s%d)", s.link, v.name, l.from.slot, l.to.slot)
	t.say("check(err)")
	l.from.tainted = l.from.tainted || v.mem.tainted
	l.to.tainted = l.to.tainted || l.from.tainted
	v.mem.tainted = v.mem.tainted || l.to.tainted // the last write is known by an event of that stream now
	how, err := l.Handoff(t.ctx, v.tensor, l.from.Stream, l.to.Stream)
	t.cover(v.mem.kind, "link_handoff", l.to.dev, how.String())
	if e := t.check("SharedSemaphore.Handoff", err, wants{may: suspected}); e != nil || err != nil {
		return e
	}
	if how == stream.NoWait || how == stream.HostWait {
		if e := v.tensor.Ready(); e != nil {
			if done, _ := e.Done(); !done {
				return fmt.Errorf("SharedSemaphore.Handoff says %v, and the last write of %s is not done", how, v.name)
			}
		}
	}
	return nil
}

// closeLink closes a shared semaphore, whatever waits by it.
type closeLink struct{ of int }

func (s *closeLink) run(t *thread) error {
	l := t.links[s.of]
	if l == nil || l.closed {
		return errSkip
	}
	t.say("check(l%d.Close())", s.of)
	l.closed = true
	err := l.Close()
	for _, d := range l.devices {
		d.use(-1)
	}
	t.cover(Plain, "close_link", l.from.dev, "linked")
	return t.check("SharedSemaphore.Close", err, wants{})
}

// give hands a tensor over to another thread of the program, with whatever work there is on it.
type give struct{ gift, of int }

func (s *give) run(t *thread) error {
	v := t.open(s.of)
	if v == nil || v.shared || v.mem.frozen || v.mem.names.Load() != 1 || v.dev != nil && v.dev.private {
		return errSkip
	}
	for _, d := range v.involved {
		if d.private {
			return errSkip
		}
	}
	t.say("g%d <- %s", s.gift, v.name)
	option := "ready"
	if e := v.tensor.Ready(); e != nil {
		if done, _ := e.Done(); !done {
			option = "pending"
		}
	}
	t.cover(v.mem.kind, "give", v.dev, option)
	t.vars[s.of] = nil
	t.gifts[s.gift] <- v
	return nil
}

// receive takes over what another thread gives.
type receive struct{ gift, v int }

func (s *receive) run(t *thread) error {
	v := <-t.gifts[s.gift] // closed when the other thread ends
	if v == nil {
		return errSkip
	}
	t.say("t%d = <-g%d", s.v, s.gift)
	v.name = fmt.Sprintf("t%d", s.v)
	t.vars[s.v] = v
	t.cover(v.mem.kind, "receive", v.dev, "gift")
	return nil
}

// endGifts says that a thread gives no more.
func (r *run) endGifts(p *program, thread int) {
	for i, giver := range p.gifts {
		if giver == thread {
			close(r.gifts[i])
		}
	}
}

// unclaimed takes over what nobody has received.
func (r *run) unclaimed(p *program) {
	for i, g := range r.gifts {
		if v := <-g; v != nil {
			r.vars[p.giftVars[i]] = v
			v.name = fmt.Sprintf("t%d", p.giftVars[i])
		}
	}
}

// closeFiles closes the handles that the program has kept.
func (r *run) closeFiles() {
	for _, x := range r.files {
		_ = x.Close()
	}
}

// openRenderer starts a thread of the program that has a context of OpenGL.
func (t *thread) openRenderer(i int, of *Device) error {
	t.say("d%d, err = parts.Renderer()", i)
	t.say("check(err)")
	x, err := parts.Renderer()
	name := of.Name + rendererName
	d := &Device{Name: name, Device: x, private: true, number: i, renderer: true}
	t.cover(Plain, "open_device", d, "renderer")
	w := wants{}
	if t.world.Tight {
		w.may = []error{core.ErrInvalid, core.ErrDevice}
	}
	if e := t.check("Renderer", err, w); e != nil || err != nil {
		return e
	}
	d.Open = func(context.Context) (core.Device, error) { return parts.Renderer() }
	t.device[i-len(t.world.Devices)] = d
	return nil
}

// rendererName follows the name of a device whose context is the program's.
const rendererName = " of the program"
