package copyplan_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// byteMove says which byte of the source goes to which of the destination.
type byteMove struct{ dst, src int64 }

// inOrder sorts moves by destination, where no two meet.
func inOrder(moves []byteMove) []byteMove {
	slices.SortFunc(moves, func(a, b byteMove) int { return int(a.dst - b.dst) })
	return moves
}

// wanted lists the moves of a copy element by element, found by their indices.
func wanted(elem int64, dst, src core.Layout) []byteMove {
	moves := []byteMove{}
	var visit func(axis int, d, s int64)
	visit = func(axis int, d, s int64) {
		if axis < dst.Rank() {
			for i := range dst.Dim(axis) {
				visit(axis+1, d+i*dst.Stride(axis), s+i*src.Stride(axis))
			}
			return
		}
		for b := range elem {
			moves = append(moves, byteMove{d*elem + b, s*elem + b})
		}
	}
	visit(0, 0, 0)
	return inOrder(moves)
}

// made lists the moves of copies by their pieces.
func made(copies iter.Seq[copyplan.Copy]) []byteMove {
	moves := []byteMove{}
	for c := range copies {
		for d, s := range c.Pieces() {
			for b := range c.Elem {
				moves = append(moves, byteMove{d + b, s + b})
			}
		}
	}
	return inOrder(moves)
}

func layout(t testing.TB, shape, strides []int64) core.Layout {
	t.Helper()
	l, err := core.NewStridedLayout(shape, strides)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// randomLayouts are two layouts of a shape with up to 6 axes: permuted, with gaps
// and backwards; the source repeats elements too, or lets axes overlap.
func randomLayouts(t testing.TB, rng *rand.Rand) (dst, src core.Layout) {
	shape := make([]int64, rng.IntN(7))
	room := int64(2000)
	for i := range shape {
		shape[i] = 1 + rng.Int64N(min(room, 5))
		if rng.IntN(6) == 0 {
			shape[i] = 1 + rng.Int64N(min(room, 100))
		}
		if rng.IntN(40) == 0 {
			shape[i] = 0
		}
		room = max(room/max(shape[i], 1), 1)
	}
	strides := func(source bool) []int64 {
		strides, step := make([]int64, len(shape)), int64(1)
		order := rng.Perm(len(shape))
		if rng.IntN(2) == 0 {
			slices.SortFunc(order, func(a, b int) int { return b - a })
		}
		for _, axis := range order {
			if source && rng.IntN(6) == 0 {
				continue
			}
			if rng.IntN(5) == 0 {
				step *= 1 + rng.Int64N(3)
			}
			strides[axis] = step
			if !source || rng.IntN(8) != 0 {
				step *= max(shape[axis], 1)
			}
			if rng.IntN(4) == 0 {
				strides[axis] = -strides[axis]
			}
		}
		return strides
	}
	return layout(t, shape, strides(false)), layout(t, shape, strides(true))
}

// check proves every form of one copy against the list of its moves.
func check(t *testing.T, rng *rand.Rand, elem int64, dst, src core.Layout) {
	t.Helper()
	want := wanted(elem, dst, src)
	c := copyplan.New(elem, dst, src)
	about := fmt.Sprintf("%d bytes, %v: %v from %v: %+v", elem, dst.Shape(), dst.Strides(), src.Strides(), c)
	one := func(yield func(copyplan.Copy) bool) { yield(c) }
	if !slices.Equal(made(one), want) || c.Size() != int64(len(want)) {
		t.Fatalf("%s: the pieces are other elements", about)
	}
	if len(want) == 0 {
		if n, ok := c.Contiguous(); n != 0 || !ok || c.Count() != 0 {
			t.Fatalf("%s: nothing to copy, but Contiguous says %d, %v", about, n, ok)
		}
		return
	}
	checkForm(t, about, c)
	checkBoxes(t, about, c, want)

	narrow := c.Narrow(16)
	l := copyplan.Limits{Rank: 1 + rng.IntN(4), Count: 1 + rng.Int64N(200), Reach: 16 + rng.Int64N(2000)}
	var parts []copyplan.Copy
	for p := range narrow.Split(l) {
		r := p.Range()
		if len(p.Axes) > l.Rank || p.Count() > l.Count || r.DstHigh-r.DstLow > l.Reach || r.SrcHigh-r.SrcLow > l.Reach || p.Elem != narrow.Elem {
			t.Fatalf("%s: part %+v exceeds %+v", about, p, l)
		}
		if n := p.Elem; (p.Dst|p.Src)&(n-1) != 0 || n&(n-1) != 0 || n > 16 {
			t.Fatalf("%s: part %+v is no aligned words", about, p)
		}
		parts = append(parts, p)
	}
	if !slices.Equal(made(slices.Values(parts)), want) {
		t.Fatalf("%s: the parts are other elements", about)
	}
}

// checkForm proves what the types promise.
func checkForm(t *testing.T, about string, c copyplan.Copy) {
	t.Helper()
	r, first := c.Range(), true
	var seen copyplan.Range
	for d, s := range c.Pieces() {
		p := copyplan.Range{DstLow: d, DstHigh: d + c.Elem, SrcLow: s, SrcHigh: s + c.Elem}
		if first {
			seen, first = p, false
		}
		seen = copyplan.Range{
			DstLow: min(seen.DstLow, p.DstLow), DstHigh: max(seen.DstHigh, p.DstHigh),
			SrcLow: min(seen.SrcLow, p.SrcLow), SrcHigh: max(seen.SrcHigh, p.SrcHigh),
		}
	}
	if r != seen || r.DstLow != c.Dst {
		t.Fatalf("%s: range %+v, want %+v", about, r, seen)
	}
	for i, a := range c.Axes {
		if a.N < 2 || a.Dst < 1 || i > 0 && a.Dst > c.Axes[i-1].Dst {
			t.Fatalf("%s: axis %d", about, i)
		}
	}
}

// checkBoxes holds boxes to the rules of clEnqueueCopyBufferRect.
func checkBoxes(t *testing.T, about string, c copyplan.Copy, want []byteMove) {
	t.Helper()
	b, at := c.Boxes()
	for _, p := range [][2]int64{{b.DstRowPitch, b.DstSlicePitch}, {b.SrcRowPitch, b.SrcSlicePitch}} {
		if p[0] < b.Row || p[1] < b.Rows*p[0] || p[1]%p[0] != 0 {
			t.Fatalf("%s: box %+v is not valid", about, b)
		}
	}
	if at.Size() != c.Size() {
		t.Fatalf("%s: boxes move %d bytes", about, at.Size())
	}
	moves := []byteMove{}
	for d, s := range at.Pieces() {
		for z := range b.Slices {
			for y := range b.Rows {
				for x := range b.Row {
					moves = append(moves, byteMove{
						d + z*b.DstSlicePitch + y*b.DstRowPitch + x,
						s + z*b.SrcSlicePitch + y*b.SrcRowPitch + x,
					})
				}
			}
		}
	}
	if !slices.Equal(inOrder(moves), want) {
		t.Fatalf("%s: boxes %+v at %+v are other elements", about, b, at)
	}
}

func TestEveryFormMovesTheSameElements(t *testing.T) {
	for _, elem := range []int64{1, 2, 3, 4, 6, 8, 12, 16, 32} {
		t.Run(fmt.Sprintf("elem=%d", elem), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(51, uint64(elem)))
			for range 100 {
				dst, src := randomLayouts(t, rng)
				check(t, rng, elem, dst, src)
			}
		})
	}
}

func FuzzCopy(f *testing.F) {
	f.Add(uint64(1), uint8(4))
	f.Fuzz(func(t *testing.T, seed uint64, elem uint8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		dst, src := randomLayouts(t, rng)
		check(t, rng, int64(elem%40)+1, dst, src)
	})
}

// What named layouts come down to, for elements of 4 bytes.
func TestChunksAreDenseOnOneSideAndMoveTheSameElements(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	for range 3000 {
		side := copyplan.Side(rng.IntN(2) == 0)
		dst, src := randomLayouts(t, rng)
		dense, err := core.NewLayout(dst.Shape()...)
		if err != nil {
			t.Fatal(err)
		}
		if side == copyplan.Destination {
			dst = dense
		} else {
			src = dense
		}
		elem, size := 1+rng.Int64N(4), 1+rng.Int64N(50)
		c := copyplan.New(elem, dst, src)
		next := make(map[int64]int64) // the end of each chunk on the dense side, by its start
		got := made(func(yield func(copyplan.Copy) bool) {
			for part, at := range c.Chunks(side, size) {
				n := part.Size()
				r := part.Range()
				low, high := r.DstLow, r.DstHigh
				if side == copyplan.Source {
					low, high = r.SrcLow, r.SrcHigh
				}
				if n > size || at != low || high-low != n {
					t.Errorf("%+v in chunks of %d: %+v at %d", c, size, part, at)
				}
				next[low] = high
				if !yield(part) {
					return
				}
			}
		})
		if want := wanted(elem, dst, src); !slices.Equal(got, want) {
			t.Fatalf("%v to %v, elements of %d bytes, in chunks of %d: %v, want %v", src, dst, elem, size, got, want)
		}
		end := int64(0)
		for n := c.Size(); end < n; end = next[end] {
			if next[end] <= end {
				t.Fatalf("%+v in chunks of %d: there is a gap at %d", c, size, end)
			}
		}
	}
	for range (copyplan.Copy{Elem: 10}).Chunks(copyplan.Destination, 3) {
		break // the loop may end early
	}
}

func TestGeometryOfNamedLayouts(t *testing.T) {
	type axes = []copyplan.Axis
	for _, c := range []struct {
		name     string
		shape    []int64
		dst, src []int64
		want     copyplan.Copy
		boxes    int64 // how many there are
		box      copyplan.Box
	}{
		{"scalar", nil, nil, nil, copyplan.Copy{Elem: 4}, 1, copyplan.Box{Row: 4, Rows: 1, Slices: 1, DstRowPitch: 4, DstSlicePitch: 4, SrcRowPitch: 4, SrcSlicePitch: 4}},
		{"both column-major", []int64{5, 7}, []int64{1, 5}, []int64{1, 5}, copyplan.Copy{Elem: 140}, 1,
			copyplan.Box{Row: 140, Rows: 1, Slices: 1, DstRowPitch: 140, DstSlicePitch: 140, SrcRowPitch: 140, SrcSlicePitch: 140}},
		{"both reversed", []int64{6}, []int64{-1}, []int64{-1}, copyplan.Copy{Elem: 24, Dst: -20, Src: -20}, 1,
			copyplan.Box{Row: 24, Rows: 1, Slices: 1, DstRowPitch: 24, DstSlicePitch: 24, SrcRowPitch: 24, SrcSlicePitch: 24}},
		{"padded rows", []int64{3, 5}, []int64{5, 1}, []int64{8, 1}, copyplan.Copy{Elem: 20, Axes: axes{{N: 3, Dst: 20, Src: 32}}}, 1,
			copyplan.Box{Row: 20, Rows: 3, Slices: 1, DstRowPitch: 20, DstSlicePitch: 60, SrcRowPitch: 32, SrcSlicePitch: 96}},
		{"slices of padded rows", []int64{2, 3, 5}, nil, []int64{80, 8, 1}, copyplan.Copy{Elem: 20, Axes: axes{{N: 2, Dst: 60, Src: 320}, {N: 3, Dst: 20, Src: 32}}}, 1,
			copyplan.Box{Row: 20, Rows: 3, Slices: 2, DstRowPitch: 20, DstSlicePitch: 60, SrcRowPitch: 32, SrcSlicePitch: 320}},
		{"slices apart by no multiple of a row", []int64{2, 3, 5}, nil, []int64{81, 8, 1}, copyplan.Copy{Elem: 20, Axes: axes{{N: 2, Dst: 60, Src: 324}, {N: 3, Dst: 20, Src: 32}}}, 2,
			copyplan.Box{Row: 20, Rows: 3, Slices: 1, DstRowPitch: 20, DstSlicePitch: 60, SrcRowPitch: 32, SrcSlicePitch: 96}},
		{"transpose", []int64{6, 7}, nil, []int64{1, 6}, copyplan.Copy{Elem: 4, Axes: axes{{N: 6, Dst: 28, Src: 4}, {N: 7, Dst: 4, Src: 24}}}, 6,
			copyplan.Box{Row: 4, Rows: 7, Slices: 1, DstRowPitch: 4, DstSlicePitch: 28, SrcRowPitch: 24, SrcSlicePitch: 168}},
		{"reversed rows", []int64{3, 5}, nil, []int64{-5, 1}, copyplan.Copy{Elem: 20, Axes: axes{{N: 3, Dst: 20, Src: -20}}}, 3,
			copyplan.Box{Row: 20, Rows: 1, Slices: 1, DstRowPitch: 20, DstSlicePitch: 20, SrcRowPitch: 20, SrcSlicePitch: 20}},
		{"broadcast row", []int64{3, 5}, nil, []int64{0, 1}, copyplan.Copy{Elem: 20, Axes: axes{{N: 3, Dst: 20}}}, 3,
			copyplan.Box{Row: 20, Rows: 1, Slices: 1, DstRowPitch: 20, DstSlicePitch: 20, SrcRowPitch: 20, SrcSlicePitch: 20}},
		{"reversed destination", []int64{3, 5}, []int64{-5, 1}, []int64{5, 1}, copyplan.Copy{Elem: 20, Dst: -40, Src: 40, Axes: axes{{N: 3, Dst: 20, Src: -20}}}, 3,
			copyplan.Box{Row: 20, Rows: 1, Slices: 1, DstRowPitch: 20, DstSlicePitch: 20, SrcRowPitch: 20, SrcSlicePitch: 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst, src := layout(t, c.shape, c.dst), layout(t, c.shape, c.src)
			got := copyplan.New(4, dst, src)
			if got.Elem != c.want.Elem || got.Dst != c.want.Dst || got.Src != c.want.Src || !slices.Equal(got.Axes, c.want.Axes) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			box, at := got.Boxes()
			if box != c.box || at.Count() != c.boxes {
				t.Errorf("%d boxes %+v, want %d %+v", at.Count(), box, c.boxes, c.box)
			}
		})
	}
}

// wrap is a tensor of 1000 bytes.
func wrap(t *testing.T, s core.Spec) *core.Tensor {
	t.Helper()
	x, err := core.Wrap(core.Memory{Handle: 4096, Size: 1000, ID: core.DeviceID{Type: core.DeviceVulkan}}, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	return x
}

func TestOffsetsCountFromTheHandle(t *testing.T) {
	dst := wrap(t, core.Spec{DType: core.TypeInt16, Shape: []int64{4}, Offset: 40})
	src := wrap(t, core.Spec{DType: core.TypeInt16, Shape: []int64{4}, Strides: []int64{-3}, Offset: 60})
	c, err := copyplan.Of(dst, src)
	if err != nil || c.Dst != 40 || c.Src != 60 || c.Elem != 2 || !slices.Equal(c.Axes, []copyplan.Axis{{N: 4, Dst: 2, Src: -6}}) {
		t.Errorf("Of = %+v, %v", c, err)
	}
	if c, bits := copyplan.Pack(src); bits || c.Dst != 0 || c.Src != 60 {
		t.Errorf("Pack = %+v, %v", c, bits)
	}
	if c, bits := copyplan.Unpack(dst); bits || c.Dst != 40 || c.Src != 0 || c.Elem != 8 {
		t.Errorf("Unpack = %+v, %v", c, bits)
	}
}

func TestElementsBelowAByteAreMovedByWholeBytesOrRefused(t *testing.T) {
	for _, c := range []struct {
		name     string
		shape    []int64
		dst, src []int64
		flags    core.Flags
		elem     int64 // 0: refused
	}{
		{"a row", []int64{6}, nil, nil, 0, 3},
		{"an odd row", []int64{5}, nil, nil, 0, 0},
		{"rows that start on a byte", []int64{3, 4}, nil, []int64{6, 1}, 0, 2},
		{"rows that start within a byte", []int64{3, 4}, nil, []int64{5, 1}, 0, 0},
		{"a transpose", []int64{2, 2}, nil, []int64{1, 2}, 0, 0},
		{"a transpose of padded elements", []int64{2, 2}, nil, []int64{1, 2}, core.FlagSubBytePadded, 1},
		{"nothing", []int64{3, 0}, nil, nil, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst := wrap(t, core.Spec{DType: core.TypeInt4, Shape: c.shape, Strides: c.dst, Flags: c.flags, Offset: 7})
			src := wrap(t, core.Spec{DType: core.TypeInt4, Shape: c.shape, Strides: c.src, Flags: c.flags, Offset: 7})
			got, err := copyplan.Of(dst, src)
			if c.elem == 0 && dst.NumElements() > 0 {
				if !errors.Is(err, core.ErrNotSupported) {
					t.Fatalf("Of = %+v, %v; want ErrNotSupported", got, err)
				}
				if b, bits := copyplan.OfBits(dst, src); !bits || b.Dst != 56 || b.Size() != 4*dst.NumElements() {
					t.Errorf("OfBits = %+v, %v", b, bits)
				}
				return
			}
			if err != nil || got.Elem != c.elem {
				t.Errorf("Of = %+v, %v; want pieces of %d bytes", got, err, c.elem)
			}
		})
	}
}

// Numbers near the ends of int64 stay what they are.
func TestHugeLayouts(t *testing.T) {
	const most = int64(1) << 60
	c := copyplan.New(1, layout(t, []int64{2, 1}, []int64{most, 0}), layout(t, []int64{2, 1}, []int64{-most, most}))
	if c.Elem != 1 || !slices.Equal(c.Axes, []copyplan.Axis{{N: 2, Dst: most, Src: -most}}) {
		t.Errorf("%+v", c)
	}
	n := 0
	for p := range c.Narrow(16).Split(copyplan.Limits{Rank: 1, Count: 8, Reach: 1 << 27}) {
		if len(p.Axes) != 0 {
			t.Errorf("part %+v", p)
		}
		n++
	}
	if n != 2 {
		t.Errorf("%d parts, want 2", n)
	}
}

func TestMethodsKeepTheAxes(t *testing.T) {
	c := copyplan.New(4, layout(t, []int64{4, 6, 8}, nil), layout(t, []int64{4, 6, 8}, []int64{1, 32, 4}))
	before := slices.Clone(c.Axes)
	c.Boxes()
	n := c.Narrow(2)
	n.Axes[0].N = 99
	for p := range c.Split(copyplan.Limits{Rank: 1, Count: 2, Reach: 16}) {
		if len(p.Axes) > 0 {
			p.Axes[0].N = 99
		}
	}
	if !slices.Equal(c.Axes, before) {
		t.Errorf("axes %+v became %+v", before, c.Axes)
	}
}

func TestGeometryAllocatesNothing(t *testing.T) {
	shape := []int64{2, 2, 2, 2, 2, 2, 2, 2}
	dst := wrap(t, core.Spec{DType: core.TypeInt8, Shape: shape})
	src := wrap(t, core.Spec{DType: core.TypeInt8, Shape: shape, Strides: []int64{1, 2, 4, 8, 16, 32, 64, 128}})
	var sum int64
	n := testing.AllocsPerRun(20, func() {
		c, err := copyplan.Of(dst, src)
		if err != nil {
			t.Fatal(err)
		}
		box, at := c.Boxes()
		for d := range at.Pieces() {
			sum += d * box.Rows
		}
	})
	if n != 0 || sum == 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func ExampleCopy_Boxes() {
	image, _ := core.NewLayout(480, 640, 3)
	corner, _ := core.NewStridedLayout([]int64{100, 100, 3}, image.Strides())
	packed, _ := core.NewLayout(100, 100, 3)
	box, at := copyplan.New(1, packed, corner).Boxes()
	fmt.Println(at.Count(), "box:", box.Rows, "rows of", box.Row, "bytes,", box.SrcRowPitch, "apart")
	// Output: 1 box: 100 rows of 300 bytes, 1920 apart
}

// Elements of bits may lie before the address that offsets count from: a byte that holds
// any of them belongs to the range.
func TestByteRangeHoldsAllBits(t *testing.T) {
	for _, c := range []struct {
		elem, dst, src int64
		bits           bool
		want           copyplan.Range
	}{
		{4, 4, 12, true, copyplan.Range{0, 1, 1, 2}},
		{4, -4, -12, true, copyplan.Range{-1, 0, -2, -1}},
		{12, -12, -4, true, copyplan.Range{-2, 0, -1, 1}},
		{8, -8, 0, true, copyplan.Range{-1, 0, 0, 1}},
		{4, -4, 12, false, copyplan.Range{-4, 0, 12, 16}},
	} {
		if got := (copyplan.Copy{Elem: c.elem, Dst: c.dst, Src: c.src}).ByteRange(c.bits); got != c.want {
			t.Errorf("%d from %d and %d, bits %v: %v, want %v", c.elem, c.dst, c.src, c.bits, got, c.want)
		}
	}
}
