package hostcopy

import (
	"math/bits"
	"unsafe"

	"github.com/dlx-go/dlx/internal/parallel"
)

// A way copies bytes that lie side by side. Which way is the fastest depends on the processor and on the number of
// bytes.
type way int

const (
	inPieces way = iota // by the memmove of the Go runtime, which stores in the usual way
	atOnce              // by the same memmove, which on amd64 stores past the caches (memmove_amd64.s, gobble_big_data_fwd)
	byString            // by the processor's instruction for copying
)

const (
	// piece is what one call of memmove gets in inPieces: from 1 MiB on, it stores past the caches.
	piece = 256 << 10
	// stringPiece is what one such instruction gets. The Go scheduler cannot interrupt it.
	stringPiece = 1 << 20
	// medium is the size from which on byString may pay: it takes some time to start.
	medium = 32 << 10
	// long is the size from which on stores past the caches may pay: neither side of the copy fits into them.
	long = 32 << 20
)

func (w way) copy(to, from []byte) {
	switch w {
	case inPieces:
		for len(from) > piece {
			copy(to[:piece], from[:piece])
			to, from = to[piece:], from[piece:]
		}
		copy(to, from)
	case atOnce:
		copy(to, from)
	case byString:
		for len(from) > stringPiece {
			moveString(&to[0], &from[0], stringPiece)
			to, from = to[stringPiece:], from[stringPiece:]
		}
		if len(from) > 0 {
			moveString(&to[0], &from[0], len(from))
		}
	}
}

// move copies n bytes that lie side by side.
func move(dst, src unsafe.Pointer, n int64) {
	if n < medium {
		copy(bytesAt(dst, n), bytesAt(src, n))
	} else {
		moveInBestWay(dst, src, n)
	}
}

func moveInBestWay(dst, src unsafe.Pointer, n int64) {
	_ = inBestWay(n, func(w way) error {
		w.copy(bytesAt(dst, n), bytesAt(src, n))
		return nil
	})
}

// contests has one contest for the sizes from each power of two up to the next.
var contests [bits.UintSize]parallel.Contest

// lead is the part by which the second way must be faster: the first copies may not be like later ones, and the first way is
// the one that is seldom slow.
const lead = 8

// waysFor returns the ways that may pay for n bytes. The first one is the usual one.
func waysFor(n int64) [2]way {
	switch {
	case n >= long && hasString:
		return [2]way{byString, atOnce}
	case n >= long:
		return [2]way{inPieces, atOnce}
	case n >= medium && hasString:
		return [2]way{byString, inPieces}
	default:
		return [2]way{inPieces, inPieces}
	}
}

// inBestWay calls f, which copies n bytes, with the faster way for so many, or with one of the two while it is not known.
func inBestWay(n int64, f func(w way) error) error {
	ways := waysFor(n)
	if ways[0] == ways[1] {
		return f(ways[0])
	}
	return contests[bits.Len64(uint64(n))].Run(n, len(ways), 0, lead, func(k int) error { return f(ways[k]) })
}

// bestWayKnown reports whether inBestWay has chosen.
func bestWayKnown(n int64) bool {
	ways := waysFor(n)
	return ways[0] == ways[1] || contests[bits.Len64(uint64(n))].Over()
}
