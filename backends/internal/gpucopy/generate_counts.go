//go:build ignore

// Command generate_counts writes counts.md into the folder that it is given: what the machine code of the kernels does
// with memory, and what that lets expect on a card.
package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/machinecode"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/testing/gpusim/ptx"
)

// What an H200 has. The latency and the clock are assumptions; the others are in NVIDIA's data sheet, and in "Compute
// Capabilities" of the CUDA C++ Programming Guide.
const (
	bandwidth    = 4.8e12 // bytes/s
	processors   = 132
	latency      = 700e-9  // s, of a load from memory that is busy
	clock        = 1.755e9 // Hz
	threads      = 2048    // of a multiprocessor
	registers    = 64 << 10
	shared       = 228 << 10
	speed        = bandwidth / 2 / processors // of a plain copy, for a multiprocessor: half of the traffic is loads
	needed       = speed * latency
	cycles       = 128 / (speed / clock)
	estimatedFor = "gather_sm90"
)

// layouts are those that dlx bench measures on devices, and NCHW to NHWC: the shape and the strides of the source, in
// elements. The sample is a part, for counting transactions.
var layouts = []struct {
	name            string
	shape, strides  []int64
	sample, between []int64
	most            float64 // of the speed of a plain copy, by the bytes that must be read and written
}{
	{"transpose", []int64{4096, 4096}, []int64{1, 4096}, []int64{256, 128}, []int64{1, 256}, 1},
	{"nhwc-nchw", []int64{32, 3, 224, 224}, []int64{224 * 224 * 3, 1, 224 * 3, 3}, []int64{3, 4096}, []int64{1, 3}, 1},
	{"nchw-nhwc", []int64{32, 224, 224, 3}, []int64{224 * 224 * 3, 224, 1, 224 * 224}, []int64{4096, 3}, []int64{1, 4096}, 1},
	{"second-column", []int64{4096, 2048}, []int64{4096, 2}, []int64{64, 1024}, []int64{2048, 2}, 2.0 / 3},
}

func main() {
	if len(os.Args) != 2 {
		fail("usage: generate_counts folder")
	}
	var b strings.Builder
	b.WriteString("# What the kernels do, by their machine code\n\n" +
		"Written by generate_counts.go. \"In flight\" is how many loads a thread has started before it waits for one of them,\n" +
		"where these are the most bytes.\n\n" +
		"| kernel | code for | instructions | registers | shared bytes | barriers | loads in flight | widest store |\n|---|---|---|---|---|---|---|---|\n")
	estimated := make(map[string]machinecode.Kernel)
	for _, c := range gpucopy.Cubins() {
		kernels, err := machinecode.Count(c.Image)
		if err != nil {
			fail(err.Error())
		}
		for _, k := range kernels {
			write(&b, k, fmt.Sprintf("sm_%d%d", c.Major, c.Minor))
			if c.Name() == estimatedFor {
				estimated[k.Name] = k
			}
		}
	}
	b.WriteString("\n## Code objects for HIP\n\n" +
		"Counted in what LLVM's disassembler says of them. Registers are vector registers.\n\n" +
		"| kernel | code for | instructions | registers | shared bytes | barriers | loads in flight | widest store |\n|---|---|---|---|---|---|---|---|\n")
	for _, c := range gpucopy.CodeObjects() {
		//nolint:gosec // a file of this folder
		text, err := exec.Command("llvm-objdump-15", "-d", c.Name()+".co").Output()
		if err != nil {
			fail(fmt.Sprintf("llvm-objdump-15 of %s: %v", c.Name(), err))
		}
		kernels, err := machinecode.CountAMD(c.Image, string(text))
		if err != nil {
			fail(err.Error())
		}
		for _, k := range kernels {
			write(&b, k, c.Arch)
		}
	}
	fmt.Fprintf(&b, "\n## An estimate\n\n"+
		"No card has measured this. The estimate is for an H200: %d multiprocessors, %.1f TB/s. A load is assumed to take %.0f ns, and\n"+
		"the clock to be %.3f GHz. It is the least of these, and an upper bound: instructions are no part of it.\n\n"+
		"- Loads. To copy at full speed, a multiprocessor must have %.0f bytes of loads in flight: half the bandwidth, since the\n"+
		"  other half of the traffic is stores, times the latency. (As if loads alone had to fill the bandwidth, it would be\n"+
		"  twice as much.) It has those of as many threads as its registers and its shared memory allow, and half of them\n"+
		"  if the kernel has barriers, since a block does not load while it stores.\n"+
		"- Transactions. At full speed there are %.1f cycles for 128 bytes of elements. Each line of 128 bytes that a warp touches\n"+
		"  in global memory takes one, and each access to the banks of shared memory. They were counted by running the PTX.\n"+
		"- Bytes. Every second column reads whole sectors and uses half of each: 3 bytes of traffic for 2 of a plain copy.\n\n"+
		"| layout | bytes of an element | kernel | threads | bytes in flight | transactions | of the speed of a plain copy, at most |\n|---|---|---|---|---|---|---|\n",
		processors, bandwidth/1e12, latency*1e9, clock/1e9, needed, cycles)
	module, err := ptx.Load(gpucopy.PTX())
	if err != nil {
		fail(err.Error())
	}
	defer module.Close()
	for _, l := range layouts {
		for _, size := range []int64{1, 2, 4, 8, 16} {
			d := plan(geometry(l.shape, l.strides, size))[0]
			k := estimated[d.Shader.String()]
			running := residents(k)
			flying := running * k.InFlight()
			if k.Barriers > 0 {
				flying /= 2
			}
			if d.Shader.Channels { // of all loads, only those for a channel
				flying = flying * int(d.Constants.N[1]) << d.Constants.Wide / (k.Loads * gpucopy.GroupSize)
			}
			transactions := transactions(module, geometry(l.sample, l.between, size))
			estimate := min(l.most, float64(flying)/needed, cycles/transactions)
			fmt.Fprintf(&b, "| %s | %d | %s | %d | %d | %.1f | %.2f |\n", l.name, size, k.Name, running, flying, transactions, estimate)
		}
	}
	if err := os.WriteFile(filepath.Join(os.Args[1], "counts.md"), []byte(b.String()), 0o644); err != nil {
		fail(err.Error())
	}
}

// write writes the line of a kernel.
func write(b *strings.Builder, k machinecode.Kernel, card string) {
	fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %d | %d of %d bytes | %d bytes |\n",
		k.Name, card, k.Instructions, k.Registers, k.Shared, k.Barriers, k.Loads, k.LoadBytes, k.StoreBytes)
}

// geometry is the copy of such a layout into a row.
func geometry(shape, strides []int64, size int64) copyplan.Copy {
	dst, err := core.NewLayout(shape...)
	if err != nil {
		fail(err.Error())
	}
	src, err := core.NewStridedLayout(shape, strides)
	if err != nil {
		fail(err.Error())
	}
	return copyplan.New(size, dst, src)
}

func plan(c copyplan.Copy) []gpucopy.Dispatch {
	return slices.Collect(gpucopy.Plan(c, gpucopy.CUDALimits()))
}

// transactions returns how many transactions a copy costs for 128 bytes of elements.
func transactions(module *ptx.Module, c copyplan.Copy) float64 {
	r := c.Range()
	dst := ptx.Memory{Address: 1 << 32, Bytes: make([]byte, r.DstHigh)}
	src := ptx.Memory{Address: 1 << 40, Bytes: make([]byte, r.SrcHigh)}
	sum := 0
	for _, d := range plan(c) {
		f, err := module.Function(d.Shader.String())
		if err != nil {
			fail(err.Error())
		}
		constants, err := binary.Append(nil, binary.LittleEndian, d.Constants)
		if err != nil {
			fail(err.Error())
		}
		accesses, err := f.Trace(d.Groups, [3]uint32{gpucopy.GroupSize, 1, 1}, []ptx.Memory{dst, src},
			binary.LittleEndian.AppendUint64(nil, dst.Address+uint64(d.Dst.Offset)),
			binary.LittleEndian.AppendUint64(nil, src.Address+uint64(d.Src.Offset)), constants)
		if err != nil {
			fail(err.Error())
		}
		global, shared := ptx.Transactions(accesses)
		sum += global + shared
	}
	return float64(sum) * 128 / float64(c.Size())
}

// residents returns how many threads of a kernel a multiprocessor runs at the same time.
func residents(k machinecode.Kernel) int {
	blocks := min(threads/gpucopy.GroupSize, registers/gpucopy.GroupSize/((k.Registers+7)&^7))
	if k.Shared > 0 {
		blocks = min(blocks, shared/k.Shared)
	}
	return blocks * gpucopy.GroupSize
}

func fail(text string) {
	fmt.Fprintln(os.Stderr, text)
	os.Exit(1)
}
