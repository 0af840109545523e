package copykernel

import (
	"sync"
	"unsafe"
)

const (
	// tileBytes is the buffer that a tile passes through: an L1 full. What does
	// not fit comes from L2, which costs less than shorter runs to memory.
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
	width := min(max(tileRow/s.elem, minTile), s.cross.n)
	height := tileBytes / (width * s.elem)
	for c := int64(0); c < s.cross.n; c += width {
		w := min(width, s.cross.n-c)
		pitch := w * s.elem
		for r := int64(0); r < s.run.n; r += height {
			h := min(height, s.run.n-r)
			from := unsafe.Add(src, c*s.cross.src+r*s.run.src)
			for i := range h {
				run[T](unsafe.Add(buf, i*pitch), unsafe.Add(from, i*s.run.src), s.elem, axis{w, s.elem, s.cross.src})
			}
			to := unsafe.Add(dst, c*s.cross.dst+r*s.run.dst)
			writeTile[T](to, buf, s.elem, axis{h, s.run.dst, pitch}, axis{w, s.cross.dst, s.elem})
		}
	}
}

// writeTile writes a buffered tile to its place: whole squares of small
// elements by words, the rest row by row. The axes lead from the buffer to
// the destination: along has the rows of the buffer, cross its columns.
func writeTile[T element](dst, buf unsafe.Pointer, elem int64, along, cross axis) {
	c := int64(0)
	if side := wordSize / elem; side > 1 && wordSize%elem == 0 && along.dst == elem {
		whole := along.n / side * side
		for ; c+side <= cross.n; c += side {
			to, from := unsafe.Add(dst, c*cross.dst), unsafe.Add(buf, c*elem)
			switch elem {
			case 1:
				strip8(to, cross.dst, from, along.src, whole)
			case 2:
				strip16(to, cross.dst, from, along.src, whole)
			case 4:
				strip32(to, cross.dst, from, along.src, whole)
			}
			if whole < along.n {
				for i := range side {
					run[T](unsafe.Add(to, i*cross.dst+whole*elem), unsafe.Add(from, i*elem+whole*along.src), elem,
						axis{along.n - whole, along.dst, along.src})
				}
			}
		}
	}
	for ; c < cross.n; c++ {
		run[T](unsafe.Add(dst, c*cross.dst), unsafe.Add(buf, c*elem), elem, along)
	}
}
