package gpucopy_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/typecode"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// plain are the limits of a usual device.
var plain = gpucopy.Limits{StorageRange: 1 << 27, OffsetAlignment: 16, Groups: [3]uint32{65535, 65535, 65535}, Storage8: true, Storage16: true}

// variants change what a plan depends on, down to limits that no device has.
func variants(l gpucopy.Limits) map[string]gpucopy.Limits {
	tiled, packed, small := l, l, l
	tiled.Tiles = true
	packed.Storage8, packed.Storage16 = false, false
	small.StorageRange, small.OffsetAlignment, small.Groups = 4096, 256, [3]uint32{2, 3, 2}
	smallTiled := small
	smallTiled.Tiles, smallTiled.StorageRange = true, 1<<20
	smallPacked := small
	smallPacked.Storage8, smallPacked.Storage16 = false, false
	return map[string]gpucopy.Limits{
		"plain": l, "tiled": tiled, "packed": packed,
		"small": small, "small, tiled": smallTiled, "small, packed": smallPacked,
	}
}

// copyCase is a copy by shape and strides in elements.
type copyCase struct {
	name     string
	shape    []int64
	dst, src []int64
}

var namedCases = []copyCase{
	{"scalar", nil, nil, nil},
	{"contiguous", []int64{7000}, nil, nil},
	{"transpose", []int64{70, 90}, nil, []int64{1, 70}},
	{"transpose of whole tiles", []int64{64, 96}, nil, []int64{1, 64}},
	{"transpose of whole tiles of bytes, and parts of such", []int64{132, 72}, nil, []int64{1, 132}},
	{"transpose of whole tiles between padded rows", []int64{128, 64}, []int64{68, 1}, []int64{1, 132}},
	{"transpose, reversed", []int64{70, 90}, nil, []int64{-1, -70}},
	{"transpose between padded rows", []int64{70, 90}, []int64{101, 1}, []int64{1, 83}},
	{"batch of transposes", []int64{3, 33, 40}, nil, []int64{1320, 1, 33}},
	{"channels last to channels first", []int64{2, 3, 1001}, nil, []int64{3003, 1, 3}},
	{"channels first to channels last", []int64{2, 1001, 3}, nil, []int64{3003, 1, 1001}},
	{"three channels first", []int64{3, 2056}, nil, []int64{1, 3}},
	{"three channels last", []int64{2056, 3}, nil, []int64{1, 2056}},
	{"two channels, between padded rows", []int64{2, 1027}, []int64{1028, 1}, []int64{1, 2}},
	{"four channels first", []int64{4, 2052}, nil, []int64{1, 4}},
	{"eight channels last", []int64{1032, 8}, nil, []int64{1, 1032}},
	{"five channels last, odd rows", []int64{821, 5}, nil, []int64{1, 821}},
	{"many small images", []int64{300, 3, 20}, nil, []int64{60, 1, 3}},
	{"every second column", []int64{33, 65}, nil, []int64{130, 2}},
	{"every second column of the destination", []int64{33, 65}, []int64{130, 2}, nil},
	{"rows of an odd length", []int64{33, 5}, []int64{7, 1}, []int64{9, 1}},
	{"reversed rows", []int64{33, 65}, nil, []int64{-65, 1}},
	{"reversed columns", []int64{33, 65}, nil, []int64{65, -1}},
	{"broadcast row", []int64{33, 65}, nil, []int64{0, 1}},
	{"broadcast column", []int64{33, 65}, nil, []int64{1, 0}},
	{"broadcast scalar", []int64{33, 65}, nil, []int64{0, 0}},
	{"rotated axes", []int64{12, 20, 31}, nil, []int64{1, 372, 12}},
	{"more axes than a dispatch has", []int64{2, 2, 2, 2, 2, 2, 2, 2, 2, 2}, nil, []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}},
	{"sliding windows", []int64{300, 20}, nil, []int64{1, 1}},
	{"nothing", []int64{3, 0, 2}, nil, nil},
}

// randomCase has up to 6 axes: permuted, with gaps, backwards, and repeated in the source.
func randomCase(rng *rand.Rand) copyCase {
	shape, room := make([]int64, rng.IntN(7)), int64(4000)
	for i := range shape {
		shape[i] = 1 + rng.Int64N(min(room, 6))
		if rng.IntN(4) == 0 {
			shape[i] = 1 + rng.Int64N(min(room, 150))
		}
		room = max(room/shape[i], 1)
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
				step += step * rng.Int64N(3)
			}
			strides[axis] = step
			step *= shape[axis]
			if rng.IntN(4) == 0 {
				strides[axis] = -strides[axis]
			}
		}
		return strides
	}
	return copyCase{"random", shape, strides(false), strides(true)}
}

// types has a word of every size, and sizes that are several.
var types = []core.DType{
	core.TypeUint8, core.TypeFloat16, core.TypeFloat32, core.TypeFloat64, core.TypeComplex128,
	{Code: typecode.UInt, Bits: 8, Lanes: 3}, {Code: typecode.Float, Bits: 32, Lanes: 3},
}

// placed is a tensor in memory of the host, with room around it.
type placed struct {
	size int
	spec core.Spec
}

// place puts a layout into memory, at an offset that is a multiple of 16, or of nothing.
func place(t testing.TB, rng *rand.Rand, aligned bool, dtype core.DType, shape, strides []int64) placed {
	t.Helper()
	l, err := core.NewStridedLayout(shape, strides)
	if err != nil {
		t.Fatal(err)
	}
	low, high := l.Extent()
	elem, _ := dtype.ItemSize()
	offset := -low*elem + rng.Int64N(40)
	if aligned {
		offset = (-low*elem+15)&^15 + 16*rng.Int64N(40)
	}
	// A packed shader needs whole uints.
	return placed{int(offset+high*elem+3)&^3 + 64, core.Spec{DType: dtype, Shape: shape, Strides: strides, Offset: offset}}
}

// on makes the tensor in memory, which starts at its handle.
func (p placed) on(t testing.TB, memory []byte) *core.Tensor {
	t.Helper()
	x, err := core.Wrap(core.Memory{Handle: uintptr(unsafe.Pointer(&memory[0])), Size: int64(len(memory)), ID: core.CPU}, p.spec)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// machine carries out dispatches on memory. room gives it, for as long as a test runs.
type machine interface {
	room(t testing.TB, dst, src int) (to, from []byte)
	run(t testing.TB, plan []gpucopy.Dispatch)
}

// check plans one copy, has it carried out, and compares every byte of the destination
// with what the naive copy gives. If aligned is set, both tensors lie at multiples of 16.
func check(t testing.TB, m machine, rng *rand.Rand, l gpucopy.Limits, aligned bool, dtype core.DType, c copyCase) {
	t.Helper()
	dst, src := place(t, rng, aligned, dtype, c.shape, c.dst), place(t, rng, aligned, dtype, c.shape, c.src)
	to, from := m.room(t, dst.size, src.size)
	for _, b := range [][]byte{to, from} {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	want := bytes.Clone(to)
	x, y, naive := dst.on(t, to), src.on(t, from), dst.on(t, want)
	defer x.Close()
	defer y.Close()
	defer naive.Close()
	if err := coretest.CopyNaive(naive, y); err != nil {
		t.Fatal(err)
	}
	geometry, err := copyplan.Of(x, y)
	if err != nil {
		t.Fatal(err)
	}
	plan := slices.Collect(gpucopy.Plan(geometry, l))
	about := fmt.Sprintf("%v of %v, shape %v: %v from %v", c.name, dtype, c.shape, c.dst, c.src)
	for _, d := range plan {
		checkLimits(t, about, d, l, len(to), len(from))
	}
	m.run(t, plan)
	if !bytes.Equal(to, want) {
		at := 0
		for to[at] == want[at] {
			at++
		}
		t.Fatalf("%s: byte %d is wrong\n%+v", about, at, plan)
	}
}

// checkLimits proves that a device takes the dispatch.
func checkLimits(t testing.TB, about string, d gpucopy.Dispatch, l gpucopy.Limits, dst, src int) {
	t.Helper()
	for i, w := range []gpucopy.Window{d.Dst, d.Src} {
		end := int64([]int{dst, src}[i])
		if w.Offset < 0 || w.Offset%l.OffsetAlignment != 0 || w.Size <= 0 || w.Size > l.StorageRange || w.Offset+w.Size > end {
			t.Fatalf("%s: window %+v of %d bytes", about, w, end)
		}
	}
	for i, n := range d.Groups {
		if n == 0 || n > l.Groups[i] {
			t.Fatalf("%s: groups %v", about, d.Groups)
		}
	}
	word := d.Shader.Word
	if d.Shader.Packed != (word == 1 && !l.Storage8 || word == 2 && !l.Storage16) || d.Shader.Tiled && !l.Tiles || d.Shader.SPIRV() == nil {
		t.Fatalf("%s: shader %v", about, d.Shader)
	}
}

// host does what the shader does with its constants, in a simpler order.
type host struct{ dst, src []byte }

func (h *host) room(_ testing.TB, dst, src int) (to, from []byte) {
	h.dst, h.src = make([]byte, dst), make([]byte, src)
	return h.dst, h.src
}

func (h *host) run(_ testing.TB, plan []gpucopy.Dispatch) {
	for _, d := range plan {
		to, from := h.dst[d.Dst.Offset:][:d.Dst.Size], h.src[d.Src.Offset:][:d.Src.Size]
		k, word := d.Constants, int(d.Shader.Word)
		for z := range k.Planes {
			at, of, rest := k.DstFirst, k.SrcFirst, z
			for i := 2; i < gpucopy.MaxAxes; i++ {
				at += int32(rest%k.N[i]) * k.DstStep[i]
				of += int32(rest%k.N[i]) * k.SrcStep[i]
				rest /= k.N[i]
			}
			for y := range int32(k.N[1]) {
				for x := range int32(k.N[0]) {
					a := int(at+x*k.DstStep[0]+y*k.DstStep[1]) * word
					b := int(of+x*k.SrcStep[0]+y*k.SrcStep[1]) * word
					copy(to[a:a+word], from[b:b+word])
				}
			}
		}
	}
}

// checkAll runs all cases on a machine with each variant of its limits.
func checkAll(t *testing.T, m machine, l gpucopy.Limits, random int) {
	for name, l := range variants(l) {
		t.Run(name, func(t *testing.T) { checkCases(t, m, l, random) })
	}
}

// checkCases runs all cases on a machine, and a number of random ones. A quick test has each case with some of the types.
func checkCases(t *testing.T, m machine, l gpucopy.Limits, random int) {
	every := 1
	if coretest.Quick() {
		every, random = 4, random/4
	}
	checkEvery(t, m, l, every, random)
}

// checkEvery runs each case with one of so many types.
func checkEvery(t *testing.T, m machine, l gpucopy.Limits, every, random int) {
	rng := rand.New(rand.NewPCG(61, 62))
	for i, dtype := range types {
		for k, c := range namedCases {
			if (i+k)/2%every != 0 {
				continue
			}
			check(t, m, rng, l, (i+k)%2 == 0, dtype, c)
		}
		for k := range random {
			check(t, m, rng, l, k%2 == 0, dtype, randomCase(rng))
		}
	}
}

func TestPlanMovesTheSameElements(t *testing.T) { checkAll(t, &host{}, plain, 40) }

// way is one of the ways through the kernels.
type way struct {
	shader gpucopy.Shader
	whole  bool // small words, in whole lanes
	rows   bool // the pixels of a channel are a row of the destination
}

// ways notes the ways that are taken.
type ways struct {
	host
	taken map[way]bool
}

func (w *ways) run(t testing.TB, plan []gpucopy.Dispatch) {
	w.host.run(t, plan)
	for _, d := range plan {
		k, s := &d.Constants, d.Shader
		w.taken[way{s, s.Word < 4 && k.Whole != 0, s.Channels && k.DstStep[0] == 1}] = true
	}
}

// The cases that every machine runs take all ways through the kernels.
func TestCasesTakeEveryWay(t *testing.T) {
	w := &ways{taken: make(map[way]bool)}
	for _, l := range variants(plain) {
		checkEvery(t, w, l, 1, 10)
	}
	for _, s := range gpucopy.Shaders() {
		for _, whole := range []bool{false, true} {
			for _, rows := range []bool{false, true} {
				possible := (!whole || s.Word < 4 && (s.Tiled || s.Channels)) && (!rows || s.Channels)
				if taken := w.taken[way{s, whole, rows}]; taken != possible {
					t.Errorf("%v, whole lanes %v, to rows %v: taken %v, possible %v", s, whole, rows, taken, possible)
				}
			}
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint16(4096))
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8, reach uint16) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := plain
		l.StorageRange = 64 + int64(reach)
		l.Storage8, l.Tiles = kind&1 == 0, kind&2 == 0
		l.Groups = [3]uint32{1 + uint32(rng.IntN(4)), 1 + uint32(rng.IntN(4)), 1}
		check(t, &host{}, rng, l, rng.IntN(2) == 0, types[int(kind)%len(types)], randomCase(rng))
	})
}

// The groups of a dispatch go where the words are.
func TestGroupsFitTheShape(t *testing.T) {
	tiles := plain
	tiles.Tiles = true
	for _, c := range []struct {
		copyCase
		word        int64
		limits      gpucopy.Limits
		wide, along uint32
		groups      [3]uint32
		shader      string
	}{
		{copyCase{"transpose", []int64{512, 512}, nil, []int64{1, 512}}, 4, plain, 4, 1, [3]uint32{16, 16, 1}, "gather4"},
		{copyCase{"transpose by tiles", []int64{512, 512}, nil, []int64{1, 512}}, 4, tiles, 0, 0, [3]uint32{8, 16, 1}, "gather4_tiled"},
		{copyCase{"transpose of bytes by tiles", []int64{512, 512}, nil, []int64{1, 512}}, 1, tiles, 0, 0, [3]uint32{8, 4, 1}, "gather1_tiled"},
		{copyCase{"every second word", []int64{4096}, nil, []int64{2}}, 4, plain, 8, 2, [3]uint32{4, 1, 1}, "gather4"},
		{copyCase{"every second byte", []int64{8192}, nil, []int64{2}}, 1, plain, 8, 2, [3]uint32{2, 1, 1}, "gather1"},
		{copyCase{"short rows", []int64{100, 20}, nil, []int64{60, 2}}, 4, plain, 5, 0, [3]uint32{1, 4, 1}, "gather4"},
		{copyCase{"short rows of bytes", []int64{100, 20}, nil, []int64{60, 2}}, 1, plain, 3, 0, [3]uint32{1, 1, 1}, "gather1"},
		{copyCase{"rows a little longer than a group", []int64{100, 257}, nil, []int64{600, 2}}, 4, plain, 8, 0, [3]uint32{2, 25, 1}, "gather4"},
		{copyCase{"a row a little longer than a group", []int64{257}, nil, []int64{2}}, 4, plain, 8, 1, [3]uint32{1, 1, 1}, "gather4"},
		{copyCase{"channels first to last", []int64{4096, 3}, nil, []int64{1, 4096}}, 4, plain, 8, 2, [3]uint32{4, 3, 1}, "gather4"},
		{copyCase{"channels first to last by spans", []int64{4096, 3}, nil, []int64{1, 4096}}, 4, tiles, 9, 0, [3]uint32{8, 1, 1}, "gather4_channels"},
		{copyCase{"channels of bytes last to first", []int64{5, 3, 4096}, nil, []int64{3 * 4096, 1, 3}}, 1, tiles, 9, 0, [3]uint32{2, 1, 5}, "gather1_channels"},
		{copyCase{"nine channels", []int64{9, 4096}, nil, []int64{1, 9}}, 1, tiles, 4, 2, [3]uint32{16, 1, 1}, "gather1"},
		{copyCase{"channels of small images", []int64{500, 3, 64}, nil, []int64{3 * 64, 1, 3}}, 1, tiles, 5, 0, [3]uint32{1, 1, 500}, "gather1"},
		{copyCase{"channels with gaps between pixels", []int64{3, 4096}, nil, []int64{1, 4}}, 1, tiles, 6, 2, [3]uint32{4, 1, 1}, "gather1"},
		{copyCase{"more groups than are worthwhile", []int64{1 << 13, 1 << 13}, nil, []int64{1 << 14, 2}}, 4, plain, 8, 2, [3]uint32{16384, 1, 1}, "gather4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst, err := core.NewStridedLayout(c.shape, c.dst)
			if err != nil {
				t.Fatal(err)
			}
			src, err := core.NewStridedLayout(c.shape, c.src)
			if err != nil {
				t.Fatal(err)
			}
			l := c.limits
			l.StorageRange = 1 << 40
			plan := slices.Collect(gpucopy.Plan(copyplan.New(c.word, dst, src), l))
			if len(plan) != 1 {
				t.Fatalf("%d dispatches", len(plan))
			}
			d := plan[0]
			if k := d.Constants; k.Wide != c.wide || k.Along != c.along || d.Groups != c.groups || d.Shader.String() != c.shader {
				t.Errorf("%v, wide %d, along %d, groups %v; want %v, %d, %d, %v", d.Shader, k.Wide, k.Along, d.Groups, c.shader, c.wide, c.along, c.groups)
			}
		})
	}
}

// Lanes in shared memory are whole only where every one of them is aligned, on both sides.
func TestLanesAreWholeIfAligned(t *testing.T) {
	l := plain
	l.Tiles = true
	for _, c := range []struct {
		copyCase
		word, dstAt, srcAt int64
		whole              uint32
	}{
		{copyCase{"aligned", []int64{64, 64}, nil, []int64{1, 64}}, 1, 0, 4, 1},
		{copyCase{"an odd row", []int64{64, 63}, nil, []int64{1, 64}}, 1, 0, 0, 0},
		{copyCase{"an odd row of the source", []int64{64, 64}, nil, []int64{1, 65}}, 1, 0, 0, 0},
		{copyCase{"an odd plane", []int64{3, 64, 64}, nil, []int64{4097, 1, 64}}, 1, 0, 0, 0},
		{copyCase{"an odd start", []int64{64, 64}, nil, []int64{1, 64}}, 1, 2, 0, 0},
		{copyCase{"an odd start of the source", []int64{64, 64}, nil, []int64{1, 64}}, 1, 0, 3, 0},
		{copyCase{"words apart", []int64{64, 64}, nil, []int64{2, 256}}, 1, 0, 0, 0},
		{copyCase{"words of the destination apart", []int64{64, 64}, []int64{256, 2}, []int64{1, 64}}, 1, 0, 0, 0},
		{copyCase{"pairs", []int64{64, 64}, nil, []int64{1, 66}}, 2, 4, 0, 1},
		{copyCase{"pairs, an odd start", []int64{64, 64}, nil, []int64{1, 66}}, 2, 2, 0, 0},
		{copyCase{"channels first", []int64{3, 512}, nil, []int64{1, 3}}, 1, 0, 0, 1},
		{copyCase{"channels first, odd rows", []int64{3, 511}, nil, []int64{1, 3}}, 1, 0, 0, 0},
		{copyCase{"channels last", []int64{512, 3}, nil, []int64{1, 512}}, 1, 0, 0, 1},
		{copyCase{"channels last, odd rows", []int64{512, 3}, nil, []int64{1, 513}}, 1, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			dst, err := core.NewStridedLayout(c.shape, c.dst)
			if err != nil {
				t.Fatal(err)
			}
			src, err := core.NewStridedLayout(c.shape, c.src)
			if err != nil {
				t.Fatal(err)
			}
			g := copyplan.New(c.word, dst, src)
			g.Dst, g.Src = c.dstAt, c.srcAt
			for d := range gpucopy.Plan(g, l) {
				if !d.Shader.Tiled && !d.Shader.Channels || d.Constants.Whole != c.whole {
					t.Errorf("%v, whole %d, want %d", d.Shader, d.Constants.Whole, c.whole)
				}
			}
		})
	}
}

// A copy that is larger than what a device binds is cut, with every part within a window.
func TestCopiesBeyondTheStorageRangeAreCut(t *testing.T) {
	const n = 1 << 28 // bytes, of 2 bytes each in the source
	dst, err := core.NewLayout(n)
	if err != nil {
		t.Fatal(err)
	}
	src, err := core.NewStridedLayout([]int64{n}, []int64{-2})
	if err != nil {
		t.Fatal(err)
	}
	c := copyplan.New(1, dst, src)
	c.Src = 2*n - 2
	var words int64
	for d := range gpucopy.Plan(c, plain) {
		checkLimits(t, "reversed", d, plain, n, 2*n)
		words += int64(d.Constants.N[0])
	}
	if words != n {
		t.Errorf("%d words, want %d", words, int64(n))
	}
}

func TestConstantsFitPushConstants(t *testing.T) {
	if n := unsafe.Sizeof(gpucopy.Constants{}); n != 120 {
		t.Errorf("%d bytes, want 120: the least that Vulkan promises is 128", n)
	}
}

func ExamplePlan() {
	dst, _ := core.NewLayout(2048, 2048)
	src, _ := dst.Permute(1, 0)
	for d := range gpucopy.Plan(copyplan.New(4, dst, src), gpucopy.Limits{
		StorageRange: 1 << 27, OffsetAlignment: 16, Groups: [3]uint32{65535, 65535, 65535},
	}) {
		fmt.Println(d.Shader, d.Groups)
	}
	// Output: gather4 [64 64 1]
}
