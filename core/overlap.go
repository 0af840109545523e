package core

import (
	"cmp"
	"math"
	"slices"
)

// relation is what two tensors' bytes have in common.
type relation uint8

const (
	apart     relation = iota // none, as far as is known
	identical                 // they are the same elements
	meeting                   // some
)

// relate compares two tensors with elements under every name that their memory has in common.
func relate(dst, src *Tensor, db, sb *Buffer) relation {
	to, from := dst.offset-db.mem.Offset, src.offset-sb.mem.Offset
	toRoot, toAt := db.root()
	fromRoot, fromAt := sb.root()
	if toRoot == fromRoot {
		return compare(dst, src, to+toAt, from+fromAt, db == sb)
	}
	p := pair{dst, src}
	r := p.relate(db, sb, to, from)
	if r == apart && fromRoot != sb {
		r = p.relate(db, fromRoot, to, from+fromAt)
	}
	if r == apart && toRoot != db {
		if r = p.relate(toRoot, sb, to+toAt, from); r == apart && fromRoot != sb {
			r = p.relate(toRoot, fromRoot, to+toAt, from+fromAt)
		}
	}
	return r
}

// root is the buffer that b keeps one order with, which is open as long as b is, and
// where in it b begins.
func (b *Buffer) root() (*Buffer, int64) {
	if o := b.order.Load(); o != nil && o.origin != nil {
		return o.origin, o.at
	}
	return b, 0
}

// pair are two tensors that are to be compared.
type pair struct{ dst, src *Tensor }

// relate compares them as views of buffers that are not known to be one memory: their
// first elements lie to and from bytes behind the buffers' first.
func (p pair) relate(db, sb *Buffer, to, from int64) relation {
	a, b := &db.mem, &sb.mem
	r := apart
	h, g := a.host(), b.host()
	switch {
	case a.ID != b.ID || a.ID.Type.HostAccessible(): // of different address spaces, or the host's: see below
	case !a.ID.Type.OpaqueHandle():
		r = compare(p.dst, p.src, a.address()+to, b.address()+from, true)
	case a.Handle == b.Handle && oneObject(a, b):
		r = compare(p.dst, p.src, a.Offset+to, b.Offset+from, true)
	}
	if r == apart && h != 0 && g != 0 {
		within := a.Host == 0 && b.Host == 0
		r = compare(p.dst, p.src, h+to, g+from, within)
	}
	if r != apart {
		return r
	}
	if f, at, ok := db.inFile(to); ok {
		if g, other, ok := sb.inFile(from); ok && f == g {
			r = compare(p.dst, p.src, at, other, false)
		}
	}
	return r
}

// address is that of the first byte, in the address space of the memory's device.
func (m *Memory) address() int64 { return int64(m.Handle) + m.Offset }

// host is where the host sees the first byte, 0 if that is not known.
func (m *Memory) host() int64 {
	if m.Host == 0 && m.ID.Type.HostAccessible() {
		return m.address()
	}
	return int64(m.Host)
}

// oneObject reports whether a handle that two memories have is that of one object. A
// name of OpenGL means something within its context only; other handles are addresses,
// which one process has once.
func oneObject(a, b *Memory) bool {
	return a.ID.Type != DeviceGL || a.Device == b.Device || a.Device == nil || b.Device == nil
}

// compare compares tensors by where their first elements lie, counted from a place that
// both have in common. Within one object, bytes between the elements are taken for shared.
func compare(dst, src *Tensor, to, from int64, within bool) relation {
	distance := to - from // which wraps where addresses do
	if distance == 0 && dst.layout.sameSteps(src.layout) {
		return identical
	}
	dl, dh := dst.reach()
	sl, sh := src.reach()
	if d := bounded(distance); d+dh <= sl || sh <= d+dl {
		return apart
	}
	if !within && !shareBytes(dst, src, distance) {
		return apart
	}
	return meeting
}

// reach is the half-open range of bytes that the elements lie in, counted from the first.
func (t *Tensor) reach() (low, high int64) {
	l, h := t.layout.Extent()
	first, last, _ := byteRange(t.dtype.storageBits(t.Padded()), l, h)
	return bounded(first), bounded(last)
}

// bounded keeps numbers that no memory has, and strangers may claim, from overflowing.
func bounded(n int64) int64 { return max(-1<<61, min(n, 1<<61)) }

// term is a number from 0 to count, times step, in the distance between an element of
// one tensor and one of another.
type term struct{ step, count int64 }

// maxTries bounds the search of shareBytes: so many steps take some 100 us.
const maxTries = 1 << 14

// shareBytes reports whether an element of dst and one of src share a byte, where
// first is the distance in bytes from the first of src to the first of dst. Where
// that takes too long to find out, it says yes.
func shareBytes(dst, src *Tensor, first int64) bool {
	width := dst.dtype.storageBits(dst.Padded())
	if width%8 != 0 {
		return true
	}
	size := width / 8
	// The distance from an element of src to one of dst is first, and a multiple of a
	// stride for each axis of either. Their signs are turned so that all add.
	terms := make([]term, 0, 2*dst.Rank())
	distance, most := first, math.Abs(float64(first))
	for _, side := range [...]struct {
		Layout
		sign int64
	}{{dst.layout, 1}, {src.layout, -1}} {
		for i, extent := range side.shape() {
			step := side.sign * side.Stride(i) * size
			if step < 0 {
				distance += step * (extent - 1)
				step = -step
			}
			if step > 0 && extent > 1 {
				terms = append(terms, term{step, extent - 1})
				most += float64(step) * float64(extent-1)
			}
		}
	}
	if most > math.MaxInt64/2 {
		return true
	}
	slices.SortFunc(terms, func(a, b term) int { return cmp.Compare(b.step, a.step) })
	tries := maxTries
	return reachable(terms, -distance-(size-1), -distance+(size-1), &tries)
}

// reachable reports whether a sum of terms, the largest steps first, lies between low
// and high, or whether tries have run out.
func reachable(terms []term, low, high int64, tries *int) bool {
	if *tries--; *tries < 0 {
		return true
	}
	if len(terms) == 0 {
		return low <= 0 && high >= 0
	}
	rest, divisor := int64(0), int64(0)
	for _, t := range terms[1:] {
		rest += t.step * t.count
		divisor = gcd(divisor, t.step)
	}
	t := terms[0]
	from := max(0, ceilDiv(low-rest, t.step))
	to := min(t.count, floorDiv(high, t.step))
	for n := from; n <= to; n++ {
		l, h := low-n*t.step, high-n*t.step
		if divisor != 0 && floorDiv(h, divisor) < ceilDiv(l, divisor) { // no multiple lies between
			if *tries--; *tries < 0 {
				return true
			}
			continue
		}
		if reachable(terms[1:], l, h, tries) {
			return true
		}
	}
	return false
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// floorDiv divides by b > 0 and rounds down.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ceilDiv divides by b > 0 and rounds up.
func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }
