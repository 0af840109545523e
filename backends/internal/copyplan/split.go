package copyplan

import (
	"iter"
	"slices"
)

// Narrow returns the same copy in pieces of one machine word: the largest power of two up to most that
// divides every offset, step and piece. A kernel that copies one word at a time, from aligned addresses,
// needs that. The axes are a copy.
func (c Copy) Narrow(most int64) Copy {
	all := c.Elem | c.Dst | c.Src | most
	for _, a := range c.Axes {
		all |= a.Dst | a.Src
	}
	word := all & -all
	if c.Elem == 0 || c.Elem == word {
		return Copy{c.Elem, c.Dst, c.Src, slices.Clone(c.Axes)}
	}
	return Copy{word, c.Dst, c.Src, append(slices.Clone(c.Axes), Axis{c.Elem / word, word, word})}
}

// Limits are the limits of one launch of a kernel.
type Limits struct {
	Rank  int   // axes, at least 1
	Count int64 // pieces, at least 1
	Reach int64 // bytes of [Copy.Range] on either side, at least a piece
}

// Split divides the copy into copies of the same pieces that are within the limits; into one if the copy
// itself is.
func (c Copy) Split(l Limits) iter.Seq[Copy] {
	return func(yield func(Copy) bool) {
		if c.Elem != 0 {
			c.split(l, yield)
		}
	}
}

func (c Copy) split(l Limits, yield func(Copy) bool) bool {
	k := c.excess(l)
	if k < 0 {
		return yield(c)
	}
	half := c.Axes[k].N / 2
	return c.part(k, 0, half).split(l, yield) && c.part(k, half, c.Axes[k].N-half).split(l, yield)
}

// excess is the axis to halve for the copy to come nearer to the limits, or -1.
func (c Copy) excess(l Limits) int {
	r := c.Range()
	switch {
	case r.DstHigh-r.DstLow > l.Reach && r.DstHigh-r.DstLow > c.Elem:
		return c.most(func(a Axis) int64 { return (a.N - 1) * a.Dst })
	case r.SrcHigh-r.SrcLow > l.Reach && r.SrcHigh-r.SrcLow > c.Elem:
		return c.most(func(a Axis) int64 { return (a.N - 1) * max(a.Src, -a.Src) })
	case len(c.Axes) > l.Rank:
		return c.most(func(a Axis) int64 { return -a.N })
	case c.Count() > l.Count:
		return c.most(func(a Axis) int64 { return a.N })
	}
	return -1
}

// most is the axis for which f is greatest, the outermost of equals.
func (c Copy) most(f func(Axis) int64) int {
	best := 0
	for k, a := range c.Axes {
		if f(a) > f(c.Axes[best]) {
			best = k
		}
	}
	return best
}

// part is the n steps from lo on of axis k.
func (c Copy) part(k int, lo, n int64) Copy {
	p := Copy{c.Elem, c.Dst + lo*c.Axes[k].Dst, c.Src + lo*c.Axes[k].Src, slices.Clone(c.Axes)}
	if n == 1 {
		p.Axes = slices.Delete(p.Axes, k, k+1)
	} else {
		p.Axes[k].N = n
	}
	return p
}
