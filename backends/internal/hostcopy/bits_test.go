package hostcopy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
)

func bitAt(b []byte, i int64) byte { return b[i>>3] >> (i & 7) & 1 }

func setBit(b []byte, i int64, v byte) {
	b[i>>3] = b[i>>3]&^(1<<(i&7)) | v<<(i&7)
}

// checkCopyBits is checkCopy for packed elements: every bit of the destination
// is compared, those between and around the elements too.
func checkCopyBits(t *testing.T, rng *rand.Rand, width int64, shape, dstStrides, srcStrides []int64) {
	t.Helper()
	dl, sl := newLayout(shape, dstStrides), newLayout(shape, srcStrides)
	if elements(shape) == 0 {
		dl, sl = layout{}, layout{}
	}
	dstIndex, srcIndex := rng.Int64N(9)-dl.first, rng.Int64N(9)-sl.first
	got := make([]byte, (dstIndex+dl.last+1)*width/8+guard)
	src := make([]byte, (srcIndex+sl.last+1)*width/8+guard)
	fillRandom(rng, got)
	fillRandom(rng, src)
	want := bytes.Clone(got)
	visit(shape, dstStrides, srcStrides, func(d, s int64) {
		for b := range width {
			setBit(want, guard*4+(dstIndex+d)*width+b, bitAt(src, guard*4+(srcIndex+s)*width+b))
		}
	})
	if err := CopyBits(unsafe.Pointer(&got[guard/2]), unsafe.Pointer(&src[guard/2]), bitGeometry(t, width, shape, dstStrides, srcStrides, dstIndex, srcIndex), 1); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bits, shape %v dst %v+%d src %v+%d: wrong from byte %d",
			width, shape, dstStrides, dstIndex, srcStrides, srcIndex, firstDifference(got, want)-guard/2)
	}
}

func TestCopyBitsMatchesBitByBit(t *testing.T) {
	for _, width := range []int64{1, 2, 3, 4, 5, 6, 7, 12} {
		t.Run(fmt.Sprintf("bits=%d", width), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(11, uint64(width)))
			for range rounds(150) {
				shape := randomShape(rng)
				checkCopyBits(t, rng, width, shape, randomStrides(rng, shape, 1, false), randomStrides(rng, shape, 1, true))
			}
		})
	}
}

// Each bit is copied by one of the shares, and no byte of the destination is written by two.
func TestBitShares(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 13))
	divided := 0
	for range rounds(2000) {
		width, shape := 1+rng.Int64N(12), randomShape(rng)
		if elements(shape) == 0 {
			continue
		}
		dstStrides, srcStrides := randomStrides(rng, shape, 1, false), randomStrides(rng, shape, 1, true)
		dl, sl := newLayout(shape, dstStrides), newLayout(shape, srcStrides)
		c := bitGeometry(t, width, shape, dstStrides, srcStrides, rng.Int64N(9)-dl.first, rng.Int64N(9)-sl.first)
		want := make(map[int64]int64) // of each bit of the destination, the bit of the source
		for d, s := range c.Pieces() {
			for i := range c.Elem {
				want[d+i] = s + i
			}
		}
		shares := bitShares(c, 1+rng.IntN(5))
		writer := make(map[int64]int)
		for w, share := range shares {
			for d, s := range share.Pieces() {
				for i := range share.Elem {
					if from, ok := want[d+i]; !ok || from != s+i {
						t.Fatalf("%+v: share %d of %+v copies bit %d to %d", c, w, shares, s+i, d+i)
					}
					delete(want, d+i)
					if other, ok := writer[(d+i)>>3]; ok && other != w {
						t.Fatalf("%+v: shares %d and %d of %+v write byte %d", c, other, w, shares, (d+i)>>3)
					}
					writer[(d+i)>>3] = w
				}
			}
		}
		if len(want) > 0 {
			t.Fatalf("%+v: %+v leave out %d bits", c, shares, len(want))
		}
		if len(shares) > 1 {
			divided++
		}
	}
	if divided < 100 {
		t.Errorf("only %d copies were divided", divided)
	}
}

// Several workers copy what one copies.
func TestCopyBitsInShares(t *testing.T) {
	rng := rand.New(rand.NewPCG(14, 15))
	const extent = 2048 // 2 MiB of 4 bits, enough for four shares
	for name, c := range map[string]copyplan.Copy{
		"a run":       {Elem: 4*extent*extent - 9, Dst: 5, Src: 2},
		"rows":        {Elem: 4*extent - 4, Dst: 4, Src: 0, Axes: []axis{{N: extent, Dst: 4 * extent, Src: 4 * extent}}},
		"a transpose": {Elem: 4, Axes: []axis{{N: extent, Dst: 4 * extent, Src: 4}, {N: extent, Dst: 4, Src: 4 * extent}}},
	} {
		src := make([]byte, extent*extent/2)
		fillRandom(rng, src)
		got, want := make([]byte, len(src)), make([]byte, len(src))
		if n := len(bitShares(c, 3)); n != 3 {
			t.Errorf("%s: %d shares", name, n)
		}
		if err := CopyBits(unsafe.Pointer(&got[0]), unsafe.Pointer(&src[0]), c, 3); err != nil {
			t.Fatal(err)
		}
		if err := CopyBits(unsafe.Pointer(&want[0]), unsafe.Pointer(&src[0]), c, 1); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s: wrong from byte %d", name, firstDifference(got, want))
		}
	}
}

// A run that ends or starts in the middle of a byte must leave the other bits
// of that byte alone, and must not read a byte that holds none of it.
func TestCopyBitsAtTheEdgesOfMemory(t *testing.T) {
	for width := int64(1); width < 8; width++ {
		for n := int64(1); n < 40; n++ {
			size := (n*width + 7) / 8
			src := bytes.Repeat([]byte{0xFF}, int(size))
			dst := make([]byte, size)
			if err := CopyBits(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), bitGeometry(t, width, []int64{n}, []int64{1}, []int64{1}, 0, 0), 1); err != nil {
				t.Fatal(err)
			}
			for i := range size * 8 {
				want := byte(0)
				if i < n*width {
					want = 1
				}
				if bitAt(dst, i) != want {
					t.Fatalf("%d elements of %d bits: bit %d is %d", n, width, i, bitAt(dst, i))
				}
			}
		}
	}
}
