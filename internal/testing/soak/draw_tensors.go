package soak

import (
	"slices"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
	"github.com/dlx-go/dlx/internal/testing/soak/parts"
)

// dtypes are the types that are drawn, lanes and numbers of less than a byte among them.
var dtypes = []core.DType{
	core.TypeUint8, core.TypeInt16, core.TypeFloat16, core.TypeFloat32, core.TypeFloat64, core.TypeComplex128,
	core.TypeBool, core.TypeBFloat16, core.TypeInt4, core.TypeFloat4E2M1FN, core.TypeFloat8E5M2,
	{Code: typecode.Float6E2M3FN, Bits: 6, Lanes: 1}, {Code: typecode.UInt, Bits: 8, Lanes: 3},
	{Code: typecode.Int, Bits: 4, Lanes: 2}, {Code: typecode.Float, Bits: 32, Lanes: 4},
	{Code: typecode.UInt, Bits: 1, Lanes: 1}, {Code: 42, Bits: 24, Lanes: 2},
}

// shape draws extents: mostly few elements, sometimes a page or more, seldom a MiB.
func (d *drawer) shape(dtype core.DType) []int64 {
	most := int64(64)
	switch n := d.IntN(40); {
	case n == 0:
		most = d.largest
	case n < 9:
		most = 16 << 10
	}
	most = max(1, most/max(1, dtype.ElementBits()/8))
	rank := d.IntN(5)
	shape := make([]int64, rank)
	for i := range shape {
		shape[i] = 1 + d.Int64N(12)
		if d.IntN(25) == 0 {
			shape[i] = 0
		}
	}
	for product(shape) > most {
		i := d.IntN(rank)
		shape[i] = (shape[i] + 1) / 2
	}
	if rank > 0 && most > 64 && product(shape) > 0 {
		i := d.IntN(rank)
		if grown := most / (product(shape) / shape[i]); grown > shape[i] {
			shape[i] += d.Int64N(grown - shape[i] + 1)
		}
	}
	return shape
}

// make draws a tensor on memory of its own.
func (d *drawer) make(kind Kind) *sym {
	dtype := dtypes[d.IntN(len(dtypes))]
	if d.IntN(3) == 0 {
		dtype = dtypes[d.IntN(6)]
	}
	if kind == GoNumbers {
		dtype = core.TypeFloat32
	}
	return d.makeLike(kind, dtype, dtype.SubByte() && d.IntN(3) == 0, d.shape(dtype))
}

func (d *drawer) makeLike(kind Kind, dtype core.DType, padded bool, shape []int64) *sym {
	renderer := -1
	if kind == Drawn {
		if renderer = d.renderer(); renderer < 0 {
			kind = Plain
		}
	}
	switch {
	case kind == MemFD && !parts.HasMemFD:
		kind = File
	case kind == GoNumbers && dtype != core.TypeFloat32:
		kind = GoBytes
	case kind == ForeignLegacy && padded: // the old struct cannot say so
		kind = Foreign
	}
	s := &makeTensor{v: d.p.vars, kind: kind, dtype: dtype, padded: padded, shape: shape, stream: -1, export: d.IntN(4)}
	d.p.vars++
	v := &sym{id: s.v, family: s.v, kind: kind, dtype: dtype, padded: padded, shape: shape, dev: -1, host: true}
	p := place{dtype: dtype, padded: padded, shape: shape, strides: rowMajor(shape)}
	s.size = (p.elements()*p.width() + 7) / 8
	s.skip = d.Int64N(80)
	if item, _ := dtype.ItemSize(); d.IntN(2) == 0 && item > 0 {
		s.skip -= s.skip % min(item, 16)
	}
	switch {
	case kind == GoNumbers:
		s.skip = 0
	case kind == GoPage:
		if *d.pageEnd%4096 == 0 || d.IntN(2) == 0 { // at the start of a page, or next to the neighbour
			s.skip = 0
		}
		if *d.pageEnd+s.skip+s.size > pageBytes {
			s.kind, v.kind = GoBytes, GoBytes
			break
		}
		s.skip += *d.pageEnd
		*d.pageEnd = s.skip + s.size
	case kind == FileReadOnly:
		s.readOnly = true
	case kind == Foreign || kind == ForeignLegacy:
		d.foreign(s, p)
	case kind.ofDevice():
		s.dev = d.anyDevice()
		if kind == Pinned || kind == Managed {
			if cards := d.pinners(kind); len(cards) > 0 {
				s.dev = cards[d.IntN(len(cards))]
			}
		}
		if kind == Drawn {
			s.dev = renderer
		}
		s.stream = d.streamOf(s.dev)
		v.dev, v.host = s.dev, d.idOf(s.dev).Type.HostAccessible() || kind == Pinned || kind == Managed
	}
	if kind == GoBytes && d.IntN(5) == 0 {
		s.readOnly = true
	}
	v.readOnly = s.readOnly
	d.add(s)
	d.syms = append(d.syms, v)
	return v
}

// pinners lists the devices that have memory of a kind, pinned or managed.
func (d *drawer) pinners(k Kind) (list []int) {
	for i, x := range d.world {
		if x.pinnedType() != 0 && (k == Pinned || x.managed()) {
			list = append(list, i)
		}
	}
	return list
}

func (d *drawer) devicesOf(t core.DeviceType) (list []int) {
	for i, x := range d.world {
		if x.ID().Type == t {
			list = append(list, i)
		}
	}
	return list
}

// foreign gives a tensor of another library strides of any kind.
func (d *drawer) foreign(s *makeTensor, p place) {
	if s.kind == Foreign && d.IntN(5) == 0 {
		s.readOnly = true
	}
	s.skip = 0
	if item := p.width() / 8; p.packed() || d.IntN(4) == 0 || p.elements() == 0 {
		s.offset = d.Int64N(40)
		s.size += s.offset
	} else {
		strides := rowMajor(s.shape)
		if len(s.shape) > 1 && d.IntN(3) == 0 { // column-major
			slices.Reverse(strides)
			step := int64(1)
			for i, extent := range s.shape {
				strides[i] = step
				step *= extent
			}
		}
		gap := 1 + d.Int64N(2)
		whole := d.IntN(3) > 0 // neighbours in a row stay neighbours
		low, high := int64(0), int64(0)
		for i := range strides {
			if !whole || strides[i] > 1 {
				strides[i] *= gap
				switch d.IntN(6) {
				case 0, 1, 2:
					strides[i] = -strides[i]
				case 3:
					if d.IntN(4) == 0 {
						strides[i] = 0
					}
				}
			}
			span := (s.shape[i] - 1) * strides[i]
			low, high = low+min(span, 0), high+max(span, 0)
		}
		s.strides = strides
		s.offset = -low*item + d.Int64N(40)
		s.size = s.offset + (high+1)*item
	}
	switch d.IntN(3) {
	case 0: // the pointer is that of the memory
		s.byteOffset = s.offset
	case 1: // or that of the first element, as NumPy's is, or another
		s.byteOffset = d.Int64N(s.offset + 1)
	}
}

func (d *drawer) overlap() {
	of := d.pick(func(s *sym) bool {
		return s.kind <= GoPage && s.kind != GoNumbers && s.dev < 0 && len(s.shape) > 0 && s.shape[0] > 1 && !s.shared
	})
	if of == nil {
		return
	}
	s := &overlap{v: d.p.vars, of: of.id, from: d.Int64N(of.shape[0])}
	d.p.vars++
	v := *of
	v.id, v.closed, v.shape = s.v, false, slices.Clone(of.shape)
	v.shape[0] -= s.from
	d.add(s)
	d.syms = append(d.syms, &v)
}

func (d *drawer) view() {
	of := d.pick(nil)
	if of == nil {
		return
	}
	d.viewOf(of, viewKind(d.IntN(int(viewKinds))))
}

func (d *drawer) viewOf(of *sym, kind viewKind) *sym {
	v := *of
	v.shape, v.closed, v.shared = slices.Clone(of.shape), false, false
	s := &view{v: d.p.vars, of: of.id, kind: kind, step: 1}
	if rank := len(of.shape); rank > 0 {
		s.axis = d.IntN(rank)
	} else if kind == viewSlice || kind == viewReverse || kind == viewIndex || kind == viewSqueeze {
		kind, s.kind = viewShare, viewShare
	}
	n := int64(0)
	if len(of.shape) > 0 {
		n = of.shape[s.axis]
	}
	switch kind {
	case viewSlice:
		c := d.cutOf(n)
		s.start, s.stop, s.step = c.start, c.stop, c.step
		v.shape[s.axis] = c.len()
	case viewReverse:
		s.start, s.stop, s.step = n-1, -1, -1
		if n == 0 {
			s.kind = viewShare
		}
	case viewIndex:
		if n == 0 {
			s.kind = viewShare
			break
		}
		s.start = d.Int64N(n)
		v.shape = slices.Delete(v.shape, s.axis, s.axis+1)
	case viewTranspose:
		slices.Reverse(v.shape)
	case viewReshape:
		s.shape = d.reshape(v.shape)
		v.shape = s.shape
	case viewSqueeze:
		if n != 1 {
			s.kind = viewShare
			break
		}
		v.shape = slices.Delete(v.shape, s.axis, s.axis+1)
	case viewExpand:
		s.axis = d.IntN(len(v.shape) + 1)
		v.shape = slices.Insert(v.shape, s.axis, 1)
	case viewBroadcast:
		if len(v.shape) > 5 || product(v.shape) > 4096 {
			s.kind = viewShare
			break
		}
		s.start = 1 + d.Int64N(4)
		v.shape = slices.Insert(v.shape, 0, s.start)
	}
	v.readOnly = v.readOnly || kind == viewReadOnly
	v.id = s.v
	d.p.vars++
	d.add(s)
	d.syms = append(d.syms, &v)
	return &v
}

// join draws one to three tensors that are alike, and joins them.
func (d *drawer) join() {
	first := d.pick(func(s *sym) bool { return product(s.shape) <= 4096 })
	if first == nil || len(first.shape) > 6 || d.full() {
		return
	}
	s := &join{v: d.p.vars, of: []int{first.id}, stream: -1}
	if first.dev >= 0 {
		s.stream = d.streamOf(first.dev)
	}
	v := *first
	v.shape = slices.Clone(first.shape)
	if s.axis = d.IntN(len(v.shape) + 1); s.axis < len(v.shape) {
		s.concat = d.IntN(2) == 0
	}
	for range d.IntN(3) {
		like := d.pick(func(s *sym) bool {
			return s.dtype == first.dtype && s.padded == first.padded && s.dev == first.dev && slices.Equal(s.shape, first.shape)
		})
		if like == nil {
			like = first
		}
		s.of = append(s.of, like.id)
	}
	n := int64(len(s.of))
	if s.concat {
		v.shape[s.axis] *= n
	} else {
		v.shape = slices.Insert(v.shape, s.axis, n)
	}
	v.id, v.family, v.closed, v.shared, v.readOnly, v.kind = s.v, s.v, false, false, false, Plain
	if first.host {
		v.kind, v.dev = Malloc, -1
	}
	d.p.vars++
	d.add(s)
	d.syms = append(d.syms, &v)
}

// reshape draws another shape with as many elements.
func (d *drawer) reshape(shape []int64) []int64 {
	n := product(shape)
	var out []int64
	for n > 1 && len(out) < 3 {
		k := 1 + d.Int64N(min(n, 12))
		if n%k == 0 {
			out = append(out, k)
			n /= k
		}
	}
	return append(out, n)
}

// cutOf draws a part of an axis.
func (d *drawer) cutOf(n int64) cut {
	if n == 0 {
		return cut{0, 0, 1}
	}
	a, b := d.Int64N(n), d.Int64N(n)
	a, b = min(a, b), max(a, b)
	step := 1 + d.Int64N(3)
	if d.IntN(3) == 0 {
		return cut{b, a - 1, -step}
	}
	return cut{a, b + 1, step}
}

func (c cut) len() int64 {
	if c.step > 0 {
		return max(0, (c.stop-c.start+c.step-1)/c.step)
	}
	return max(0, (c.start-c.stop-c.step-1)/-c.step)
}
