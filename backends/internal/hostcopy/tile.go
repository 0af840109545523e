package hostcopy

import (
	"sync"
	"unsafe"
)

const (
	// tileBytes is the size of the buffer that a tile passes through: that of an L1 cache. What
	// does not fit comes from L2, which costs less than shorter runs to memory.
	tileBytes = 32 << 10
	// tileRow is how much of a source row one tile takes: whole cache lines,
	// and enough of them for the prefetcher.
	tileRow = 256
)

// tiles keeps buffers between copies: on the stack one would have to be
// cleared for every small transpose.
var tiles = sync.Pool{New: func() any { return new([tileBytes]byte) }}

// transpose copies a pair of axes of which one is dense in the source and the
// other in the destination.
//
// It goes tile by tile through a buffer the size of L1. Rows of a large
// matrix often lie a power of two apart, where a cache has only a few lines for
// all of them; through the buffer each line of source and destination is
// visited once, whole, so it does not matter.
func transpose[T element](s *schedule, dst, src, buf unsafe.Pointer) {
	width := min(max(tileRow/s.elem, minTile), s.cross.N)
	height := tileBytes / (width * s.elem)
	for c := int64(0); c < s.cross.N; c += width {
		w := min(width, s.cross.N-c)
		pitch := w * s.elem
		for r := int64(0); r < s.run.N; r += height {
			h := min(height, s.run.N-r)
			from := unsafe.Add(src, c*s.cross.Src+r*s.run.Src)
			for i := range h {
				run[T](unsafe.Add(buf, i*pitch), unsafe.Add(from, i*s.run.Src), s.elem, axis{N: w, Dst: s.elem, Src: s.cross.Src})
			}
			to := unsafe.Add(dst, c*s.cross.Dst+r*s.run.Dst)
			writeTile[T](to, buf, s.elem, axis{N: h, Dst: s.run.Dst, Src: pitch}, axis{N: w, Dst: s.cross.Dst, Src: s.elem})
		}
	}
}

// writeTile writes a buffered tile to its place: whole squares of small
// elements by words, the rest row by row. The axes lead from the buffer to
// the destination: along has the rows of the buffer, cross its columns.
func writeTile[T element](dst, buf unsafe.Pointer, elem int64, along, cross axis) {
	c := int64(0)
	if side := wordSize / elem; side > 1 && wordSize%elem == 0 && along.Dst == elem {
		whole := along.N / side * side
		for ; c+side <= cross.N; c += side {
			to, from := unsafe.Add(dst, c*cross.Dst), unsafe.Add(buf, c*elem)
			switch elem {
			case 1:
				strip8(to, cross.Dst, from, along.Src, whole)
			case 2:
				strip16(to, cross.Dst, from, along.Src, whole)
			case 4:
				strip32(to, cross.Dst, from, along.Src, whole)
			}
			if whole < along.N {
				for i := range side {
					run[T](unsafe.Add(to, i*cross.Dst+whole*elem), unsafe.Add(from, i*elem+whole*along.Src), elem,
						axis{N: along.N - whole, Dst: along.Dst, Src: along.Src})
				}
			}
		}
	}
	for ; c < cross.N; c++ {
		run[T](unsafe.Add(dst, c*cross.Dst), unsafe.Add(buf, c*elem), elem, along)
	}
}
