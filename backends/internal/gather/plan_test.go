package gather_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/gather"
	"github.com/dlx-go/dlx/backends/internal/strided"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// plain are the limits of a usual device.
var plain = gather.Limits{StorageRange: 1 << 27, OffsetAlignment: 16, Groups: [3]uint32{65535, 65535, 65535}, Storage8: true, Storage16: true}

// variants change what a plan depends on, down to limits that no device has.
func variants(l gather.Limits) map[string]gather.Limits {
	tiled, packed, small := l, l, l
	tiled.Tiles = true
	packed.Storage8, packed.Storage16 = false, false
	small.StorageRange, small.OffsetAlignment, small.Groups = 4096, 256, [3]uint32{2, 3, 2}
	smallTiled := small
	smallTiled.Tiles, smallTiled.StorageRange = true, 1<<20
	smallPacked := small
	smallPacked.Storage8, smallPacked.Storage16 = false, false
	return map[string]gather.Limits{
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
	{"transpose, reversed", []int64{70, 90}, nil, []int64{-1, -70}},
	{"transpose between padded rows", []int64{70, 90}, []int64{101, 1}, []int64{1, 83}},
	{"batch of transposes", []int64{3, 33, 40}, nil, []int64{1320, 1, 33}},
	{"channels last to channels first", []int64{2, 3, 1001}, nil, []int64{3003, 1, 3}},
	{"channels first to channels last", []int64{2, 1001, 3}, nil, []int64{3003, 1, 1001}},
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
	{Code: core.CodeUInt, Bits: 8, Lanes: 3}, {Code: core.CodeFloat, Bits: 32, Lanes: 3},
}

// placed is a tensor in memory of the host, with room around it.
type placed struct {
	size int
	spec core.Spec
}

// place puts a layout into memory, at an offset that is no multiple of anything.
func place(t testing.TB, rng *rand.Rand, dtype core.DType, shape, strides []int64) placed {
	t.Helper()
	l, err := core.NewStridedLayout(shape, strides)
	if err != nil {
		t.Fatal(err)
	}
	low, high := l.Extent()
	elem, _ := dtype.ItemSize()
	offset := -low*elem + rng.Int64N(40)
	if rng.IntN(2) == 0 {
		offset = -low*elem + 16*rng.Int64N(40)
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
	run(t testing.TB, plan []gather.Dispatch)
}

// check plans one copy, has it carried out, and compares every byte of the destination
// with what the naive copy gives.
func check(t testing.TB, m machine, rng *rand.Rand, l gather.Limits, dtype core.DType, c copyCase) {
	t.Helper()
	dst, src := place(t, rng, dtype, c.shape, c.dst), place(t, rng, dtype, c.shape, c.src)
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
	geometry, err := strided.Of(x, y)
	if err != nil {
		t.Fatal(err)
	}
	plan := slices.Collect(gather.Plan(geometry, l))
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
func checkLimits(t testing.TB, about string, d gather.Dispatch, l gather.Limits, dst, src int) {
	t.Helper()
	for i, w := range []gather.Window{d.Dst, d.Src} {
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

func (h *host) run(_ testing.TB, plan []gather.Dispatch) {
	for _, d := range plan {
		to, from := h.dst[d.Dst.Offset:][:d.Dst.Size], h.src[d.Src.Offset:][:d.Src.Size]
		k, word := d.Constants, int(d.Shader.Word)
		for z := range k.Planes {
			at, of, rest := k.DstFirst, k.SrcFirst, z
			for i := 2; i < gather.MaxAxes; i++ {
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
func checkAll(t *testing.T, m machine, l gather.Limits, random int) {
	for name, l := range variants(l) {
		t.Run(name, func(t *testing.T) { checkCases(t, m, l, random) })
	}
}

// checkCases runs all cases on a machine, and a number of random ones.
func checkCases(t *testing.T, m machine, l gather.Limits, random int) {
	rng := rand.New(rand.NewPCG(61, 62))
	for _, dtype := range types {
		for _, c := range namedCases {
			check(t, m, rng, l, dtype, c)
		}
		for range random {
			check(t, m, rng, l, dtype, randomCase(rng))
		}
	}
}

func TestPlanMovesTheSameElements(t *testing.T) { checkAll(t, &host{}, plain, 40) }

func FuzzPlan(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint16(4096))
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8, reach uint16) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := plain
		l.StorageRange = 64 + int64(reach)
		l.Storage8, l.Tiles = kind&1 == 0, kind&2 == 0
		l.Groups = [3]uint32{1 + uint32(rng.IntN(4)), 1 + uint32(rng.IntN(4)), 1}
		check(t, &host{}, rng, l, types[int(kind)%len(types)], randomCase(rng))
	})
}

// The groups of a dispatch go where the words are.
func TestGroupsFitTheShape(t *testing.T) {
	tiles := plain
	tiles.Tiles = true
	for _, c := range []struct {
		copyCase
		limits gather.Limits
		wide   uint32
		groups [3]uint32
		tiled  bool
	}{
		{copyCase{"transpose", []int64{512, 512}, nil, []int64{1, 512}}, plain, 4, [3]uint32{32, 32, 1}, false},
		{copyCase{"transpose by tiles", []int64{512, 512}, nil, []int64{1, 512}}, tiles, 4, [3]uint32{16, 16, 1}, true},
		{copyCase{"every second word", []int64{4096}, nil, []int64{2}}, plain, 8, [3]uint32{16, 1, 1}, false},
		{copyCase{"short rows", []int64{100, 20}, nil, []int64{60, 2}}, plain, 5, [3]uint32{1, 13, 1}, false},
		{copyCase{"channels first to last", []int64{4096, 3}, nil, []int64{1, 4096}}, plain, 8, [3]uint32{16, 3, 1}, false},
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
			plan := slices.Collect(gather.Plan(strided.New(4, dst, src), c.limits))
			if len(plan) != 1 {
				t.Fatalf("%d dispatches", len(plan))
			}
			if d := plan[0]; d.Constants.Wide != c.wide || d.Groups != c.groups || d.Shader.Tiled != c.tiled {
				t.Errorf("wide %d, groups %v, tiled %v; want %d, %v, %v", d.Constants.Wide, d.Groups, d.Shader.Tiled, c.wide, c.groups, c.tiled)
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
	c := strided.New(1, dst, src)
	c.Src = 2*n - 2
	var words int64
	for d := range gather.Plan(c, plain) {
		checkLimits(t, "reversed", d, plain, n, 2*n)
		words += int64(d.Constants.N[0])
	}
	if words != n {
		t.Errorf("%d words, want %d", words, int64(n))
	}
}

func TestConstantsFitPushConstants(t *testing.T) {
	if n := unsafe.Sizeof(gather.Constants{}); n != 112 {
		t.Errorf("%d bytes, want 112: the least that Vulkan promises is 128", n)
	}
}

func ExamplePlan() {
	dst, _ := core.NewLayout(2048, 2048)
	src, _ := dst.Permute(1, 0)
	for d := range gather.Plan(strided.New(4, dst, src), gather.Limits{
		StorageRange: 1 << 27, OffsetAlignment: 16, Groups: [3]uint32{65535, 65535, 65535},
	}) {
		fmt.Println(d.Shader, d.Groups)
	}
	// Output: gather4 [128 128 1]
}
