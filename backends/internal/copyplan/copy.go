package copyplan

import (
	"iter"

	"github.com/dlx-go/dlx/core"
)

// Axis is one loop of a copy: N steps, each Dst bytes further in the destination and Src bytes further in the
// source. N is above 1 and Dst above 0. Src may be negative, and is 0 if the source repeats.
type Axis struct {
	N, Dst, Src int64
}

// Copy is a copy of equal pieces: Elem contiguous bytes, once for every combination of steps along the axes.
// The zero Copy copies nothing. A Copy is a value; its methods never change the axes.
//
// All numbers count bytes, except where a function says that they count bits.
type Copy struct {
	Elem     int64  // size of a piece; 0 if there is nothing to copy
	Dst, Src int64  // where the first piece lies; for tensors from the start of the memory's handle
	Axes     []Axis // outermost first: by falling Dst
}

// inlineRank is the rank up to which Of, OfBits and New allocate nothing, if the
// caller lets the Copy go before it returns: they are small enough to be inlined, so
// that the room for the axes is on the caller's stack.
const inlineRank = 8

// Of returns the geometry of copying src to dst, which have passed CheckCopy of package backendkit and are not the same
// elements. Packed numbers below a byte are allowed if only whole bytes are copied. Otherwise Of fails with
// ErrNotSupported, and the host must copy.
func Of(dst, src *core.Tensor) (c Copy, err error) {
	c.Axes, err = c.ofBytes(make([]Axis, 0, inlineRank), dst, src)
	return c, err
}

// OfBits is like [Of], for any element type. If bits is set, all numbers of the Copy count bits, and the
// lowest bit of a byte is its first.
func OfBits(dst, src *core.Tensor) (c Copy, bits bool) {
	c.Axes, bits = c.of(make([]Axis, 0, inlineRank), dst, src)
	return c, bits
}

// Pack returns the geometry of gathering the elements of src in row-major order, from offset 0 on. It may
// count bits, as that of [OfBits].
func Pack(src *core.Tensor) (c Copy, bits bool) {
	c.Axes, bits = c.typed(nil, src, rowMajor(src), src.Layout(), 0, src.Offset())
	return c, bits
}

// Unpack is the reverse of [Pack]: it distributes row-major elements to dst.
func Unpack(dst *core.Tensor) (c Copy, bits bool) {
	c.Axes, bits = c.typed(nil, dst, dst.Layout(), rowMajor(dst), dst.Offset(), 0)
	return c, bits
}

// New returns the geometry of copying elements of elem bytes, or bits, between two layouts of one shape. dst
// must not repeat elements. Offsets count from the element with index zero throughout.
func New(elem int64, dst, src core.Layout) (c Copy) {
	c.Axes = c.set(make([]Axis, 0, inlineRank), elem, dst, src)
	return c
}

func rowMajor(t *core.Tensor) core.Layout {
	l, _ := core.NewLayout(t.Shape()...) // has no more elements than t, so it is valid
	return l
}

// The methods that follow set the numbers of c, which is zero, and return its axes
// instead of setting them: appended to room, they may lie on the stack.

func (c *Copy) ofBytes(room []Axis, dst, src *core.Tensor) ([]Axis, error) {
	axes, bits := c.of(room, dst, src)
	if bits {
		*c = Copy{}
		return nil, core.Errorf(core.ErrNotSupported, "copyplan", "Of",
			"packed %v elements of dst and src do not lie on whole bytes: the host must copy them", dst.DType())
	}
	return axes, nil
}

func (c *Copy) of(room []Axis, dst, src *core.Tensor) (axes []Axis, bits bool) {
	return c.typed(room, dst, dst.Layout(), src.Layout(), dst.Offset(), src.Offset())
}

// typed copies elements of the type of t between layouts that lie so many bytes
// behind the start of their memory.
func (c *Copy) typed(room []Axis, t *core.Tensor, dst, src core.Layout, dstOffset, srcOffset int64) (axes []Axis, bits bool) {
	size, unit := t.DType().ElementBits(), int64(1)
	switch {
	case t.Padded() && t.DType().SubByte():
		axes = c.set(room, int64(t.DType().Lanes), dst, src)
	case size%8 == 0:
		axes = c.set(room, size/8, dst, src)
	default:
		axes = c.set(room, size, dst, src)
		if bits = !c.toBytes(axes); bits {
			unit = 8
		}
	}
	c.Dst += dstOffset * unit
	c.Src += srcOffset * unit
	return axes, bits
}

func (c *Copy) set(axes []Axis, elem int64, dst, src core.Layout) []Axis {
	c.Elem = elem
	for i := range dst.Rank() {
		n := dst.Dim(i)
		if n == 0 {
			*c = Copy{}
			return nil
		}
		if n == 1 {
			continue
		}
		a := Axis{n, dst.Stride(i) * elem, src.Stride(i) * elem}
		if a.Dst < 0 {
			c.Dst += (n - 1) * a.Dst
			c.Src += (n - 1) * a.Src
			a.Dst, a.Src = -a.Dst, -a.Src
		}
		axes = append(axes, a)
	}
	sortAxes(axes)
	axes = mergeAxes(axes)
	// An innermost axis that is a run on both sides makes larger pieces.
	if k := len(axes) - 1; k >= 0 && axes[k].Dst == elem && axes[k].Src == elem {
		c.Elem *= axes[k].N
		axes = axes[:k]
	}
	return axes
}

// sortAxes orders axes by falling destination step, then falling source step: an
// insertion sort, since ranks are small and it allocates nothing.
func sortAxes(axes []Axis) {
	for i := 1; i < len(axes); i++ {
		for k := i; k > 0 && outranks(axes[k], axes[k-1]); k-- {
			axes[k], axes[k-1] = axes[k-1], axes[k]
		}
	}
}

func outranks(a, b Axis) bool {
	if a.Dst != b.Dst {
		return a.Dst > b.Dst
	}
	return max(a.Src, -a.Src) > max(b.Src, -b.Src)
}

// mergeAxes joins neighbours that step through both sides as one axis.
func mergeAxes(axes []Axis) []Axis {
	out := axes[:0]
	for _, a := range axes {
		if k := len(out) - 1; k >= 0 && out[k].Dst == a.N*a.Dst && out[k].Src == a.N*a.Src {
			a.N *= out[k].N
			out[k] = a
			continue
		}
		out = append(out, a)
	}
	return out
}

// toBytes counts bytes instead of bits, if all numbers are multiples of 8.
func (c *Copy) toBytes(axes []Axis) bool {
	all := c.Elem | c.Dst | c.Src
	for _, a := range axes {
		all |= a.Dst | a.Src
	}
	if all&7 != 0 {
		return false
	}
	c.Elem, c.Dst, c.Src = c.Elem>>3, c.Dst>>3, c.Src>>3
	for i := range axes {
		axes[i].Dst >>= 3
		axes[i].Src >>= 3
	}
	return true
}

// Count returns the number of pieces.
func (c Copy) Count() int64 {
	if c.Elem == 0 {
		return 0
	}
	n := int64(1)
	for _, a := range c.Axes {
		n *= a.N
	}
	return n
}

// Size returns the number of bytes that are copied.
func (c Copy) Size() int64 { return c.Elem * c.Count() }

// Contiguous reports whether the copy is one move of n bytes from Src to Dst.
// n is 0 if there is nothing to copy.
func (c Copy) Contiguous() (n int64, ok bool) { return c.Elem, len(c.Axes) == 0 }

// Pieces yields the destination offset and the source offset of each piece.
func (c Copy) Pieces() iter.Seq2[int64, int64] {
	return func(yield func(dst, src int64) bool) {
		if c.Elem != 0 {
			visit(c.Axes, c.Dst, c.Src, yield)
		}
	}
}

func visit(axes []Axis, dst, src int64, yield func(dst, src int64) bool) bool {
	if len(axes) == 0 {
		return yield(dst, src)
	}
	a := axes[0]
	for i := range a.N {
		if !visit(axes[1:], dst+i*a.Dst, src+i*a.Src, yield) {
			return false
		}
	}
	return true
}

// Range is the half-open range of bytes that a copy uses on each side. It includes the bytes between the
// pieces.
type Range struct {
	DstLow, DstHigh, SrcLow, SrcHigh int64
}

// Range returns the ranges that contain the pieces; they are empty if there are none.
func (c Copy) Range() Range {
	r := Range{c.Dst, c.Dst + c.Elem, c.Src, c.Src + c.Elem}
	for _, a := range c.Axes {
		r.DstHigh += (a.N - 1) * a.Dst
		if reach := (a.N - 1) * a.Src; reach < 0 {
			r.SrcLow += reach
		} else {
			r.SrcHigh += reach
		}
	}
	return r
}

// ByteRange is [Copy.Range] in bytes, for a copy that counts bits if bits is set.
func (c Copy) ByteRange(bits bool) Range {
	r := c.Range()
	if bits { // rounded down and up, below 0 too
		r = Range{r.DstLow >> 3, (r.DstHigh + 7) >> 3, r.SrcLow >> 3, (r.SrcHigh + 7) >> 3}
	}
	return r
}
