package copykernel

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// Whichever way is known to be faster, or neither, the bytes are the same, and no other is written.
func TestLongCopies(t *testing.T) {
	const most = long + piece + 5
	known := lead.Load()
	defer lead.Store(known)
	random := rand.NewChaCha8([32]byte{1})
	from := make([]byte, most)
	_, _ = random.Read(from)
	to := make([]byte, most+1)
	for _, n := range []int{piece - 1, piece, piece + 1, 2*piece + 3, long - 1, long, most} {
		for _, l := range []int32{-sure, -1, 0, 1, sure} {
			lead.Store(l)
			clear(to)
			to[n] = 0x5a
			move(unsafe.Pointer(&to[0]), unsafe.Pointer(&from[0]), int64(n))
			if !bytes.Equal(to[:n], from[:n]) || to[n] != 0x5a {
				t.Errorf("a copy of %d bytes with a lead of %d is wrong", n, l)
			}
			if now := lead.Load(); n < long && now != l || n >= long && (l == sure || l == -sure) != (now == l) {
				t.Errorf("a copy of %d bytes changed the lead from %d to %d", n, l, now)
			}
		}
	}
}
