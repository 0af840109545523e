package hostcopy

import (
	"bytes"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
)

// Whichever way is chosen, or none yet, the bytes are the same, and no other is written.
func TestLongCopies(t *testing.T) {
	const most = long + piece + 5
	random := rand.NewChaCha8([32]byte{1})
	from := make([]byte, most)
	_, _ = random.Read(from)
	to := make([]byte, most+1)
	for _, n := range []int{medium - 1, medium, medium + 1, piece - 1, piece, piece + 1, stringPiece + 1, 2*piece + 3, 2*stringPiece + 1, long - 1, long, most} {
		c := &contests[bits.Len(uint(n))]
		known := c.chosen.Load()
		for chosen := range uint32(3) {
			for range 2 { // while none is chosen, one after the other
				c.chosen.Store(chosen)
				clear(to)
				to[n] = 0x5a
				move(unsafe.Pointer(&to[0]), unsafe.Pointer(&from[0]), int64(n))
				if !bytes.Equal(to[:n], from[:n]) || to[n] != 0x5a {
					t.Errorf("a copy of %d bytes is wrong when way %d is chosen", n, chosen)
				}
			}
		}
		c.chosen.Store(known)
	}
}

// A contest chooses the way whose median was faster, after so many copies.
func TestContest(t *testing.T) {
	to, from := make([]byte, 64), make([]byte, 64)
	for faster := range 2 {
		var c contest
		for trial := range uint32(trials) {
			if c.chosen.Load() != 0 {
				t.Fatal("a way was chosen too early")
			}
			c.copy(to, from, inPieces, atOnce)
			took := time.Microsecond
			switch k := bits.OnesCount32(trial) & 1; {
			case k != faster && trial > 3: // it is the faster one at first only
				took = time.Millisecond
			case k == faster && trial > trials-4: // it is interrupted
				took = time.Second
			}
			if trial < trials-1 {
				c.note(bits.OnesCount32(trial)&1, trial, 1<<20, took)
			}
		}
		if chosen := c.chosen.Load(); chosen != uint32(faster+1) {
			t.Errorf("way %d was chosen, and %d is the faster one", chosen, faster+1)
		}
	}
}

// Both ways are timed equally often.
func TestTrials(t *testing.T) {
	second := 0
	for trial := range uint32(trials) {
		second += bits.OnesCount32(trial) & 1
	}
	if second != trials/2 {
		t.Errorf("%d of %d trials are of the second way", second, trials)
	}
}
