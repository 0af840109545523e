package copyplan

import "iter"

// Side is one side of a copy.
type Side bool

// The sides of a copy.
const (
	Destination Side = false
	Source      Side = true
)

// Chunks divides a copy whose bytes lie side by side on one side, without gaps, into copies of at most size bytes, whose
// bytes do so too. It yields each with the offset of its lowest byte on that side. Pieces of more than size bytes are
// divided. All numbers count bytes, and size is at least 1.
func (c Copy) Chunks(dense Side, size int64) iter.Seq2[Copy, int64] {
	return func(yield func(Copy, int64) bool) {
		if c.Elem != 0 {
			c.chunks(dense, size, yield)
		}
	}
}

func (c Copy) chunks(dense Side, size int64, yield func(Copy, int64) bool) bool {
	all := c.Size()
	if all <= size {
		r := c.Range()
		if dense == Source {
			return yield(c, r.SrcLow)
		}
		return yield(c, r.DstLow)
	}
	if len(c.Axes) == 0 {
		for at := int64(0); at < c.Elem; at += size {
			part := Copy{Elem: min(size, c.Elem-at), Dst: c.Dst + at, Src: c.Src + at}
			if !part.chunks(dense, size, yield) {
				return false
			}
		}
		return true
	}
	// The steps of the axis with the largest step are side by side.
	k := c.most(func(a Axis) int64 {
		if dense == Source {
			return max(a.Src, -a.Src)
		}
		return a.Dst
	})
	count := c.Axes[k].N
	n := max(size/(all/count), 1)
	for lo := int64(0); lo < count; lo += n {
		if !c.part(k, lo, min(n, count-lo)).chunks(dense, size, yield) {
			return false
		}
	}
	return true
}
