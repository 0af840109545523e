package hostcopy

import (
	"encoding/binary"
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/internal/parallel"
)

// CopyBits is Copy for a geometry that counts bits, for packed elements that do not lie on whole bytes. Bit 0
// of a byte is the least significant, as DLPack lays out types below a byte. Bits of the destination that
// belong to no copied element keep their values. CopyBits fails like [Copy].
func CopyBits(dst, src unsafe.Pointer, c copyplan.Copy, workers int) error {
	if c.Elem == 0 {
		return nil
	}
	if workers = parallel.Usual(c.Size()/8, minShare, workers); workers > 1 {
		return splitBits(dst, src, copyplan.Copy{Elem: c.Elem, Dst: c.Dst, Src: c.Src, Axes: slices.Clone(c.Axes)}, workers)
	}
	return guarded(dst, src, 1, c, func() { walkBits(dst, src, c.Dst, c.Src, c.Elem, c.Axes) })
}

// splitBits divides the copy among the caller and workers-1 goroutines.
func splitBits(dst, src unsafe.Pointer, c copyplan.Copy, workers int) error {
	shares := bitShares(c, workers)
	return parallel.Each(len(shares), workers, func(w int) error {
		s := shares[w]
		return guarded(dst, src, 1, c, func() { walkBits(dst, src, s.Dst, s.Src, s.Elem, s.Axes) })
	})
}

// bitShares divides c into at most so many parts. No byte of the destination has bits of two of them.
func bitShares(c copyplan.Copy, workers int) (shares []copyplan.Copy) {
	// The steps of the outermost axis, or the bits of the only run, and how far each of them reaches.
	steps, reach := axis{N: c.Elem, Dst: 1, Src: 1}, int64(1)
	if len(c.Axes) > 0 {
		steps, reach = c.Axes[0], copyplan.Copy{Elem: c.Elem, Axes: c.Axes[1:]}.Range().DstHigh
	}
	// apart reports whether all steps before one end before the byte in which that begins.
	apart := func(step int64) bool {
		begin := c.Dst + step*steps.Dst
		return (begin-steps.Dst+reach+7)>>3 <= begin>>3
	}
	part := func(from, to int64) copyplan.Copy {
		p := copyplan.Copy{Elem: c.Elem, Dst: c.Dst + from*steps.Dst, Src: c.Src + from*steps.Src}
		if len(c.Axes) == 0 {
			p.Elem = to - from
		} else {
			p.Axes = slices.Clone(c.Axes)
			p.Axes[0].N = to - from
		}
		return p
	}
	from := int64(0)
	for w := 1; w < workers; w++ {
		to := max(from, steps.N*int64(w)/int64(workers))
		last := min(to+8, steps.N)
		for to < last && !apart(to) {
			to++
		}
		if from < to && to < last {
			shares = append(shares, part(from, to))
			from = to
		}
	}
	return append(shares, part(from, steps.N))
}

// walkBits copies runs of n bits along axes. Offsets are bits from the bases.
func walkBits(dst, src unsafe.Pointer, d, s, n int64, axes []axis) {
	switch len(axes) {
	case 0:
		copyBitRun(dst, src, d, s, n)
	case 1:
		for range axes[0].N {
			copyBitRun(dst, src, d, s, n)
			d += axes[0].Dst
			s += axes[0].Src
		}
	default:
		for range axes[0].N {
			walkBits(dst, src, d, s, n, axes[1:])
			d += axes[0].Dst
			s += axes[0].Src
		}
	}
}

// copyBitRun copies n neighbouring bits from bit s of src to bit d of dst.
func copyBitRun(dst, src unsafe.Pointer, d, s, n int64) {
	if head := -d & 7; head != 0 || n < 8 {
		head = min(n, 8-d&7)
		putBits(dst, d, head, getBits(src, s, head))
		d, s, n = d+head, s+head, n-head
	}
	if whole := n >> 3; whole > 0 {
		copyShifted(unsafe.Add(dst, d>>3), unsafe.Add(src, s>>3), whole, uint(s&7))
		d, s, n = d+whole<<3, s+whole<<3, n&7
	}
	if n > 0 {
		putBits(dst, d, n, getBits(src, s, n))
	}
}

// getBits reads n bits, at most 8, from the one or two bytes that hold them.
func getBits(src unsafe.Pointer, s, n int64) byte {
	p := unsafe.Add(src, s>>3)
	v := uint(*(*byte)(p))
	if s&7+n > 8 {
		v |= uint(*(*byte)(unsafe.Add(p, 1))) << 8
	}
	return byte(v>>(s&7)) & byte(1<<n-1)
}

// putBits writes n bits that lie in one byte and keeps its others.
func putBits(dst unsafe.Pointer, d, n int64, v byte) {
	p := (*byte)(unsafe.Add(dst, d>>3))
	mask := byte(1<<n-1) << (d & 7)
	*p = *p&^mask | v<<(d&7)
}

// copyShifted fills n whole bytes from a source that starts shift bits into
// its first byte.
func copyShifted(dst, src unsafe.Pointer, n int64, shift uint) {
	if shift == 0 {
		move(dst, src, n)
		return
	}
	to, from := unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n+1)
	for ; len(to) >= 8; to, from = to[8:], from[8:] {
		v := binary.LittleEndian.Uint64(from)>>shift | uint64(from[8])<<(64-shift)
		binary.LittleEndian.PutUint64(to, v)
	}
	for i := range to {
		to[i] = from[i]>>shift | from[i+1]<<(8-shift)
	}
}
