package core

import (
	"cmp"
	"math"
	"slices"
)

// relation says which bytes two tensors share.
type relation uint8

const (
	disjoint    relation = iota // no bytes, as far as is known
	identical                   // they are the same elements
	overlapping                 // some bytes
)

// relate compares two tensors, which have elements, by everything that identifies the
// memory of both: origin, address or handle, address on the host, and file.
func relate(dst, src *Tensor, db, sb *Buffer) relation {
	to, from := dst.offset-db.mem.Offset, src.offset-sb.mem.Offset
	toRoot, toAt := db.root()
	fromRoot, fromAt := sb.root()
	if toRoot == fromRoot {
		return compare(dst, src, to+toAt, from+fromAt, db == sb)
	}
	p := pair{dst, src}
	r := p.relate(db, sb, to, from)
	if r == disjoint && fromRoot != sb {
		r = p.relate(db, fromRoot, to, from+fromAt)
	}
	if r == disjoint && toRoot != db {
		if r = p.relate(toRoot, sb, to+toAt, from); r == disjoint && fromRoot != sb {
			r = p.relate(toRoot, fromRoot, to+toAt, from+fromAt)
		}
	}
	return r
}

// root returns b.Origin and b.OriginOffset.
func (b *Buffer) root() (*Buffer, int64) {
	if o := b.order.Load(); o != nil && o.origin != nil {
		return o.origin, o.at
	}
	return b, 0
}

// pair is two tensors to compare.
type pair struct{ dst, src *Tensor }

// relate compares the tensors as views of db and sb, which have different origins. The
// first element of dst lies to bytes after the first byte of db, and that of src from bytes
// after the first byte of sb.
func (p pair) relate(db, sb *Buffer, to, from int64) relation {
	a, b := &db.mem, &sb.mem
	r := disjoint
	h, g := a.host(), b.host()
	switch {
	case a.ID != b.ID || a.ID.Type.HostAccessible(): // different devices, or host memory, which is compared below
	case !a.ID.Type.OpaqueHandle():
		r = compare(p.dst, p.src, a.address()+to, b.address()+from, true)
	case a.Handle == b.Handle && oneObject(a, b):
		r = compare(p.dst, p.src, a.Offset+to, b.Offset+from, true)
	}
	if r == disjoint && h != 0 && g != 0 {
		within := a.Host == 0 && b.Host == 0
		r = compare(p.dst, p.src, h+to, g+from, within)
	}
	if r != disjoint {
		return r
	}
	if f, at, ok := db.inFile(to); ok {
		if g, other, ok := sb.inFile(from); ok && f == g {
			r = compare(p.dst, p.src, at, other, false)
		}
	}
	return r
}

// address returns the address of the first byte on the memory's device.
func (m *Memory) address() int64 { return int64(m.Handle) + m.Offset }

// host returns the address of the first byte on the host, 0 if it is not known.
func (m *Memory) host() int64 {
	if m.Host == 0 && m.ID.Type.HostAccessible() {
		return m.address()
	}
	return int64(m.Host)
}

// oneObject reports whether equal handles of a and b are handles of the same object. The
// name of an OpenGL buffer is unique only within its context. Handles of other APIs are
// unique within the process.
func oneObject(a, b *Memory) bool {
	return a.ID.Type != DeviceGL || a.Device == b.Device || a.Device == nil || b.Device == nil
}

// compare compares tensors by the positions to and from of their first elements, which
// count bytes from the same point. If within is set, it compares only the ranges of bytes
// that they span, and takes bytes between elements for shared.
func compare(dst, src *Tensor, to, from int64, within bool) relation {
	distance := to - from // wraps around as addresses do
	if distance == 0 && dst.layout.sameSteps(src.layout) {
		return identical
	}
	dl, dh := dst.reach()
	sl, sh := src.reach()
	if d := bounded(distance); d+dh <= sl || sh <= d+dl {
		return disjoint
	}
	if !within && !shareBytes(dst, src, distance) {
		return disjoint
	}
	return overlapping
}

// reach returns the range of bytes that the elements span, from low up to but not including
// high, counted from the first byte of the first element.
func (t *Tensor) reach() (low, high int64) {
	l, h := t.layout.Extent()
	first, last, _ := byteRange(t.dtype.storageBits(t.Padded()), l, h)
	return bounded(first), bounded(last)
}

// bounded limits n so that sums of a few such numbers do not overflow. No real memory
// exceeds the limit, but a tensor from another library may claim to.
func bounded(n int64) int64 { return max(-1<<61, min(n, 1<<61)) }

// term is one part of the distance between an element of one tensor and an element of
// another: step times a number from 0 to count.
type term struct{ step, count int64 }

// maxTries bounds the search of shareBytes. That many tries take about 100 us.
const maxTries = 1 << 14

// shareBytes reports whether an element of dst and an element of src share a byte. first is
// the distance in bytes from the first element of src to the first element of dst. If the
// search takes more than maxTries, it returns true, which is the safe answer.
func shareBytes(dst, src *Tensor, first int64) bool {
	width := dst.dtype.storageBits(dst.Padded())
	if width%8 != 0 {
		return true
	}
	size := width / 8
	// The distance from an element of src to one of dst is first plus a multiple of the
	// stride for each axis of both tensors. Negative steps are replaced by positive ones
	// with a smaller start.
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

// reachable reports whether some sum of the terms, one multiple of each step, lies between
// low and high. The largest steps come first. It also returns true when tries run out.
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
