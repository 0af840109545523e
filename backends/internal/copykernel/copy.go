// Package copykernel copies elements between two strided layouts of host
// memory, as fast as one or a few threads can.
//
// It knows addresses, extents and strides only: dtypes, bounds and ownership
// are its caller's. Nothing here is checked, so a caller must have proved that
// every element lies in memory that it holds until the call returns. Source
// and destination must not overlap.
package copykernel

import (
	"slices"
	"sync"
	"unsafe"
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

// Copy copies every element of a tensor of the given shape from src to dst.
//
// elem is the size of an element in bytes, any positive number. Strides are in
// bytes, one for each extent, and may be negative; dst and src are the
// addresses of the element with index zero throughout. Source strides may be 0
// (broadcasting); destination strides may not, where the extent is above 1. No
// address needs an alignment. At most workers goroutines take part, the
// caller's among them. No byte outside the elements is read or written.
func Copy(dst, src unsafe.Pointer, elem int64, shape, dstStrides, srcStrides []int64, workers int) {
	var buf [inlineRank]axis
	axes, dstOff, srcOff, ok := normalise(buf[:0], shape, dstStrides, srcStrides, 1)
	if !ok {
		return
	}
	copyAxes(unsafe.Add(dst, dstOff), unsafe.Add(src, srcOff), elem, axes, workers)
}

// Contiguous copies n bytes from src to dst, with at most workers goroutines.
func Contiguous(dst, src unsafe.Pointer, n int64, workers int) {
	if n <= 0 {
		return
	}
	if workers = min(workers, int(n/minRunShare)); workers > 1 {
		split(dst, src, 1, []axis{{n, 1, 1}}, workers)
		return
	}
	move(dst, src, n)
}

// copyAxes copies along normalised axes.
func copyAxes(dst, src unsafe.Pointer, elem int64, axes []axis, workers int) {
	total := elem
	for _, a := range axes {
		total *= a.n
	}
	axes, elem = widen(axes, elem)
	if len(axes) == 0 {
		Contiguous(dst, src, total, workers)
		return
	}
	if workers = min(workers, int(total/minShare)); workers > 1 {
		split(dst, src, elem, axes, workers)
		return
	}
	serial(dst, src, elem, axes)
}

// split shares the copy out along one axis, to the caller and workers-1 more.
func split(dst, src unsafe.Pointer, elem int64, axes []axis, workers int) {
	k := splitAxis(axes, workers)
	a := axes[k]
	workers = int(min(int64(workers), a.n))
	var wg sync.WaitGroup
	for w := range int64(workers) {
		lo, hi := a.n*w/int64(workers), a.n*(w+1)/int64(workers)
		share := slices.Clone(axes)
		share[k].n = hi - lo
		d, s := unsafe.Add(dst, lo*a.dst), unsafe.Add(src, lo*a.src)
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
		if a.n >= 8*int64(workers) {
			return k
		}
	}
	return longest(axes)
}

// serial copies along axes, which it may reorder, on the calling goroutine.
func serial(dst, src unsafe.Pointer, elem int64, axes []axis) {
	axes, elem = widen(axes, elem)
	if len(axes) == 0 {
		move(dst, src, elem)
		return
	}
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
