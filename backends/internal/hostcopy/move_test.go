package hostcopy

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// Each way copies the bytes and writes no others, in pieces too.
func TestLongCopies(t *testing.T) {
	const most = long + piece + 5
	random := rand.NewChaCha8([32]byte{1})
	from := make([]byte, most)
	_, _ = random.Read(from)
	to := make([]byte, most+1)
	for _, n := range []int{medium - 1, medium, medium + 1, piece - 1, piece, piece + 1, stringPiece + 1, 2*piece + 3, 2*stringPiece + 1, long - 1, long, most} {
		for _, w := range []way{inPieces, atOnce, byString} {
			if w == byString && !hasString {
				continue
			}
			for _, workers := range []int{1, 2, 5} {
				clear(to)
				to[n] = 0x5a
				if err := contiguous(w, unsafe.Pointer(&to[0]), unsafe.Pointer(&from[0]), int64(n), workers); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(to[:n], from[:n]) || to[n] != 0x5a {
					t.Errorf("a copy of %d bytes in way %d by %d goroutines is wrong", n, w, workers)
				}
			}
		}
	}
}

// After some copies one way is chosen.
func TestAWayIsChosen(t *testing.T) {
	const n = medium
	to, from := make([]byte, n), make([]byte, n)
	for i := range 100 {
		from[i] = byte(i) + 1
		move(unsafe.Pointer(&to[0]), unsafe.Pointer(&from[0]), n)
		if !bytes.Equal(to, from) {
			t.Fatalf("copy %d is wrong", i)
		}
	}
	if !bestWayKnown(n) || !bestWayKnown(medium-1) {
		t.Error("no way was chosen after 100 copies")
	}
}
