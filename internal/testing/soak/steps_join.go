package soak

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/core"
)

// join is core.Stack, or core.Concat.
type join struct {
	v      int
	of     []int
	axis   int
	concat bool
	stream int // of the device of the tensors
}

func (s *join) run(t *thread) error {
	list, names, vars := []*core.Tensor{}, []string{}, []*variable{}
	for _, i := range s.of {
		v := t.open(i)
		if v == nil || v.dev != nil && v.dev.closed {
			return errSkip
		}
		list, names, vars = append(list, v.tensor), append(names, v.name), append(vars, v)
	}
	first := vars[0]
	axes := len(first.shape)
	if s.concat {
		axes--
	}
	if s.axis > axes {
		return errSkip
	}
	var o core.AllocOptions
	var name string
	if o.Stream, name = t.on(s.stream, first.dev); o.Stream == nil {
		name = ""
	}
	w, tainted := wants{}, false
	for _, v := range vars {
		if v.dtype != first.dtype || v.dtype.SubByte() && v.padded != first.padded {
			w.must = append(w.must, core.ErrDType)
		}
		if !s.fits(&v.place, &first.place) {
			w.must = append(w.must, core.ErrLayout)
		}
		if v.tensor.DeviceID() != first.tensor.DeviceID() || v.dev == nil && !v.onHost() || v.dev != first.dev {
			w.may = append(w.may, core.ErrDevice)
		}
		tainted = tainted || v.mem.tainted
	}
	if tainted {
		w.may = append(w.may, suspected...)
	}
	if first.packed() && (!first.onHost() || o.Stream != nil) {
		w.may = append(w.may, core.ErrLayout, core.ErrNotSupported)
	}
	call := "core.Stack"
	if s.concat {
		call = "core.Concat"
	}
	after := t.before(vars...)
	t.say("t%d, err = %s(ctx, []*core.Tensor{%s}, %d, %s)", s.v, call, strings.Join(names, ", "), s.axis, allocCode(o, name))
	t.say("check(err)")
	f := core.Stack
	if s.concat {
		f = core.Concat
	}
	tensor, err := f(t.ctx, list, s.axis, o)
	after()
	t.cover(first.mem.kind, "join", first.dev, strings.ToLower(strings.TrimPrefix(call, "core.")))
	if e := t.check(call, err, w); e != nil || err != nil {
		return e
	}
	p := s.result(vars)
	p.mem.tainted = tainted
	var d *Device
	for _, v := range vars {
		if v.dev != nil && v.dev.Device == tensor.Device() {
			d = v.dev
		}
	}
	if d == nil {
		p.mem.kind = Malloc // memory of the host that nobody may have parts of
	}
	memories := []*memory{p.mem}
	for _, v := range vars {
		memories = append(memories, v.mem)
	}
	t.pass(s.stream, o.Stream, memories...)
	if _, err := t.add(s.v, p, tensor, d, nil); err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	return nil
}

// fits reports whether a tensor may be in a list whose first tensor is another.
func (s *join) fits(p, first *place) bool {
	if !s.concat {
		return slices.Equal(p.shape, first.shape)
	}
	if len(p.shape) != len(first.shape) {
		return false
	}
	for i, n := range p.shape {
		if i != s.axis && n != first.shape[i] {
			return false
		}
	}
	return true
}

// result is what the tensors make together.
func (s *join) result(vars []*variable) place {
	p := vars[0].clone()
	p.readOnly, p.bit = false, 0
	if s.concat {
		p.shape[s.axis] = 0
		for _, v := range vars {
			p.shape[s.axis] += v.shape[s.axis]
		}
	} else {
		p.shape = slices.Insert(p.shape, s.axis, int64(len(vars)))
	}
	p.strides = rowMajor(p.shape)
	p.mem = newMemory(Plain, make([]byte, (p.elements()*p.width()+7)/8))
	at := int64(0)
	for i, v := range vars {
		var part place
		if s.concat {
			part = p.slice(s.axis, at, at+v.shape[s.axis], 1)
			at += v.shape[s.axis]
		} else {
			part = p.index(s.axis, int64(i))
		}
		if v.elements() > 0 {
			part.write(v.read())
		}
	}
	return p
}
