package soak

import (
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// This file draws several steps at once: what users do with the tensors that they have
// just made, and seldom comes about by chance.

// moveTo draws a move of a tensor to a device, without a context that ends.
func (d *drawer) moveTo(of *sym, dev int, c exchange.Copy) *sym {
	s := &move{v: d.p.vars, of: of.id, dev: dev, copy: c, stream: -1, from: -1}
	d.p.vars++
	if d.IntN(3) > 0 {
		s.stream = d.streamFor(dev)
	}
	return d.addMove(s, of)
}

// mapper is a device that can map memory of the host.
func (d *drawer) mapper() int {
	var list []int
	for i, x := range d.world {
		if x.has(core.CapMapHost) || x.has(core.CapImportPointer) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return d.anyDevice()
	}
	return list[d.IntN(len(list))]
}

// neighbours draws tensors of one page, of which a device maps some: copies between
// those and the others have both sides on one page.
func (d *drawer) neighbours() {
	if d.full() {
		return
	}
	if d.IntN(2) == 0 { // from the start of a page on
		*d.pageEnd += -*d.pageEnd & 4095
	}
	first := d.make(GoPage)
	beside := []*sym{first}
	for range 1 + d.IntN(2) {
		beside = append(beside, d.makeLike(GoPage, first.dtype, first.padded, slices.Clone(first.shape)))
	}
	dev := d.mapper()
	mapped := d.moveTo(beside[d.IntN(len(beside))], dev, exchange.Copy(d.IntN(2)))
	stream := d.streamFor(dev)
	for range 2 + d.IntN(3) {
		s := &copyTensor{dst: mapped.id, src: beside[d.IntN(len(beside))].id, stream: stream}
		if d.IntN(2) == 0 {
			s.dst, s.src = s.src, s.dst
		}
		if d.IntN(4) == 0 {
			s.stream = -1
		}
		d.add(s)
	}
}

// imported draws a tensor of another library, with rows of some length, that goes to a
// device.
func (d *drawer) imported() {
	if d.full() {
		return
	}
	kind := Foreign
	if !parts.HasC {
		kind = GoBytes
	} else if d.IntN(3) == 0 {
		kind = ForeignLegacy
	}
	dtype := dtypes[d.IntN(6)]
	shape := []int64{2 + d.Int64N(7), 64 + d.Int64N(512)}
	if d.IntN(3) == 0 {
		shape = slices.Insert(shape, 0, 1+d.Int64N(3))
	}
	of := d.makeLike(kind, dtype, false, shape)
	for _, dev := range d.some() {
		c := exchange.Always
		if d.IntN(2) == 0 {
			c = exchange.Copy(d.IntN(3))
		}
		d.moveTo(of, dev, c)
	}
}

// crowd draws the short lives of many small tensors.
func (d *drawer) crowd() {
	d.add(&crowd{n: 2 + d.IntN(40), size: 4 * (1 + d.Int64N(44)), dev: d.mapper(), seed: d.Uint64() >> 40})
}

// some is up to three devices of the world.
func (d *drawer) some() []int { return d.Perm(len(d.world))[:min(3, len(d.world))] }

// tour draws a tensor of any kind that goes to several devices in ways that are asked for,
// and what is done with it there.
func (d *drawer) tour() {
	if d.full() {
		return
	}
	of := d.make(d.kind())
	for _, dev := range d.some() {
		s := &move{v: d.p.vars, of: of.id, dev: dev, copy: exchange.Copy(d.IntN(3)), stream: -1, from: -1}
		switch d.IntN(8) {
		case 0:
			s.plan = true
		case 1:
			s.deadline = 1 + d.IntN(300)
		case 2, 3, 4:
			s.only = exchange.Mechanism(1 + d.IntN(5))
		}
		d.p.vars++
		there := d.addMove(s, of)
		d.visit(there)
		if d.IntN(2) == 0 {
			there.closed = true
			d.add(&closeTensor{of: there.id})
		}
	}
	if of.dev >= 0 && d.IntN(2) == 0 { // the host's view of it
		of = d.moveTo(of, 0, exchange.Never)
		d.visit(of)
	}
	d.visit(of)
}

// visit draws work on a tensor.
func (d *drawer) visit(v *sym) {
	switch d.IntN(5) {
	case 0:
		d.kernelOn(v)
	case 1:
		d.readerOf(v)
	case 2:
		d.reexportOf(v)
	case 3:
		if s := d.streamFor(d.anyDevice()); s >= 0 {
			d.add(&handoff{of: v.id, from: -1, to: s})
		}
	case 4:
		d.hostWriteOf(v)
	}
}
