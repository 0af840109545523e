package soak

import (
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// alias draws another name for memory of a memfd.
func (d *drawer) alias() {
	if !parts.HasMemFD {
		return
	}
	of := d.pick(func(s *sym) bool { return s.kind == MemFD && !s.shared })
	if of == nil {
		of = d.make(MemFD)
	}
	if d.full() {
		return
	}
	v := *of
	s := &alias{v: d.p.vars, of: of.id, how: d.IntN(aliases), dev: d.anyDevice()}
	v.id, v.closed, v.dev, v.host = s.v, false, -1, true
	switch s.how {
	case aliasImport:
		v.dev = 0
	case aliasOpen:
		v.dev = s.dev
		v.host = d.idOf(s.dev).Type.HostAccessible()
	}
	d.p.vars++
	d.add(s)
	d.syms = append(d.syms, &v)
}

// over draws a tensor that goes to another process and comes back: often a part of memory that it can open, as
// slots of a buffer are.
func (d *drawer) over() {
	if !parts.HasPeers || d.full() {
		return
	}
	of := d.pick(nil)
	if d.IntN(3) > 0 {
		if of = d.pick(func(s *sym) bool { return s.kind == Exportable && s.host }); of == nil {
			of = d.make(Exportable)
		}
		if d.IntN(2) == 0 {
			of = d.viewOf(of, []viewKind{viewSlice, viewReverse, viewIndex, viewTranspose}[d.IntN(4)])
		}
	}
	if of == nil {
		return
	}
	s := &over{v: d.p.vars, of: of.id, dev: d.IntN(len(d.world))}
	if !of.shared && d.IntN(2) == 0 {
		s.write = d.Uint64()>>40 | 1
	}
	d.p.vars++
	v := *of
	v.id, v.family, v.closed, v.shared, v.dev, v.kind = s.v, s.v, false, false, s.dev, Plain
	v.host = d.idOf(s.dev).Type.HostAccessible()
	d.add(s)
	d.syms = append(d.syms, &v)
}

// symLink is a link between two streams.
type symLink struct{ id, from, to int }

// link draws what is done with links: one is opened where there is none.
func (d *drawer) link() {
	if len(d.links) == 0 {
		a, b := d.anyDevice(), d.anyDevice()
		from, to := d.streamFor(a), d.streamFor(b)
		if a == b || from < 0 || to < 0 {
			return
		}
		d.links = append(d.links, symLink{d.p.links, from, to})
		d.add(&openLink{v: d.p.links, from: from, to: to})
		d.p.links++
	}
	l := d.links[0]
	for range 1 + d.IntN(2) {
		of := d.pick(func(s *sym) bool { return !s.shared })
		if of == nil {
			return
		}
		if !of.readOnly && d.IntN(2) == 0 { // so that there is something to wait for
			dev := of.dev
			if of.host {
				dev = 0
			}
			d.add(&fill{dst: of.id, skip: d.Int64N(40), seed: d.Uint64() >> 40, stream: d.streamFor(dev)})
		}
		d.add(&linkHandoff{link: l.id, of: of.id})
	}
	if d.IntN(3) == 0 {
		d.links = slices.Delete(d.links, 0, 1)
		d.add(&closeLink{of: l.id})
	}
}

// streamFor is a stream of a device, -1 where there is none and may be no more.
func (d *drawer) streamFor(dev int) int {
	for _, s := range d.streams {
		if s.dev == dev {
			return s.id
		}
	}
	if dev < 0 {
		return -1
	}
	return d.newStream(dev)
}

// offer is a tensor that a thread gives, and that those drawn later may receive.
type offer struct {
	gift int
	sym  sym
}

// give hands a tensor to a thread that is drawn later: so no two wait for each other.
func (d *drawer) give() {
	if d.last {
		return
	}
	of := d.pick(func(s *sym) bool { return !s.shared && !s.closed })
	if of == nil || d.IntN(2) == 0 { // one that has no other names
		of = d.make(d.kind())
	}
	if of.dev >= len(d.world) { // of a device that only this thread knows
		return
	}
	if !of.readOnly && d.IntN(3) > 0 { // with work on it
		if d.onHost(of) {
			d.kernelOn(of)
		} else {
			d.add(&fill{dst: of.id, skip: d.Int64N(40), seed: d.Uint64() >> 40, stream: d.streamFor(of.dev)})
		}
	}
	d.add(&give{gift: len(d.p.gifts), of: of.id})
	*d.offers = append(*d.offers, offer{len(d.p.gifts), *of})
	d.p.gifts, d.p.giftVars = append(d.p.gifts, d.thread), append(d.p.giftVars, -1)
	d.syms = slices.DeleteFunc(d.syms, func(s *sym) bool { return s == of })
}

// receive takes a tensor over that a thread gives.
func (d *drawer) receive() {
	i := slices.IndexFunc(*d.offers, func(o offer) bool { return d.p.gifts[o.gift] != d.thread })
	if i < 0 {
		return
	}
	o := (*d.offers)[i]
	*d.offers = slices.Delete(*d.offers, i, i+1)
	v := o.sym
	v.id, v.family = d.p.vars, d.p.vars
	d.p.vars++
	d.p.giftVars[o.gift] = v.id
	d.add(&receive{gift: o.gift, v: v.id})
	d.syms = append(d.syms, &v)
}

// unclaimed draws the variables of what nobody receives.
func (p *program) unclaimed() {
	for i, v := range p.giftVars {
		if v < 0 {
			p.giftVars[i] = p.vars
			p.vars++
		}
	}
}

// renderer is a device of the program whose context is the program's, -1 if there may be none.
func (d *drawer) renderer() int {
	for _, x := range d.devices {
		if x.renderer {
			return x.id
		}
	}
	cards := d.devicesOf(core.DeviceGL)
	if d.prelude || !parts.HasRenderer || len(cards) == 0 || len(d.devices) > 2 {
		return -1
	}
	x := symDevice{id: len(d.world) + d.p.devices, of: cards[0], renderer: true}
	d.p.devices++
	d.add(&openDevice{v: x.id, of: x.of, renderer: true})
	d.devices = append(d.devices, x)
	return x.id
}
