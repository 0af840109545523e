// Package copykernel copies elements between two strided layouts of host
// memory, as fast as one or a few threads can.
//
// What goes where is a strided.Copy; [Between], [Pack] and [Unpack] make it of
// tensors. Nothing here is checked, so a caller must have proved that every
// element lies in memory that it holds until the copy is done. Source and
// destination must not overlap.
package copykernel

import (
	"slices"
	"sync"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/strided"
)

const (
	// minShare is the least number of bytes worth a goroutine in a strided
	// copy: starting one on an idle core costs a few microseconds, copying this
	// much takes fifty.
	minShare = 512 << 10
	// minRunShare is the same for a contiguous copy, which is several times
	// faster. It also keeps each share above the 1 MiB from which the memmove
	// of the Go runtime stores past the caches on amd64.
	minRunShare = 2 << 20
)

// Copy copies the pieces of c, whose offsets count from dst and src.
//
// Source steps may be 0 (broadcasting). No address needs an alignment. At most
// workers goroutines take part, the caller's among them. No byte outside the
// pieces is read or written.
func Copy(dst, src unsafe.Pointer, c strided.Copy, workers int) {
	total := c.Size()
	if total == 0 {
		return
	}
	dst, src = unsafe.Add(dst, c.Dst), unsafe.Add(src, c.Src)
	if len(c.Axes) == 0 {
		Contiguous(dst, src, total, workers)
		return
	}
	if workers = min(workers, int(total/minShare)); workers > 1 {
		split(dst, src, c.Elem, c.Axes, workers)
		return
	}
	var room [inlineRank]axis
	serial(dst, src, c.Elem, append(room[:0], c.Axes...))
}

// Contiguous copies n bytes from src to dst, with at most workers goroutines.
func Contiguous(dst, src unsafe.Pointer, n int64, workers int) {
	if n <= 0 {
		return
	}
	if workers = min(workers, int(n/minRunShare)); workers > 1 {
		split(dst, src, 1, []axis{{N: n, Dst: 1, Src: 1}}, workers)
		return
	}
	move(dst, src, n)
}

// split shares the copy out along one axis, to the caller and workers-1 more.
func split(dst, src unsafe.Pointer, elem int64, axes []axis, workers int) {
	k := splitAxis(axes, workers)
	a := axes[k]
	workers = int(min(int64(workers), a.N))
	var wg sync.WaitGroup
	for w := range int64(workers) {
		lo, hi := a.N*w/int64(workers), a.N*(w+1)/int64(workers)
		share := slices.Clone(axes)
		share[k].N = hi - lo
		d, s := unsafe.Add(dst, lo*a.Dst), unsafe.Add(src, lo*a.Src)
		if w == int64(workers)-1 {
			serial(d, s, elem, share)
			break
		}
		wg.Go(func() { serial(d, s, elem, share) })
	}
	wg.Wait()
}

// splitAxis picks the outermost axis that splits evenly enough, so that each
// worker writes a region of its own, or else the longest.
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
