package float

import (
	"math"
	"sync"
)

// The functions of this file are fast because they have no branches that depend on the
// numbers.

func fromBFloat16(to []float32, from []BFloat16) {
	to = to[:len(from)]
	for i, x := range from {
		to[i] = math.Float32frombits(uint32(x) << 16)
	}
}

func toBFloat16(to []BFloat16, from []float32) {
	to = to[:len(from)]
	for i, f := range from {
		b := math.Float32bits(f)
		if b&0x7fffffff > 0x7f800000 { // NaN is rare: the processor predicts this branch
			b |= 1 << 22
			b &^= 0xffff
		}
		to[i] = BFloat16((b + 0x7fff + b>>16&1) >> 16)
	}
}

func fromFloat16(to []float32, from []Float16) { tables().fromFloat16(to, from) }

func toFloat16(to []Float16, from []float32) { tables().toFloat16(to, from) }

// tables16 holds two small tables that convert a float16 to a float32, and one that
// converts back; see Jeroen van der Zijp, Fast Half Float Conversions. The conversion back
// rounds to the nearest, ties to even.
type tables16 struct {
	// mantissa has the normalized values of subnormal numbers, then the mantissas of
	// normal numbers.
	mantissa [2048]uint32
	// widen is indexed by sign and exponent of the float16. add is added to the entry of
	// mantissa, whose index begins at offset.
	widen [64]struct{ add, offset uint32 }
	// narrow is indexed by sign and exponent of the float32.
	narrow [512]struct {
		base, half uint32 // added to the mantissa after the shift, and before it
		hidden     uint32 // the implicit leading bit, where it becomes explicit; else 0
		shift      uint8
	}
}

var tables = sync.OnceValue(func() *tables16 {
	t := new(tables16)
	for i := range uint32(1024) {
		t.mantissa[i] = math.Float32bits(float32(i) * 0x1p-24)
		t.mantissa[1024+i] = i << 13
	}
	for i := range uint32(64) {
		w := &t.widen[i]
		switch sign, exp := i>>5<<31, i&31; exp {
		case 0:
			w.add = sign
		case 31:
			w.add, w.offset = sign|0x7f800000, 1024
		default:
			w.add, w.offset = sign|(exp+112)<<23, 1024
		}
	}
	for i := range t.narrow {
		n := &t.narrow[i]
		sign, exp := uint32(i>>8<<15), i&255-127
		switch {
		case exp > 15: // infinity; toFloat16 handles NaN separately
			n.base, n.shift = sign|0x7c00, 31
		case exp >= -14:
			n.base, n.shift = sign|uint32(exp+15)<<10, 13
		case exp >= -25:
			n.base, n.shift, n.hidden = sign, uint8(-exp-1), 1<<23
		default:
			n.base, n.shift = sign, 31
		}
		n.half = 1<<(n.shift-1) - 1
	}
	return t
})

func (t *tables16) fromFloat16(to []float32, from []Float16) {
	to = to[:len(from)]
	for i, h := range from {
		w := t.widen[h>>10]
		to[i] = math.Float32frombits(t.mantissa[(w.offset+uint32(h&0x3ff))&2047] + w.add)
	}
}

func (t *tables16) toFloat16(to []Float16, from []float32) {
	to = to[:len(from)]
	for i, f := range from {
		b := math.Float32bits(f)
		n := &t.narrow[b>>23]
		m := b&0x7fffff | n.hidden
		h := n.base + (m+n.half+m>>(n.shift&31)&1)>>(n.shift&31)
		if b&0x7fffffff > 0x7f800000 { // NaN is rare: the processor predicts this branch
			h = b>>16&0x8000 | 0x7e00 | b>>13&0x3ff
		}
		to[i] = Float16(h)
	}
}
