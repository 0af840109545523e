package core

import (
	"math"
	"unsafe"

	"github.com/dlx-go/dlx/core/float"
	"github.com/dlx-go/dlx/core/typecode"
)

// block is how many components are converted at once. The intermediate float64 or int64
// values of a block fit into the first-level cache.
const block = 256

// converterOf returns a function that converts components of one type to another, nil if
// there is no conversion.
func converterOf(to, from component) rowConverter {
	if to.code == from.code && to.bits == from.bits {
		if to.bits%8 == 0 || to.padded && from.padded {
			return copier((to.bits + 7) / 8)
		}
		if to.code != typecode.Int { // same type: copy the bits, whatever they mean
			to.code, from.code = typecode.UInt, typecode.UInt
		}
	}
	if fast := bulkConverter(to, from); fast != nil {
		return fast
	}
	load, floating := loader(from)
	store := storer(to)
	if load == nil || store == nil {
		return nil
	}
	return func(dst, src unsafe.Pointer, toBit, fromBit int64, s stepping) {
		var v numbers
		v.floating, v.unsigned = floating, from.code != typecode.Int
		for done := int64(0); done < s.n; done += block {
			v.n = int(min(s.n-done, block))
			load(&v, at{src, fromBit + done*s.src, s.src})
			store(&v, at{dst, toBit + done*s.dst, s.dst})
		}
	}
}

// numbers are the intermediate values of a conversion. They are in floats if floating is
// set. Otherwise they are in ints, and if unsigned is set, those are the bits of a uint64.
type numbers struct {
	n                  int
	floating, unsigned bool
	floats             [block]float64
	ints               [block]int64
}

// asFloats returns the numbers as floats. If narrow is set, integers are rounded to float32
// first, as NumPy does when it converts them to types narrower than float64.
func (v *numbers) asFloats(narrow bool) []float64 {
	f, x := v.floats[:v.n], v.ints[:v.n]
	switch {
	case v.floating:
	case narrow && v.unsigned:
		for i := range f {
			f[i] = float64(float32(uint64(x[i])))
		}
	case narrow:
		for i := range f {
			f[i] = float64(float32(x[i]))
		}
	case v.unsigned:
		for i := range f {
			f[i] = float64(uint64(x[i]))
		}
	default:
		for i := range f {
			f[i] = float64(x[i])
		}
	}
	return f
}

// asInts returns the numbers as integers. It truncates floats towards zero and limits them
// to the range of to. Integers are returned unchanged; the store wraps them around.
func (v *numbers) asInts(to component) []int64 {
	f, x := v.floats[:v.n], v.ints[:v.n]
	if !v.floating {
		return x
	}
	width := int(to.bits)
	switch to.code {
	case typecode.Bool:
		for i := range x {
			x[i] = 0
			if f[i] != 0 {
				x[i] = 1
			}
		}
	case typecode.UInt:
		limit, largest := math.Ldexp(1, width), ^uint64(0)>>(64-width)
		for i := range x {
			switch g := f[i]; {
			case !(g > 0):
				x[i] = 0
			case g >= limit:
				x[i] = int64(largest)
			default:
				x[i] = int64(uint64(g))
			}
		}
	default:
		limit, largest := math.Ldexp(1, width-1), int64(^uint64(0)>>(65-width))
		for i := range x {
			switch g := f[i]; {
			case g != g:
				x[i] = 0
			case g >= limit:
				x[i] = largest
			case g < -limit:
				x[i] = -largest - 1
			default:
				x[i] = int64(g)
			}
		}
	}
	return x
}

// at is the position of components: the first lies bit bits after p, and the following ones
// lie stride bits apart.
type at struct {
	p           unsafe.Pointer
	bit, stride int64
}

// each calls f with a pointer to each of n components, which are whole bytes.
func each[T any](a at, n int, f func(i int, p *T)) {
	for i := range n {
		f(i, (*T)(unsafe.Add(a.p, (a.bit+int64(i)*a.stride)>>3)))
	}
}

// loader returns a function that reads components into numbers, and reports whether they
// are floats. load is nil if the type is not supported.
func loader(c component) (load func(*numbers, at), floating bool) {
	switch c.code {
	case typecode.Bool:
		if c.bits == 8 {
			return func(v *numbers, a at) {
				each(a, v.n, func(i int, p *uint8) { v.ints[i] = int64(min(*p, 1)) })
			}, false
		}
	case typecode.Int:
		switch c.bits {
		case 8:
			return loadInts[int8], false
		case 16:
			return loadInts[int16], false
		case 32:
			return loadInts[int32], false
		case 64:
			return loadInts[int64], false
		}
	case typecode.UInt:
		switch c.bits {
		case 8:
			return loadInts[uint8], false
		case 16:
			return loadInts[uint16], false
		case 32:
			return loadInts[uint32], false
		case 64:
			return loadInts[uint64], false
		}
	case typecode.Float:
		switch c.bits {
		case 16:
			return func(v *numbers, a at) {
				each(a, v.n, func(i int, p *float.Float16) { v.floats[i] = float64(p.Float32()) })
			}, true
		case 32:
			return func(v *numbers, a at) {
				each(a, v.n, func(i int, p *float32) { v.floats[i] = float64(*p) })
			}, true
		case 64:
			return func(v *numbers, a at) { each(a, v.n, func(i int, p *float64) { v.floats[i] = *p }) }, true
		}
	case typecode.Bfloat:
		if c.bits == 16 {
			return func(v *numbers, a at) {
				each(a, v.n, func(i int, p *float.BFloat16) { v.floats[i] = float64(p.Float32()) })
			}, true
		}
	default:
		if table := smallTable(c); table != nil {
			return func(v *numbers, a at) {
				for i := range v.n {
					v.floats[i] = float64(table[a.get(i, c.bits)])
				}
			}, true
		}
	}
	if c.bits > 7 {
		return nil, false
	}
	switch c.code {
	case typecode.Int:
		return func(v *numbers, a at) {
			for i := range v.n {
				v.ints[i] = int64(a.get(i, c.bits)) << (64 - c.bits) >> (64 - c.bits)
			}
		}, false
	case typecode.UInt:
		return func(v *numbers, a at) {
			for i := range v.n {
				v.ints[i] = int64(a.get(i, c.bits))
			}
		}, false
	}
	return nil, false
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

func loadInts[T integer](v *numbers, a at) {
	for i := range v.n {
		v.ints[i] = int64(*(*T)(unsafe.Add(a.p, (a.bit+int64(i)*a.stride)>>3)))
	}
}

// storer returns a function that writes numbers as components, nil if the type is not
// supported.
func storer(c component) func(*numbers, at) {
	switch c.code {
	case typecode.Bool:
		if c.bits == 8 {
			return func(v *numbers, a at) {
				x := v.asInts(c)
				each(a, v.n, func(i int, p *uint8) {
					*p = 0
					if x[i] != 0 {
						*p = 1
					}
				})
			}
		}
	case typecode.Int, typecode.UInt:
		switch c.bits {
		case 8:
			return storeInts[uint8](c)
		case 16:
			return storeInts[uint16](c)
		case 32:
			return storeInts[uint32](c)
		case 64:
			return storeInts[uint64](c)
		}
		if c.bits > 7 {
			return nil
		}
		return func(v *numbers, a at) {
			for i, x := range v.asInts(c) {
				a.set(i, c, uint8(x))
			}
		}
	case typecode.Float:
		switch c.bits {
		case 16:
			return func(v *numbers, a at) {
				f := v.asFloats(true)
				each(a, v.n, func(i int, p *float.Float16) { *p = float16Of(f[i]) })
			}
		case 32:
			return func(v *numbers, a at) {
				f := v.asFloats(true)
				each(a, v.n, func(i int, p *float32) { *p = float32(f[i]) })
			}
		case 64:
			return func(v *numbers, a at) {
				f := v.asFloats(false)
				each(a, v.n, func(i int, p *float64) { *p = f[i] })
			}
		}
	case typecode.Bfloat:
		if c.bits == 16 {
			return func(v *numbers, a at) {
				f := v.asFloats(true)
				each(a, v.n, func(i int, p *float.BFloat16) { *p = float.NewBFloat16(float32(f[i])) })
			}
		}
	default:
		if encode := smallEncoder(c); encode != nil {
			return func(v *numbers, a at) {
				for i, f := range v.asFloats(true) {
					a.set(i, c, encode(float32(f)))
				}
			}
		}
	}
	return nil
}

// storeInts writes the low bits of integers. They are the same for signed and unsigned
// types.
func storeInts[T uint8 | uint16 | uint32 | uint64](c component) func(*numbers, at) {
	return func(v *numbers, a at) {
		for i, x := range v.asInts(c) {
			*(*T)(unsafe.Add(a.p, (a.bit+int64(i)*a.stride)>>3)) = T(x)
		}
	}
}

// float16Of rounds f to a Float16. Rounding to float32 first could round twice. So it first
// truncates f to a float32 and sets its last bit if the truncation was inexact (round to
// odd).
func float16Of(f float64) float.Float16 {
	g := float32(f)
	if d := float64(g); d != f && f == f && math.Float32bits(g)&1 == 0 {
		if math.Abs(d) > math.Abs(f) {
			g = math.Float32frombits(math.Float32bits(g) - 1)
		} else {
			g = math.Float32frombits(math.Float32bits(g) | 1)
		}
	}
	return float.NewFloat16(g)
}

// get returns the bits of component i, which has at most 8. The bits of a byte count from
// the lowest.
func (a at) get(i int, bits int64) uint8 {
	bit := a.bit + int64(i)*a.stride
	p, shift := (*uint8)(unsafe.Add(a.p, bit>>3)), bit&7
	x := uint16(*p)
	if shift+bits > 8 {
		x |= uint16(*(*uint8)(unsafe.Add(unsafe.Pointer(p), 1))) << 8
	}
	return uint8(x >> shift & (1<<bits - 1))
}

// set writes the low bits of x as component i of type c and keeps the bits of other
// components. A padded component fills its byte: signed integers are sign-extended, all
// other types are zero-extended.
func (a at) set(i int, c component, x uint8) {
	bit := a.bit + int64(i)*a.stride
	p, shift := (*uint8)(unsafe.Add(a.p, bit>>3)), bit&7
	mask := uint16(1)<<c.bits - 1
	value := uint16(x) & mask
	if unused := 8 - c.bits; c.padded && c.code == typecode.Int {
		*p = uint8(int8(x) << unused >> unused)
		return
	} else if c.padded {
		*p = uint8(value)
		return
	}
	*p = *p&^uint8(mask<<shift) | uint8(value<<shift)
	if shift+c.bits > 8 {
		q := (*uint8)(unsafe.Add(unsafe.Pointer(p), 1))
		*q = *q&^uint8(mask<<shift>>8) | uint8(value<<shift>>8)
	}
}
