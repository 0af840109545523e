package gpucopy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// plain are the limits of a usual device.
var plain = gpucopy.Limits{StorageRange: 1 << 27, OffsetAlignment: 16, Groups: [3]uint32{65535, 65535, 65535}, Storage8: true, Storage16: true}

// host does what the shader does with its constants, in a simpler order.
type host struct{ dst, src []byte }

func (h *host) Room(_ testing.TB, dst, src int) (to, from []byte) {
	h.dst, h.src = make([]byte, dst), make([]byte, src)
	return h.dst, h.src
}

func (h *host) Run(_ testing.TB, plan []gpucopy.Dispatch) {
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

func TestPlanMovesTheSameElements(t *testing.T) { gpucopytest.CheckAll(t, &host{}, plain, 40) }

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

func (w *ways) Run(t testing.TB, plan []gpucopy.Dispatch) {
	w.host.Run(t, plan)
	for _, d := range plan {
		k, s := &d.Constants, d.Shader
		w.taken[way{s, s.Word < 4 && k.Whole != 0, s.Channels && k.DstStep[0] == 1}] = true
	}
}

// packedTiles are the variants that only WGSL has.
var packedTiles = []gpucopy.Shader{
	{Word: 1, Packed: true, Tiled: true}, {Word: 2, Packed: true, Tiled: true},
	{Word: 1, Packed: true, Channels: true}, {Word: 2, Packed: true, Channels: true},
}

// The cases that every machine runs take all ways through the kernels.
func TestCasesTakeEveryWay(t *testing.T) {
	coretest.SkipQuick(t, "quick tests run a quarter of the cases")
	w := &ways{taken: make(map[way]bool)}
	for _, l := range []gpucopy.Limits{plain, gpucopy.WebGPULimits(1<<27, 256, 65535)} {
		for _, l := range gpucopytest.Variants(l) {
			gpucopytest.CheckEvery(t, w, l, 1, 10)
		}
	}
	for _, s := range slices.Concat(gpucopy.Shaders(), packedTiles) {
		shared := s.Tiled || s.Channels
		for _, whole := range []bool{false, true} {
			for _, rows := range []bool{false, true} {
				possible := (!whole || s.Word < 4 && shared) && (whole || !shared || !s.Packed) && (!rows || s.Channels)
				if taken := w.taken[way{s, whole, rows}]; taken != possible {
					t.Errorf("%v, whole lanes %v, to rows %v: taken %v, possible %v", s, whole, rows, taken, possible)
				}
			}
		}
	}
}

// The check of dispatches refuses shaders that the device lacks.
func TestCheckLimitsRefusesShadersThatAreNotThere(t *testing.T) {
	packed := plain
	packed.Storage8, packed.Storage16, packed.Tiles = false, false, true
	webGPU := gpucopy.WebGPULimits(1<<27, 16, 65535)
	webGPU.Tiles = true
	untiled := webGPU
	untiled.Tiles = false
	for _, c := range []struct {
		shader gpucopy.Shader
		limits gpucopy.Limits
		taken  bool
	}{
		{gpucopy.Shader{Word: 4}, plain, true},
		{gpucopy.Shader{Word: 1}, plain, true},
		{gpucopy.Shader{Word: 1}, packed, false},
		{gpucopy.Shader{Word: 1, Packed: true}, plain, false},
		{gpucopy.Shader{Word: 4, Tiled: true}, plain, false},
		{gpucopy.Shader{Word: 4, Tiled: true}, packed, true},
		{gpucopy.Shader{Word: 3}, plain, false},
		{gpucopy.Shader{Word: 1, Packed: true, Tiled: true}, packed, false}, // only WGSL has a text for it
		{gpucopy.Shader{Word: 2, Packed: true, Channels: true}, packed, false},
		{gpucopy.Shader{Word: 1, Packed: true, Tiled: true}, webGPU, true},
		{gpucopy.Shader{Word: 2, Packed: true, Channels: true}, webGPU, true},
		{gpucopy.Shader{Word: 2, Packed: true, Channels: true}, untiled, false},
		{gpucopy.Shader{Word: 16, Tiled: true}, webGPU, false},
	} {
		w := gpucopy.Window{Size: 64}
		d := gpucopy.Dispatch{Shader: c.shader, Dst: w, Src: w, Groups: [3]uint32{1, 1, 1}}
		if err := gpucopytest.CheckLimits(d, c.limits, 64, 64); (err == nil) != c.taken {
			t.Errorf("%v with %+v: error %v, taken must be %v", c.shader, c.limits, err, c.taken)
		}
	}
}

// No variant is there twice.
func TestVariantsDiffer(t *testing.T) {
	for _, c := range []struct {
		limits gpucopy.Limits
		want   int
	}{{plain, 6}, {gpucopy.WebGPULimits(1<<27, 256, 65535), 4}} {
		seen := make(map[gpucopy.Limits]string)
		for name, l := range gpucopytest.Variants(c.limits) {
			if other, ok := seen[l]; ok {
				t.Errorf("%q equals %q", name, other)
			}
			seen[l] = name
		}
		if len(seen) != c.want {
			t.Errorf("%d variants of %+v, want %d: %v", len(seen), c.limits, c.want, seen)
		}
	}
}

// WebGPU has a text for each variant that its limits lead to, and for no other.
func TestWGSLIsThereForEveryShaderOfWebGPU(t *testing.T) {
	for _, s := range slices.Concat(gpucopy.Shaders(), packedTiles) {
		if has, wants := s.WGSL() != "", s.Packed == (s.Word < 4); has != wants {
			t.Errorf("%v: has a text %v, want %v", s, has, wants)
		}
	}
	for _, s := range []gpucopy.Shader{{}, {Word: 3}, {Word: 16, Tiled: true}, {Word: 16, Channels: true}, {Word: 4, Packed: true}, {Word: 4, Tiled: true, Channels: true}} {
		if s.WGSL() != "" {
			t.Errorf("%v has a text", s)
		}
	}
}

func FuzzPlan(f *testing.F) {
	f.Add(uint64(1), uint8(0), uint16(4096))
	f.Fuzz(func(t *testing.T, seed uint64, kind uint8, reach uint16) {
		rng := rand.New(rand.NewPCG(seed, 0))
		l := plain
		l.StorageRange = 64 + int64(reach)
		l.Storage8, l.Tiles, l.PackedTiles = kind&1 == 0, kind&2 == 0, kind&4 != 0
		l.Groups = [3]uint32{1 + uint32(rng.IntN(4)), 1 + uint32(rng.IntN(4)), 1}
		gpucopytest.Check(t, &host{}, rng, l, rng.IntN(2) == 0, gpucopytest.Types[int(kind)%len(gpucopytest.Types)], gpucopytest.RandomCase(rng))
	})
}

// The groups of a dispatch go where the words are.
func TestGroupsFitTheShape(t *testing.T) {
	tiles := plain
	tiles.Tiles = true
	for _, c := range []struct {
		gpucopytest.Case
		word        int64
		limits      gpucopy.Limits
		wide, along uint32
		groups      [3]uint32
		shader      string
	}{
		{gpucopytest.Case{Name: "transpose", Shape: []int64{512, 512}, Src: []int64{1, 512}}, 4, plain, 4, 1, [3]uint32{16, 16, 1}, "gather4"},
		{gpucopytest.Case{Name: "transpose by tiles", Shape: []int64{512, 512}, Src: []int64{1, 512}}, 4, tiles, 0, 0, [3]uint32{8, 16, 1}, "gather4_tiled"},
		{gpucopytest.Case{Name: "transpose of bytes by tiles", Shape: []int64{512, 512}, Src: []int64{1, 512}}, 1, tiles, 0, 0, [3]uint32{8, 4, 1}, "gather1_tiled"},
		{gpucopytest.Case{Name: "every second word", Shape: []int64{4096}, Src: []int64{2}}, 4, plain, 8, 2, [3]uint32{4, 1, 1}, "gather4"},
		{gpucopytest.Case{Name: "every second byte", Shape: []int64{8192}, Src: []int64{2}}, 1, plain, 8, 2, [3]uint32{2, 1, 1}, "gather1"},
		{gpucopytest.Case{Name: "short rows", Shape: []int64{100, 20}, Src: []int64{60, 2}}, 4, plain, 5, 0, [3]uint32{1, 4, 1}, "gather4"},
		{gpucopytest.Case{Name: "short rows of bytes", Shape: []int64{100, 20}, Src: []int64{60, 2}}, 1, plain, 3, 0, [3]uint32{1, 1, 1}, "gather1"},
		{gpucopytest.Case{Name: "rows a little longer than a group", Shape: []int64{100, 257}, Src: []int64{600, 2}}, 4, plain, 8, 0, [3]uint32{2, 25, 1}, "gather4"},
		{gpucopytest.Case{Name: "a row a little longer than a group", Shape: []int64{257}, Src: []int64{2}}, 4, plain, 8, 1, [3]uint32{1, 1, 1}, "gather4"},
		{gpucopytest.Case{Name: "channels first to last", Shape: []int64{4096, 3}, Src: []int64{1, 4096}}, 4, plain, 8, 2, [3]uint32{4, 3, 1}, "gather4"},
		{gpucopytest.Case{Name: "channels first to last by spans", Shape: []int64{4096, 3}, Src: []int64{1, 4096}}, 4, tiles, 9, 0, [3]uint32{8, 1, 1}, "gather4_channels"},
		{gpucopytest.Case{Name: "channels of bytes last to first", Shape: []int64{5, 3, 4096}, Src: []int64{3 * 4096, 1, 3}}, 1, tiles, 9, 0, [3]uint32{2, 1, 5}, "gather1_channels"},
		{gpucopytest.Case{Name: "nine channels", Shape: []int64{9, 4096}, Src: []int64{1, 9}}, 1, tiles, 4, 2, [3]uint32{16, 1, 1}, "gather1"},
		{gpucopytest.Case{Name: "channels of small images", Shape: []int64{500, 3, 64}, Src: []int64{3 * 64, 1, 3}}, 1, tiles, 5, 0, [3]uint32{1, 1, 500}, "gather1"},
		{gpucopytest.Case{Name: "channels with gaps between pixels", Shape: []int64{3, 4096}, Src: []int64{1, 4}}, 1, tiles, 6, 2, [3]uint32{4, 1, 1}, "gather1"},
		{gpucopytest.Case{Name: "more groups than are worthwhile", Shape: []int64{1 << 13, 1 << 13}, Src: []int64{1 << 14, 2}}, 4, plain, 8, 2, [3]uint32{16384, 1, 1}, "gather4"},
	} {
		t.Run(c.Name, func(t *testing.T) {
			dst, err := core.NewStridedLayout(c.Shape, c.Dst)
			if err != nil {
				t.Fatal(err)
			}
			src, err := core.NewStridedLayout(c.Shape, c.Src)
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
		gpucopytest.Case
		word, dstAt, srcAt int64
		whole              uint32
	}{
		{gpucopytest.Case{Name: "aligned", Shape: []int64{64, 64}, Src: []int64{1, 64}}, 1, 0, 4, 1},
		{gpucopytest.Case{Name: "an odd row", Shape: []int64{64, 63}, Src: []int64{1, 64}}, 1, 0, 0, 0},
		{gpucopytest.Case{Name: "an odd row of the source", Shape: []int64{64, 64}, Src: []int64{1, 65}}, 1, 0, 0, 0},
		{gpucopytest.Case{Name: "an odd plane", Shape: []int64{3, 64, 64}, Src: []int64{4097, 1, 64}}, 1, 0, 0, 0},
		{gpucopytest.Case{Name: "an odd start", Shape: []int64{64, 64}, Src: []int64{1, 64}}, 1, 2, 0, 0},
		{gpucopytest.Case{Name: "an odd start of the source", Shape: []int64{64, 64}, Src: []int64{1, 64}}, 1, 0, 3, 0},
		{gpucopytest.Case{Name: "words apart", Shape: []int64{64, 64}, Src: []int64{2, 256}}, 1, 0, 0, 0},
		{gpucopytest.Case{Name: "words of the destination apart", Shape: []int64{64, 64}, Dst: []int64{256, 2}, Src: []int64{1, 64}}, 1, 0, 0, 0},
		{gpucopytest.Case{Name: "pairs", Shape: []int64{64, 64}, Src: []int64{1, 66}}, 2, 4, 0, 1},
		{gpucopytest.Case{Name: "pairs, an odd start", Shape: []int64{64, 64}, Src: []int64{1, 66}}, 2, 2, 0, 0},
		{gpucopytest.Case{Name: "channels first", Shape: []int64{3, 512}, Src: []int64{1, 3}}, 1, 0, 0, 1},
		{gpucopytest.Case{Name: "channels first, odd rows", Shape: []int64{3, 511}, Src: []int64{1, 3}}, 1, 0, 0, 0},
		{gpucopytest.Case{Name: "channels last", Shape: []int64{512, 3}, Src: []int64{1, 512}}, 1, 0, 0, 1},
		{gpucopytest.Case{Name: "channels last, odd rows", Shape: []int64{512, 3}, Src: []int64{1, 513}}, 1, 0, 0, 0},
	} {
		t.Run(c.Name, func(t *testing.T) {
			dst, err := core.NewStridedLayout(c.Shape, c.Dst)
			if err != nil {
				t.Fatal(err)
			}
			src, err := core.NewStridedLayout(c.Shape, c.Src)
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
		if err := gpucopytest.CheckLimits(d, plain, n, 2*n); err != nil {
			t.Fatal(err)
		}
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
