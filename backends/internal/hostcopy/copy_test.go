package hostcopy

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// layout is one side of a copy: strides, and the span of bytes (or packed
// elements) that it touches around the element with index zero.
type layout struct {
	strides     []int64
	first, last int64 // offsets of the lowest and the highest element
}

func newLayout(shape, strides []int64) layout {
	l := layout{strides: strides}
	for i, n := range shape {
		if reach := (n - 1) * strides[i]; reach < 0 {
			l.first += reach
		} else {
			l.last += reach
		}
	}
	return l
}

// geometry is that of a copy by strides in bytes, which are multiples of elem.
func geometry(t testing.TB, elem int64, shape, dst, src []int64) copyplan.Copy {
	t.Helper()
	var layouts [2]core.Layout
	for i, strides := range [][]int64{dst, src} {
		strides = slices.Clone(strides)
		for k := range strides {
			strides[k] /= elem
		}
		l, err := core.NewStridedLayout(shape, strides)
		if err != nil {
			t.Fatal(err)
		}
		layouts[i] = l
	}
	return copyplan.New(elem, layouts[0], layouts[1])
}

// bitGeometry is that of a copy of packed elements, of which those at dstIndex and
// srcIndex have index zero throughout.
func bitGeometry(t testing.TB, width int64, shape, dst, src []int64, dstIndex, srcIndex int64) copyplan.Copy {
	t.Helper()
	c := geometry(t, width, shape, scaled(dst, width), scaled(src, width))
	c.Dst += dstIndex * width
	c.Src += srcIndex * width
	return c
}

// elements is the number of elements of a shape.
func elements(shape []int64) int64 {
	total := int64(1)
	for _, n := range shape {
		total *= n
	}
	return total
}

// visit calls f with the offset of every element in both layouts.
func visit(shape, dst, src []int64, f func(dst, src int64)) {
	var loop func(axis int, d, s int64)
	loop = func(axis int, d, s int64) {
		if axis == len(shape) {
			f(d, s)
			return
		}
		for i := range shape[axis] {
			loop(axis+1, d+i*dst[axis], s+i*src[axis])
		}
	}
	loop(0, 0, 0)
}

// randomShape has rank 0 to 6 and seldom more than a few thousand elements.
func randomShape(rng *rand.Rand) []int64 {
	shape := make([]int64, rng.IntN(7))
	room := int64(6000)
	for i := range shape {
		switch n := rng.Int64N(20); {
		case n == 0:
			shape[i] = rng.Int64N(2)
		case n < 4:
			shape[i] = 1 + rng.Int64N(min(room, 300))
		default:
			shape[i] = 1 + rng.Int64N(min(room, 5))
		}
		room /= max(shape[i], 1)
		room = max(room, 1)
	}
	rng.Shuffle(len(shape), func(i, k int) { shape[i], shape[k] = shape[k], shape[i] })
	return shape
}

// randomStrides lays the axes out in a random order, some with gaps, some
// backwards, and, where broadcasting is allowed, some with stride 0. step is
// the distance of neighbours.
func randomStrides(rng *rand.Rand, shape []int64, step int64, broadcast bool) []int64 {
	order := rng.Perm(len(shape))
	if rng.IntN(2) == 0 {
		slices.SortFunc(order, func(a, b int) int { return b - a })
	}
	strides := make([]int64, len(shape))
	for _, axis := range order {
		if broadcast && rng.IntN(6) == 0 {
			continue
		}
		if rng.IntN(5) == 0 {
			step += rng.Int64N(4) * step
		}
		strides[axis] = step
		step *= max(shape[axis], 1)
		if rng.IntN(4) == 0 {
			strides[axis] = -strides[axis]
		}
	}
	return strides
}

var elemSizes = []int64{1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 32, 40, 64, 96}

const guard = 64

// checkCopy copies between two fresh buffers and compares every byte of the
// destination, gaps and guards too, with what single elements give.
func checkCopy(t *testing.T, rng *rand.Rand, elem int64, shape, dstStrides, srcStrides []int64, workers int) {
	t.Helper()
	dl, sl := newLayout(shape, dstStrides), newLayout(shape, srcStrides)
	empty := elements(shape) == 0
	if empty {
		dl, sl = layout{strides: dstStrides}, layout{strides: srcStrides}
	}
	dstZero := guard + rng.Int64N(9) - dl.first
	srcZero := guard + rng.Int64N(9) - sl.first
	got := make([]byte, dstZero+dl.last+elem+guard)
	src := make([]byte, srcZero+sl.last+elem+guard)
	for i := range got {
		got[i] = 0xA5
	}
	fillRandom(rng, src)
	want, srcBefore := bytes.Clone(got), bytes.Clone(src)
	visit(shape, dstStrides, srcStrides, func(d, s int64) {
		copy(want[dstZero+d:][:elem], src[srcZero+s:][:elem])
	})
	c, do := geometry(t, elem, shape, dstStrides, srcStrides), Copy
	if workers > 1 && len(c.Axes) > 0 {
		do = divided
	}
	if err := do(unsafe.Pointer(&got[dstZero]), unsafe.Pointer(&src[srcZero]), c, workers); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("elem %d shape %v dst %v src %v workers %d: wrong from byte %d of [%d, %d)",
			elem, shape, dstStrides, srcStrides, workers, firstDifference(got, want), dstZero+dl.first, dstZero+dl.last+elem)
	}
	if !bytes.Equal(src, srcBefore) {
		t.Fatalf("elem %d shape %v dst %v src %v: the source changed", elem, shape, dstStrides, srcStrides)
	}
}

// divided is Copy in so many goroutines, whatever is the fastest.
func divided(dst, src unsafe.Pointer, c copyplan.Copy, workers int) error {
	return split(unsafe.Add(dst, c.Dst), unsafe.Add(src, c.Src), c.Elem, c.Axes, workers)
}

// fillRandom makes neighbouring bytes differ.
func fillRandom(rng *rand.Rand, b []byte) {
	var word [8]byte
	for len(b) > 0 {
		binary.LittleEndian.PutUint64(word[:], rng.Uint64())
		b = b[copy(b, word[:]):]
	}
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// rounds is how many of n random copies a test makes: fewer where each takes long.
func rounds(n int) int {
	if coretest.Sanitized || coretest.Quick() {
		return n / 5
	}
	return n
}

func TestCopyMatchesElementByElement(t *testing.T) {
	for _, elem := range elemSizes {
		t.Run(fmt.Sprintf("elem=%d", elem), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(7, uint64(elem)))
			for range rounds(200) {
				shape := randomShape(rng)
				dst := randomStrides(rng, shape, elem, false)
				src := randomStrides(rng, shape, elem, true)
				checkCopy(t, rng, elem, shape, dst, src, 1)
			}
		})
	}
}

// The layouts that schedules treat apart, at extents around their block and
// tile sizes.
func TestCopyNamedLayouts(t *testing.T) {
	cases := []struct {
		name     string
		shape    []int64
		dst, src []int64 // in elements
	}{
		{"scalar", nil, nil, nil},
		{"one element, wild strides", []int64{1, 1}, []int64{1 << 40, 0}, []int64{-1 << 40, 0}},
		{"contiguous", []int64{5, 7}, []int64{7, 1}, []int64{7, 1}},
		{"both column-major", []int64{5, 7}, []int64{1, 5}, []int64{1, 5}},
		{"empty with negative strides", []int64{4, 0, 3}, []int64{-3, -3, -1}, []int64{3, 3, 1}},
		{"transpose of whole tiles", []int64{256, 256}, []int64{256, 1}, []int64{1, 256}},
		{"transpose with ragged edges", []int64{261, 267}, []int64{267, 1}, []int64{1, 261}},
		{"transpose of less than a tile", []int64{9, 15}, []int64{15, 1}, []int64{1, 9}},
		{"transpose, reversed rows", []int64{70, 90}, []int64{90, 1}, []int64{-1, 70}},
		{"transpose, reversed columns", []int64{70, 90}, []int64{90, 1}, []int64{1, -70}},
		{"transpose into a reversed destination", []int64{70, 90}, []int64{-90, -1}, []int64{1, 70}},
		{"transpose between padded rows", []int64{70, 90}, []int64{100, 1}, []int64{1, 80}},
		{"transpose of every second element", []int64{70, 90}, []int64{90, 1}, []int64{2, 140}},
		{"channels last to channels first, 3", []int64{2, 3, 1001}, []int64{3003, 1001, 1}, []int64{3003, 1, 3}},
		{"channels first to channels last, 3", []int64{2, 1001, 3}, []int64{3003, 3, 1}, []int64{3003, 1, 1001}},
		{"channels last to channels first, 4", []int64{4, 515}, []int64{515, 1}, []int64{1, 4}},
		{"channels first to channels last, 4", []int64{515, 4}, []int64{4, 1}, []int64{1, 515}},
		{"channels reversed", []int64{515, 3}, []int64{3, 1}, []int64{3, -1}},
		{"every second column", []int64{33, 65}, []int64{65, 1}, []int64{130, 2}},
		{"every second column of the destination", []int64{33, 65}, []int64{130, 2}, []int64{65, 1}},
		{"reversed rows", []int64{33, 65}, []int64{65, 1}, []int64{-65, 1}},
		{"reversed columns", []int64{33, 65}, []int64{65, 1}, []int64{65, -1}},
		{"reversed both", []int64{33, 65}, []int64{65, 1}, []int64{-65, -1}},
		{"broadcast row", []int64{33, 65}, []int64{65, 1}, []int64{0, 1}},
		{"broadcast column", []int64{33, 65}, []int64{65, 1}, []int64{1, 0}},
		{"broadcast scalar", []int64{33, 165}, []int64{165, 1}, []int64{0, 0}},
		{"broadcast scalar between gaps", []int64{33, 165}, []int64{400, 2}, []int64{0, 0}},
		{"broadcast transpose", []int64{9, 33, 65}, []int64{2145, 65, 1}, []int64{0, 1, 33}},
		{"rotate axes (2,0,1)", []int64{12, 20, 31}, []int64{620, 31, 1}, []int64{1, 372, 12}},
		{"reverse axes (2,1,0)", []int64{12, 20, 31}, []int64{620, 31, 1}, []int64{1, 12, 240}},
		{"many small transposes", []int64{300, 3, 3}, []int64{9, 3, 1}, []int64{9, 1, 3}},
		{"rank above the inline limit", []int64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2},
			[]int64{512, 256, 128, 64, 32, 16, 8, 4, 2, 1}, []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}},
		{"sliding windows", []int64{300, 20}, []int64{20, 1}, []int64{1, 1}},
		{"sliding windows, transposed", []int64{20, 300}, []int64{1, 20}, []int64{1, -2}},
		{"interleaved destination", []int64{2, 3}, []int64{3, 2}, []int64{3, 1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			for _, elem := range elemSizes {
				checkCopy(t, rng, elem, c.shape, scaled(c.dst, elem), scaled(c.src, elem), 1)
			}
		})
	}
}

func scaled(x []int64, by int64) []int64 {
	y := slices.Clone(x)
	for i := range y {
		y[i] *= by
	}
	return y
}

func TestCopyInParallelAtOddSizes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const n = 3 * minShare
	for _, workers := range []int{2, 7} {
		for _, elem := range []int64{3, 4, 16} {
			side := int64(1)
			for side*side*elem < n {
				side++
			}
			long := n/(3*elem) + 5
			for _, c := range []struct{ shape, dst, src []int64 }{
				{[]int64{side, side + 1}, []int64{side + 1, 1}, []int64{1, side}},
				{[]int64{3, long}, []int64{long, 1}, []int64{1, 3}},
				{[]int64{long, 3}, []int64{3, 1}, []int64{1, long}},
				{[]int64{3 * long}, []int64{1}, []int64{2}},
				{[]int64{3 * long}, []int64{1}, []int64{0}},
				{[]int64{3, long}, []int64{long, 1}, []int64{-long, 1}},
				{[]int64{2, side, side}, []int64{1, 2 * side, 2}, []int64{side * side, side, 1}},
			} {
				checkCopy(t, rng, elem, c.shape, scaled(c.dst, elem), scaled(c.src, elem), workers)
			}
		}
	}
}

func TestContiguous(t *testing.T) {
	for _, n := range []int64{0, 1, 7, 4096, 2*minRunShare - 1, 2 * minRunShare, 3*minRunShare + 13} {
		src := make([]byte, n+2*guard)
		for i := range src {
			src[i] = byte(i*i>>3) ^ byte(i>>11)
		}
		want := make([]byte, len(src))
		copy(want[guard:guard+n], src[guard:])
		for _, workers := range []int{0, 1, 2, 5} {
			got := make([]byte, len(src))
			if err := Contiguous(unsafe.Pointer(&got[guard]), unsafe.Pointer(&src[guard]), n, workers); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes, %d workers: wrong from byte %d", n, workers, firstDifference(got, want)-guard)
			}
		}
	}
}

func TestCopyAllocatesNothing(t *testing.T) {
	dst, src := make([]byte, 1<<16), make([]byte, 1<<16)
	to, err := core.NewLayout(2, 2, 2, 2, 4, 4, 16, 16)
	if err != nil {
		t.Fatal(err)
	}
	from, err := core.NewStridedLayout(to.Shape(), []int64{1, 2, 4, 8, 16, 64, 256, 4096})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){
		"Copy": func() {
			if err := Copy(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), copyplan.New(1, to, from), 2); err != nil {
				t.Fatal(err)
			}
		},
		"CopyBits": func() {
			if err := CopyBits(unsafe.Pointer(&dst[0]), unsafe.Pointer(&src[0]), copyplan.New(4, to, from), 1); err != nil {
				t.Fatal(err)
			}
		},
	} {
		if n := testing.AllocsPerRun(20, f); n != 0 {
			t.Errorf("%s of rank %d: %v allocations, want 0", name, to.Rank(), n)
		}
	}
}

func FuzzCopy(f *testing.F) {
	f.Add(uint64(1), uint8(3), false)
	f.Add(uint64(99), uint8(16), true)
	f.Fuzz(func(t *testing.T, seed uint64, elem uint8, bits bool) {
		rng := rand.New(rand.NewPCG(seed, 0))
		size := int64(elem%70) + 1
		shape := randomShape(rng)
		if bits {
			size = size%7 + 1
			checkCopyBits(t, rng, size, shape, randomStrides(rng, shape, 1, false), randomStrides(rng, shape, 1, true))
			return
		}
		checkCopy(t, rng, size, shape, randomStrides(rng, shape, size, false), randomStrides(rng, shape, size, true), 1)
	})
}
