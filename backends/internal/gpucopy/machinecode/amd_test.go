package machinecode

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestCountOfVectorMemory(t *testing.T) {
	for _, c := range []struct {
		name, code          string
		storesToo           bool
		loads, bytes, store int
	}{
		{"nothing", "s_endpgm", false, 0, 0, 0},
		{"one after the other", "global_load_dword v0, v1; s_waitcnt vmcnt(0); global_load_dword v0, v1", false, 1, 4, 0},
		{"several", "global_load_dwordx2 v0, v1; global_load_dwordx2 v0, v1; global_load_dwordx2 v0, v1; s_waitcnt vmcnt(2) lgkmcnt(0)", false, 3, 8, 0},
		{"extended signs", "global_load_i16 v0, v1; global_load_sshort v0, v1", false, 2, 2, 0},
		{"extended signs of bytes", "global_load_sbyte v0, v1; global_load_i8 v0, v1", false, 2, 1, 0},
		{"some of them waited for", "global_load_b32 v0, v1; global_load_b32 v0, v1; s_waitcnt vmcnt(1); global_load_b32 v0, v1", false, 2, 4, 0},
		{"a wait for shared memory", "global_load_d16_u8 v0, v1; s_waitcnt lgkmcnt(0); global_load_d16_hi_u8 v0, v1", false, 2, 1, 0},
		{"the way past a jump", "global_load_ushort v0, v1; s_branch 5; global_load_ushort v0, v1", false, 1, 2, 0},
		{"a jump that may not be taken", "global_load_short_d16_hi v0, v1; s_cbranch_scc1 5; global_load_short_d16 v0, v1", false, 2, 2, 0},
		{"a wait for a store, too", "global_store_byte_d16_hi v0, v1; global_load_ubyte v0, v1; s_waitcnt vmcnt(1); global_load_ubyte v0, v1", true, 2, 1, 1},
		{"a store of its own counter", "global_load_ubyte v0, v1; global_store_dwordx4 v0, v1; s_waitcnt vmcnt(1); global_load_ubyte v0, v1", false, 2, 1, 16},
		{"the load before a store is waited for", "global_load_ubyte v0, v1; global_store_b128 v0, v1; s_waitcnt vmcnt(1); global_load_ubyte v0, v1", true, 1, 1, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			var k Kernel
			flying := vectorMemory{storesToo: c.storesToo}
			for text := range strings.SplitSeq(c.code, "; ") {
				if err := flying.next(&k, text); err != nil {
					t.Fatal(err)
				}
			}
			if k.Loads != c.loads || k.LoadBytes != c.bytes || k.StoreBytes != c.store {
				t.Errorf("%+v, want %d loads of %d bytes, and stores of %d", k, c.loads, c.bytes, c.store)
			}
		})
	}
	for _, text := range []string{"flat_load_dword v0, v[1:2]", "scratch_store_dword off, v0", "buffer_load_dword v0", "global_atomic_add v0", "global_load_strange v0"} {
		if new(vectorMemory).next(new(Kernel), text) == nil {
			t.Errorf("%s was taken", text)
		}
	}
	if err := new(vectorMemory).next(new(Kernel), "buffer_gl0_inv"); err != nil {
		t.Error(err)
	}
}

// converter is the kernel of package gpuconvert, which loads one element after the other: the other lanes hide the latency.
const converter = "convert"

// A thread of a kernel that copies on CDNA 2 and RDNA has at least 16 bytes in flight, in at least 3 loads. No kernel keeps registers in memory, or CountAMD
// fails.
func TestThreadsOfAMDHaveSeveralLoadsInFlight(t *testing.T) {
	if _, err := exec.LookPath("llvm-objdump-15"); err != nil {
		coretest.NeedDriver(t, err.Error(), "llvm-15")
	}
	for _, c := range gpucopy.CodeObjects() {
		text, err := exec.Command("llvm-objdump-15", "-d", filepath.Join("..", c.Name()+".co")).Output()
		if err != nil {
			t.Fatal(err)
		}
		kernels, err := CountAMD(c.Image, string(text))
		if err != nil {
			t.Fatal(err)
		}
		if len(kernels) != 14 {
			t.Errorf("%s: %d kernels, want 14", c.Arch, len(kernels))
		}
		for _, k := range kernels {
			older := c.Arch < "gfx90a" && c.Arch >= "gfx900" // their compiler prefers more waves
			if k.StoreBytes < 4 || k.Registers > 128 || k.Shared > 9<<10 || !older && k.Name != converter && (k.Loads < 3 || k.InFlight() < 16) {
				t.Errorf("%s: %+v", c.Arch, k)
			}
		}
	}
}

// A file that is cut off is an error, and no panic.
func TestCountOfPartsOfACodeObject(t *testing.T) {
	whole := gpucopy.CodeObjects()[0].Image
	for n := 0; n < len(whole); n += 1 + n/16 {
		if kernels, err := CountAMD(whole[:n], ""); err == nil {
			t.Errorf("%d kernels in %d of %d bytes", len(kernels), n, len(whole))
		}
	}
}
