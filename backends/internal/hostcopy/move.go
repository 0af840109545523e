package hostcopy

import (
	"math/bits"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"
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
	// trials is how many copies are timed until one of two ways is chosen for good.
	trials = 32
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
	to, from := unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n)
	switch {
	case n >= long && hasString:
		contests[bits.Len64(uint64(n))].copy(to, from, byString, atOnce)
	case n >= long:
		contests[bits.Len64(uint64(n))].copy(to, from, inPieces, atOnce)
	case n >= medium && hasString:
		contests[bits.Len64(uint64(n))].copy(to, from, byString, inPieces)
	default:
		inPieces.copy(to, from)
	}
}

// contests has one contest for the sizes from each power of two up to the next.
var contests [bits.UintSize]contest

// contest finds the faster of two ways by timing the first copies.
type contest struct {
	begun  atomic.Uint32
	speeds [2][trials]atomic.Uint64 // of each way by the number of the trial, in bytes per millisecond; 0 if not known
	chosen atomic.Uint32            // the way by its position from 1 on; 0 while it is open
}

// copy copies in one of two ways.
func (c *contest) copy(to, from []byte, ways ...way) {
	if chosen := c.chosen.Load(); chosen > 0 {
		ways[chosen-1].copy(to, from)
		return
	}
	trial := c.begun.Add(1) - 1
	k := bits.OnesCount32(trial) & 1 // as often one as the other, in no period that copies may have, too
	start := time.Now()
	ways[k].copy(to, from)
	c.note(k, trial, len(from), time.Since(start))
	if trial >= trials-1 {
		c.choose()
	}
}

// note notes a copy in the way at k.
func (c *contest) note(k int, trial uint32, size int, took time.Duration) {
	if trial < trials {
		c.speeds[k][trial].Store(uint64(size) * uint64(time.Millisecond) / uint64(max(took, 1)))
	}
}

// choose compares medians: a copy may be fast because its bytes are in a cache or no other thread copies, and slow because
// the thread is interrupted. The second way must be faster by a quarter: the first copies may not be like later ones, and
// the first way is the one that is seldom slow.
func (c *contest) choose() {
	if c.median(1) > c.median(0)/4*5 {
		c.chosen.Store(2)
	} else {
		c.chosen.Store(1)
	}
}

func (c *contest) median(k int) uint64 {
	known := make([]uint64, 0, trials)
	for i := range c.speeds[k] {
		if s := c.speeds[k][i].Load(); s > 0 {
			known = append(known, s)
		}
	}
	if len(known) == 0 {
		return 0
	}
	slices.Sort(known)
	return known[len(known)/2]
}
