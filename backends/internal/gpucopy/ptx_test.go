//go:build cuda && linux && cgo

package gpucopy_test

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/testing/gpusim/ptx"
)

// cudaTool gives the path of a part of NVIDIA's wheels, which are missing only where
// that was said.
func cudaTool(t *testing.T, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{os.Getenv("DLX_CUDA_TOOLS")}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		coretest.NeedDriver(t, err.Error(), "requirements.txt and let DLX_CUDA_TOOLS be its folder nvidia, as make does")
	}
	return path
}

// The PTX is what the source compiles to.
func TestPTXIsMadeOfItsSource(t *testing.T) {
	coretest.SkipQuick(t, "make test-go compares the committed code with its source, and compiles it for all cards")
	cudaTool(t, "cuda_nvrtc", "lib", "libnvrtc.so.12")
	folder := t.TempDir()
	if out, err := exec.Command("go", "run", "generate_ptx.go", filepath.Join(folder, "gather.ptx.gz")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.Open(filepath.Join(folder, "gather.ptx.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	made, err := io.ReadAll(r) // compressed bytes may differ between versions of Go
	if err != nil {
		t.Fatal(err)
	}
	compiler := func(text string) string {
		header, _, _ := strings.Cut(text, ".version")
		return header
	}
	if compiler(string(made)) != compiler(gpucopy.PTX()) {
		t.Logf("the text was not compared: another NVRTC made it, %s", compiler(string(made)))
	} else if string(made) != gpucopy.PTX() {
		t.Error("gather.ptx.gz is not what its source compiles to: run go generate")
	}
}

// Every card since Maxwell runs the kernels, and keeps what they hold in registers.
func TestPTXIsAssembledForEveryCard(t *testing.T) {
	coretest.SkipQuick(t, "make test-go compares the committed code with its source, and compiles it for all cards")
	ptxas := cudaTool(t, "cuda_nvcc", "bin", "ptxas")
	text := filepath.Join(t.TempDir(), "gather.ptx")
	if err := os.WriteFile(text, []byte(gpucopy.PTX()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, card := range []string{"sm_50", "sm_60", "sm_70", "sm_80", "sm_90"} {
		t.Run(card, func(t *testing.T) {
			out, err := exec.Command(ptxas, "-v", "-arch="+card, "-o", filepath.Join(t.TempDir(), "cubin"), text).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			kept := strings.Count(string(out), "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads")
			if kernels := strings.Count(gpucopy.PTX(), ".entry "); kept != kernels {
				t.Errorf("%d of %d kernels need no stack:\n%s", kept, kernels, out)
			}
		})
	}
}

// assembler is the ptxas that the cubins were made with. Another one may make others.
const assembler = "V12.4.131"

// The cubins are what the PTX is assembled to.
func TestCubinsAreMadeOfThePTX(t *testing.T) {
	coretest.SkipQuick(t, "make test-go compares the committed code with its source, and compiles it for all cards")
	ptxas := cudaTool(t, "cuda_nvcc", "bin", "ptxas")
	version, err := exec.Command(ptxas, "--version").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, version)
	}
	folder := t.TempDir()
	if out, err := exec.Command("go", "run", "generate_cubin.go", folder).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, c := range gpucopy.Cubins() {
		made, err := os.ReadFile(filepath.Join(folder, c.Name()+".cubin"))
		switch {
		case err != nil:
			t.Error(err)
		case !strings.Contains(string(version), assembler):
			t.Logf("%s was not compared: another ptxas made it than\n%s", c.Name(), version)
		case string(made) != c.Image:
			t.Errorf("%s is not what the PTX is assembled to: run go generate", c.Name())
		}
	}
}

// A cubin is code for the cards that it says, and has every kernel of the PTX.
func TestCubinsHaveEveryKernel(t *testing.T) {
	const cuda = 190 // EM_CUDA
	for _, c := range gpucopy.Cubins() {
		image := []byte(c.Image)
		image[20] = byte(elf.EV_CURRENT) // e_version, where CUDA has a version of its own
		f, err := elf.NewFile(bytes.NewReader(image))
		if err != nil {
			t.Fatal(err)
		}
		// elf does not keep e_flags, whose lowest byte is the architecture.
		flags := binary.LittleEndian.Uint32(image[48:])
		if want := c.Major*10 + c.Minor; f.Machine != cuda || int(flags&0xff) != want {
			t.Errorf("%s is for machine %d, sm_%d, not sm_%d", c.Name(), f.Machine, flags&0xff, want)
		}
		if f.Section(".text."+gpuconvert.Kernel) == nil {
			t.Errorf("%s has no kernel %s", c.Name(), gpuconvert.Kernel)
		}
		for _, s := range gpucopy.Shaders() {
			if !s.Packed && f.Section(".text."+s.String()) == nil {
				t.Errorf("%s has no kernel %v", c.Name(), s)
			}
		}
	}
}

// A cubin runs on cards of the same major version that are not older ("Binary Compatibility").
func TestCardsGetMachineCodeThatTheyRun(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		integrated   bool
		want         string // the file, "" for PTX only
	}{
		{5, 0, false, ""}, {7, 0, false, ""}, {7, 5, false, "gather_sm75"}, {8, 0, false, "gather_sm80"},
		{8, 6, false, "gather_sm80"}, {8, 9, false, "gather_sm80"}, {8, 7, true, ""}, {9, 0, false, "gather_sm90"},
		{10, 0, false, ""}, {12, 0, false, ""},
	} {
		images := gpucopy.CUDAImages(c.major, c.minor, c.integrated)
		got := ""
		for _, x := range gpucopy.Cubins() {
			if images[0] == x.Image {
				got = x.Name()
			}
		}
		if got != c.want || images[len(images)-1] != gpucopy.PTX() {
			t.Errorf("%d.%d, integrated %v: %q first of %d images, want %q and the PTX last", c.major, c.minor, c.integrated, got, len(images), c.want)
		}
	}
}

// The entries are the shaders that a plan may ask for with CUDA's limits.
func TestPTXHasEveryShader(t *testing.T) {
	m := load(t, gpucopy.PTX())
	for _, s := range gpucopy.Shaders() {
		f, err := m.Function(s.String())
		if s.Packed {
			if err == nil {
				t.Errorf("%v: CUDA needs no packed words", s)
			}
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		if got := f.ParamSizes(); len(got) != 3 || got[0] != 8 || got[1] != 8 || got[2] != binary.Size(gpucopy.Constants{}) {
			t.Errorf("%v: parameters of %v bytes", s, got)
		}
		if f.MaxThreads() != gpucopy.GroupSize {
			t.Errorf("%v: blocks of %d threads, not %d", s, f.MaxThreads(), gpucopy.GroupSize)
		}
	}
}

func load(t testing.TB, text string) *ptx.Module {
	t.Helper()
	m, err := ptx.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// cuda carries dispatches out by the interpreter, in memory at addresses of its own.
type cuda struct {
	module   *ptx.Module
	dst, src ptx.Memory
	traced   bool
	accesses []ptx.Access
}

func (c *cuda) Room(_ testing.TB, dst, src int) (to, from []byte) {
	c.dst = ptx.Memory{Address: 0x7_0000_0000, Bytes: make([]byte, dst)}
	c.src = ptx.Memory{Address: 0x9_0000_0000, Bytes: make([]byte, src), ReadOnly: true}
	return c.dst.Bytes, c.src.Bytes
}

func (c *cuda) Run(t testing.TB, plan []gpucopy.Dispatch) {
	t.Helper()
	for _, d := range plan {
		if err := c.launch(d); err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
	}
}

// launch gives the kernel no more memory than the windows of the dispatch.
func (c *cuda) launch(d gpucopy.Dispatch) error {
	f, err := c.module.Function(d.Shader.String())
	if err != nil {
		return err
	}
	window := func(m ptx.Memory, w gpucopy.Window) ptx.Memory {
		return ptx.Memory{Address: m.Address + uint64(w.Offset), Bytes: m.Bytes[w.Offset:][:w.Size], ReadOnly: m.ReadOnly}
	}
	dst, src := window(c.dst, d.Dst), window(c.src, d.Src)
	var constants bytes.Buffer
	if err := binary.Write(&constants, binary.LittleEndian, d.Constants); err != nil {
		return err
	}
	params := [][]byte{binary.LittleEndian.AppendUint64(nil, dst.Address), binary.LittleEndian.AppendUint64(nil, src.Address), constants.Bytes()}
	block, memory := [3]uint32{gpucopy.GroupSize, 1, 1}, []ptx.Memory{dst, src}
	if !c.traced {
		return f.Run(d.Groups, block, memory, params...)
	}
	accesses, err := f.Trace(d.Groups, block, memory, params...)
	c.accesses = append(c.accesses, accesses...)
	return err
}

// Every kernel, as the text that a card's driver would compile.
func TestPTXMovesTheSameElements(t *testing.T) {
	c := &cuda{module: load(t, gpucopy.PTX())}
	untiled := gpucopy.CUDALimits()
	untiled.Tiles = false
	for name, l := range gpucopytest.Variants(untiled) {
		if !l.Storage8 {
			continue // CUDA stores words of any size
		}
		t.Run(name, func(t *testing.T) { gpucopytest.CheckCases(t, c, l, 10) })
	}
}

// A layout that dlx bench measures costs at most 12 transactions of the L1 cache and of shared memory for 128 bytes of
// elements. An H200 has 12 cycles for them when it copies at the speed of its memory: see counts.md.
func TestTransactionsOfTheBenchmark(t *testing.T) {
	c := &cuda{module: load(t, gpucopy.PTX()), traced: true}
	for _, l := range []gpucopytest.Case{
		{Name: "transpose", Shape: []int64{256, 128}, Src: []int64{1, 256}},
		{Name: "channels last to channels first", Shape: []int64{3, 4096}, Src: []int64{1, 3}},
		{Name: "channels first to channels last", Shape: []int64{4096, 3}, Src: []int64{1, 4096}},
		{Name: "every second column", Shape: []int64{64, 1024}, Src: []int64{2048, 2}},
	} {
		for _, dtype := range gpucopytest.Types[:5] {
			dst, err := core.NewStridedLayout(l.Shape, l.Dst)
			if err != nil {
				t.Fatal(err)
			}
			src, err := core.NewStridedLayout(l.Shape, l.Src)
			if err != nil {
				t.Fatal(err)
			}
			elem, _ := dtype.ItemSize()
			g := copyplan.New(elem, dst, src)
			r := g.Range()
			c.Room(t, int(r.DstHigh), int(r.SrcHigh))
			c.accesses = nil
			c.Run(t, slices.Collect(gpucopy.Plan(g, gpucopy.CUDALimits())))
			global, shared := ptx.Transactions(c.accesses)
			if most := 12 * g.Size() / 128; int64(global+shared) > most {
				t.Errorf("%s of %v: %d and %d transactions, of at most %d", l.Name, dtype, global, shared, most)
			}
		}
	}
}

// A barrier that is missing shows: the tests above would find it.
func TestPTXWithoutBarriersMovesOthers(t *testing.T) {
	text := strings.ReplaceAll(gpucopy.PTX(), "bar.sync \t0;", "")
	if text == gpucopy.PTX() {
		t.Fatal("no kernel has a barrier")
	}
	right, wrong := &cuda{module: load(t, gpucopy.PTX())}, &cuda{module: load(t, text)}
	d := gpucopy.Dispatch{
		Shader: gpucopy.Shader{Word: 4, Tiled: true}, Dst: gpucopy.Window{Size: 4096}, Src: gpucopy.Window{Size: 4096},
		Constants: gpucopy.Constants{
			Planes: 1, N: [8]uint32{32, 32, 1, 1, 1, 1, 1, 1}, DstStep: [8]int32{1, 32}, SrcStep: [8]int32{32, 1},
		},
		Groups: [3]uint32{1, 1, 1},
	}
	for _, c := range []*cuda{right, wrong} {
		_, from := c.Room(t, 4096, 4096)
		for i := range from {
			from[i] = byte(i * i >> 4)
		}
		c.Run(t, []gpucopy.Dispatch{d})
	}
	if bytes.Equal(right.dst.Bytes, wrong.dst.Bytes) {
		t.Error("the same elements without a barrier")
	}
}

// A dispatch that leaves its windows is found, so that one that passes does not.
func TestPTXKeepsToItsWindows(t *testing.T) {
	c := &cuda{module: load(t, gpucopy.PTX())}
	c.Room(t, 64, 64)
	d := gpucopy.Dispatch{
		Shader: gpucopy.Shader{Word: 1}, Dst: gpucopy.Window{Size: 64}, Src: gpucopy.Window{Size: 63},
		Constants: gpucopy.Constants{Planes: 1, Wide: 8, N: [8]uint32{64, 1, 1, 1, 1, 1, 1, 1}, DstStep: [8]int32{1}, SrcStep: [8]int32{1}},
		Groups:    [3]uint32{1, 1, 1},
	}
	if err := c.launch(d); !errors.Is(err, ptx.ErrBadAccess) {
		t.Errorf("%v, want a bad access", err)
	}
}
