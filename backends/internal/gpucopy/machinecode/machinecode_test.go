package machinecode_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/machinecode"
	"github.com/dlx-go/dlx/core/coretest"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// A thread of every kernel has at least 16 bytes in flight, in at least 4 loads, and writes at least 4 bytes at once.
func TestThreadsHaveSeveralLoadsInFlight(t *testing.T) {
	for _, c := range gpucopy.Cubins() {
		kernels, err := machinecode.Count(c.Image)
		if err != nil {
			t.Fatal(err)
		}
		if len(kernels) != 14 {
			t.Errorf("%s: %d kernels, want 14", c.Name(), len(kernels))
		}
		for _, k := range kernels {
			const converter = "convert" // of package gpuconvert: it loads one element after the other
			if k.Name != converter && (k.Loads < 4 || k.InFlight() < 16 || k.StoreBytes < 4) {
				t.Errorf("%s: %+v", c.Name(), k)
			}
			// plan.go and gather.cu mean 4 blocks of 256 threads to run at the same time.
			if k.Registers == 0 || k.Registers > 64 {
				t.Errorf("%s: %s has %d registers", c.Name(), k.Name, k.Registers)
			}
		}
	}
}

// The counts of one kernel, as nvdisasm 12.4 lists its code.
func TestCountsAreThoseOfTheDisassembler(t *testing.T) {
	kernels, err := machinecode.Count(gpucopy.Cubins()[2].Image)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range kernels {
		if k.Name != "gather8_tiled" {
			continue
		}
		want := machinecode.Kernel{
			Name: "gather8_tiled", Instructions: 328, Registers: 32, Shared: 8448 + 1024, // the system has 1 KiB
			Barriers: 2, Loads: 4, LoadBytes: 8, StoreBytes: 8,
		}
		if k != want {
			t.Errorf("%+v, want %+v", k, want)
		}
	}
}

// A file that is cut off is an error or has fewer kernels, and no panic.
func TestCountOfPartsOfAFile(t *testing.T) {
	whole := gpucopy.Cubins()[0].Image
	for n := 0; n < len(whole); n += 1 + n/16 {
		if kernels, err := machinecode.Count(whole[:n]); err == nil && len(kernels) == 14 {
			t.Errorf("14 kernels in %d of %d bytes", n, len(whole))
		}
	}
}
