package gpucopytest

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

// Variants change what a plan depends on, down to limits that no device has. Of variants that are equal, only the first is there.
func Variants(l gpucopy.Limits) map[string]gpucopy.Limits {
	tiled, packed, small := l, l, l
	tiled.Tiles = true
	packed.Storage8, packed.Storage16 = false, false
	small.StorageRange, small.OffsetAlignment, small.Groups = 4096, 256, [3]uint32{2, 3, 2}
	smallTiled := small
	smallTiled.Tiles, smallTiled.StorageRange = true, 1<<20
	smallPacked := small
	smallPacked.Storage8, smallPacked.Storage16 = false, false
	variants, seen := make(map[string]gpucopy.Limits), make(map[gpucopy.Limits]bool)
	for _, v := range []struct {
		name   string
		limits gpucopy.Limits
	}{
		{"plain", l}, {"tiled", tiled}, {"packed", packed},
		{"small", small}, {"small, tiled", smallTiled}, {"small, packed", smallPacked},
	} {
		if !seen[v.limits] {
			seen[v.limits], variants[v.name] = true, v.limits
		}
	}
	return variants
}

// Case is a copy by shape and strides in elements.
type Case struct {
	Name     string
	Shape    []int64
	Dst, Src []int64 // strides in elements; nil for contiguous ones
}

var namedCases = []Case{
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

// RandomCase returns a copy of up to 6 axes: permuted, with gaps, backwards, and repeated in the source.
func RandomCase(rng *rand.Rand) Case {
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
	return Case{"random", shape, strides(false), strides(true)}
}

// Types are element types with a word of every size, and sizes that are several.
var Types = []core.DType{
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

// Machine carries out dispatches on memory. Room gives it, for as long as a test runs.
type Machine interface {
	Room(t testing.TB, dst, src int) (to, from []byte)
	Run(t testing.TB, plan []gpucopy.Dispatch)
}

// Check plans one copy, has it carried out, and compares every byte of the destination
// with what the naive copy gives. If aligned is set, both tensors lie at multiples of 16.
func Check(t testing.TB, m Machine, rng *rand.Rand, l gpucopy.Limits, aligned bool, dtype core.DType, c Case) {
	t.Helper()
	dst, src := place(t, rng, aligned, dtype, c.Shape, c.Dst), place(t, rng, aligned, dtype, c.Shape, c.Src)
	to, from := m.Room(t, dst.size, src.size)
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
	about := fmt.Sprintf("%v of %v, shape %v: %v from %v", c.Name, dtype, c.Shape, c.Dst, c.Src)
	for _, d := range plan {
		if err := CheckLimits(d, l, len(to), len(from)); err != nil {
			t.Fatalf("%s: %v", about, err)
		}
	}
	m.Run(t, plan)
	if !bytes.Equal(to, want) {
		at := 0
		for to[at] == want[at] {
			at++
		}
		t.Fatalf("%s: byte %d is wrong\n%+v", about, at, plan)
	}
}

// CheckLimits returns why a device with these limits does not take the dispatch between buffers of dst and src bytes, or nil.
func CheckLimits(d gpucopy.Dispatch, l gpucopy.Limits, dst, src int) error {
	for i, w := range []gpucopy.Window{d.Dst, d.Src} {
		end := int64([]int{dst, src}[i])
		if w.Offset < 0 || w.Offset%l.OffsetAlignment != 0 || w.Size <= 0 || w.Size > l.StorageRange || w.Offset+w.Size > end {
			return fmt.Errorf("window %+v of %d bytes", w, end)
		}
	}
	for i, n := range d.Groups {
		if n == 0 || n > l.Groups[i] {
			return fmt.Errorf("groups %v", d.Groups)
		}
	}
	s := d.Shader
	shared := s.Tiled || s.Channels
	switch {
	case s.Packed != (s.Word == 1 && !l.Storage8 || s.Word == 2 && !l.Storage16):
		return fmt.Errorf("shader %v, with storage of 8 bits %v, of 16 bits %v", s, l.Storage8, l.Storage16)
	case shared && !l.Tiles, shared && s.Packed && !l.PackedTiles:
		return fmt.Errorf("shader %v, with tiles %v, packed tiles %v", s, l.Tiles, l.PackedTiles)
	case s.SPIRV() == nil && (!l.PackedTiles || s.WGSL() == ""): // only WebGPU has packed tiles
		return fmt.Errorf("shader %v has no text", s)
	}
	return nil
}

// CheckAll runs all cases on a machine with each variant of its limits.
func CheckAll(t *testing.T, m Machine, l gpucopy.Limits, random int) {
	for name, l := range Variants(l) {
		t.Run(name, func(t *testing.T) { CheckCases(t, m, l, random) })
	}
}

// CheckCases runs all cases on a machine, and a number of random ones. A quick test has each case with some of the types.
func CheckCases(t *testing.T, m Machine, l gpucopy.Limits, random int) {
	every := 1
	if coretest.Quick() {
		every, random = 4, random/4
	}
	CheckEvery(t, m, l, every, random)
}

// CheckEvery runs each case with one of so many types.
func CheckEvery(t *testing.T, m Machine, l gpucopy.Limits, every, random int) {
	rng := rand.New(rand.NewPCG(61, 62))
	for i, dtype := range Types {
		for k, c := range namedCases {
			if (i+k)/2%every != 0 {
				continue
			}
			Check(t, m, rng, l, (i+k)%2 == 0, dtype, c)
		}
		for k := range random {
			Check(t, m, rng, l, k%2 == 0, dtype, RandomCase(rng))
		}
	}
}
