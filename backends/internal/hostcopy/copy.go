// Package hostcopy copies elements between two strided layouts of host memory, as fast as one or a few
// threads can.
//
// A copyplan.Copy says what is copied where; [Between], [Pack] and [Unpack] make it from tensors. Nothing is
// checked here: the caller must have proved that every element lies in memory that it keeps until the copy is
// done. Source and destination must not overlap.
package hostcopy

import (
	"slices"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/internal/parallel"
)

const (
	// minShare is the number of bytes worth a goroutine in a strided copy: starting one on an idle core costs a few microseconds,
	// copying this much takes fifty. There is no contest, since copies of one size differ tenfold in their speed.
	minShare = 512 << 10
	// minRunShare is the same for a contiguous copy on most machines, which is several times
	// faster, and gains little from a second core while it fits into the
	// cache that they share.
	minRunShare = 8 << 20
	// piecesEach is into how many pieces for each goroutine a copy is divided: whichever goroutine begins late gets fewer.
	piecesEach = 4
	// minPiece is the size of the smallest piece of a contiguous copy, and minLongPiece that of one which stores past the
	// caches: memmove does so from that size on.
	minPiece     = 64 << 10
	minLongPiece = 1 << 20
)

// runThreads has the numbers of goroutines that are fastest for contiguous copies on this machine.
var runThreads = parallel.Threads{Share: minRunShare}

// Copy copies the pieces of c, whose offsets count from dst and src.
//
// Source steps may be 0 (broadcasting). Addresses need no alignment. At most workers goroutines take part,
// including the caller's. No byte outside the pieces is read or written. Copy fails with core.ErrInvalid if
// some of the memory has vanished, as after the truncation of a mapped file; some of the pieces are then
// copied.
func Copy(dst, src unsafe.Pointer, c copyplan.Copy, workers int) error {
	total := c.Size()
	if total == 0 {
		return nil
	}
	dst, src = unsafe.Add(dst, c.Dst), unsafe.Add(src, c.Src)
	if len(c.Axes) == 0 {
		return Contiguous(dst, src, total, workers)
	}
	if workers = parallel.Usual(total, minShare, workers); workers > 1 {
		return split(dst, src, c.Elem, c.Axes, workers)
	}
	return guarded(dst, src, 8, copyplan.Copy{Elem: c.Elem, Axes: c.Axes}, func() {
		var room [inlineRank]axis
		serial(dst, src, c.Elem, append(room[:0], c.Axes...))
	})
}

// Contiguous copies n bytes from src to dst, with at most workers goroutines. It
// fails like [Copy].
func Contiguous(dst, src unsafe.Pointer, n int64, workers int) error {
	if n <= 0 {
		return nil
	}
	if workers <= 1 || n < parallel.Least {
		return guarded(dst, src, 8, copyplan.Copy{Elem: n}, func() { move(dst, src, n) })
	}
	return fastest(dst, src, n, workers)
}

// fastest is Contiguous for as many bytes as several goroutines may be faster for.
func fastest(dst, src unsafe.Pointer, n int64, workers int) error {
	with := func(workers int) error {
		return inBestWay(n, func(w way) error { return contiguous(w, dst, src, n, workers) })
	}
	if !bestWayKnown(n) { // one contest at a time, since each changes what the other one measures
		return with(runThreads.Usual(n, workers))
	}
	return runThreads.Run(n, workers, with)
}

// contiguous copies in one way, the best one for n bytes, which need not be the best one for a piece.
func contiguous(w way, dst, src unsafe.Pointer, n int64, workers int) error {
	if workers <= 1 {
		return guarded(dst, src, 8, copyplan.Copy{Elem: n}, func() { w.copy(bytesAt(dst, n), bytesAt(src, n)) })
	}
	least := int64(minPiece)
	if w == atOnce {
		least = minLongPiece
	}
	const page = 4 << 10 // pieces that end within a cache line share it
	size := max((n/int64(piecesEach*workers)+page-1)&^(page-1), least)
	pieces := (n-1)/size + 1
	return parallel.Each(int(pieces), workers, func(i int) error {
		at := int64(i) * size
		part := min(size, n-at)
		return guarded(dst, src, 8, copyplan.Copy{Elem: n}, func() {
			w.copy(bytesAt(unsafe.Add(dst, at), part), bytesAt(unsafe.Add(src, at), part))
		})
	})
}

func bytesAt(p unsafe.Pointer, n int64) []byte { return unsafe.Slice((*byte)(p), n) }

// split divides the copy along one axis among the caller and workers-1 goroutines.
func split(dst, src unsafe.Pointer, elem int64, axes []axis, workers int) error {
	k := splitAxis(axes, workers)
	a := axes[k]
	// Pieces are wide enough for tiles.
	pieces := min(int64(workers*piecesEach), max(int64(workers), a.N/(2*minTile)), a.N)
	whole := copyplan.Copy{Elem: elem, Axes: slices.Clone(axes)} // those of the caller stay on its stack
	return parallel.Each(int(pieces), workers, func(i int) error {
		lo, hi := a.N*int64(i)/pieces, a.N*int64(i+1)/pieces
		share := slices.Clone(whole.Axes)
		share[k].N = hi - lo
		d, s := unsafe.Add(dst, lo*a.Dst), unsafe.Add(src, lo*a.Src)
		return guarded(dst, src, 8, whole, func() { serial(d, s, elem, share) })
	})
}

// splitAxis returns the outermost axis that divides evenly enough, so that each worker writes a region of its
// own, or else the longest axis.
func splitAxis(axes []axis, workers int) int {
	for k, a := range axes {
		if a.N >= 8*int64(workers) {
			return k
		}
	}
	return longest(axes)
}

// serial copies along axes, which it may reorder, on the calling goroutine.
func serial(dst, src unsafe.Pointer, elem int64, axes []axis) {
	s := newSchedule(axes, elem)
	switch elem {
	case 1:
		execute[uint8](&s, dst, src)
	case 2:
		execute[uint16](&s, dst, src)
	case 3:
		execute[[3]uint8](&s, dst, src)
	case 4:
		execute[uint32](&s, dst, src)
	case 6:
		execute[[6]uint8](&s, dst, src)
	case 8:
		execute[uint64](&s, dst, src)
	case 12:
		execute[[12]uint8](&s, dst, src)
	case 16:
		execute[[16]uint8](&s, dst, src)
	case 32:
		execute[[32]uint8](&s, dst, src)
	default:
		execute[row](&s, dst, src)
	}
}
