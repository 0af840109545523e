package copykernel

import (
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	// piece is what one call of copy gets, so that it stores in the usual way. From 1 MiB on, the memmove of the
	// Go runtime stores past the caches on amd64 (memmove_amd64.s, gobble_big_data_fwd).
	piece = 256 << 10
	// long is the size from which on stores past the caches may pay: neither side of the copy fits into them.
	long = 32 << 20
	// probe is the size of the two parts that are timed.
	probe = 8 << 20
	// sure is the lead by which one of the two ways is chosen for good.
	sure = 2
)

// lead counts the long copies in which pieces were faster, minus those in which they were slower. Which is faster
// depends on the processor.
var lead atomic.Int32

// move copies n bytes that lie side by side.
func move(dst, src unsafe.Pointer, n int64) {
	to, from := unsafe.Slice((*byte)(dst), n), unsafe.Slice((*byte)(src), n)
	if n < long {
		inPieces(to, from)
		return
	}
	if l := lead.Load(); -sure < l && l < sure {
		start := time.Now()
		inPieces(to[:probe], from[:probe])
		middle := time.Now()
		copy(to[probe:2*probe], from[probe:2*probe])
		if time.Since(middle) > middle.Sub(start) {
			lead.Add(1)
		} else {
			lead.Add(-1)
		}
		to, from = to[2*probe:], from[2*probe:]
	}
	if lead.Load() >= 0 {
		inPieces(to, from)
	} else {
		copy(to, from)
	}
}

func inPieces(to, from []byte) {
	for len(from) > piece {
		copy(to[:piece], from[:piece])
		to, from = to[piece:], from[piece:]
	}
	copy(to, from)
}
