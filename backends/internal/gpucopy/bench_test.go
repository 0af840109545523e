//go:build vulkan && linux && cgo

package gpucopy_test

import (
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/gpucopy"
	"github.com/dlx-go/dlx/backends/internal/gpucopy/gpucopytest"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
)

// BenchmarkStrategies compares the ways in which a device can make a strided copy:
// by shaders, by a plain copy of many regions, by the host in memory that it can
// address, or by the host packing and a plain copy after it.
func BenchmarkStrategies(b *testing.B) {
	g := open(b, false)
	for _, c := range []struct {
		gpucopytest.Case
		dtype core.DType
	}{
		{gpucopytest.Case{Name: "Transpose", Shape: []int64{2048, 2048}, Src: []int64{1, 2048}}, core.TypeFloat32},
		{gpucopytest.Case{Name: "NHWCtoNCHW", Shape: []int64{32, 3, 224 * 224}, Src: []int64{3 * 224 * 224, 1, 3}}, core.TypeUint8},
		{gpucopytest.Case{Name: "NCHWtoNHWC", Shape: []int64{32, 224 * 224, 3}, Src: []int64{3 * 224 * 224, 1, 224 * 224}}, core.TypeUint8},
		{gpucopytest.Case{Name: "EverySecondColumn", Shape: []int64{2048, 2048}, Src: []int64{4096, 2}}, core.TypeFloat32},
		{gpucopytest.Case{Name: "PaddedRows4KiB", Shape: []int64{4096, 1024}, Src: []int64{1040, 1}}, core.TypeFloat32},
		{gpucopytest.Case{Name: "PaddedRows256B", Shape: []int64{65536, 64}, Src: []int64{80, 1}}, core.TypeFloat32},
		{gpucopytest.Case{Name: "Small", Shape: []int64{64, 64}, Src: []int64{1, 64}}, core.TypeFloat32},
	} {
		b.Run(c.Name, func(b *testing.B) { benchmarkStrategies(b, g, c.dtype, c.Case) })
	}
}

func benchmarkStrategies(b *testing.B, g *gpucopytest.GPU, dtype core.DType, c gpucopytest.Case) {
	dl, err := core.NewStridedLayout(c.Shape, c.Dst)
	if err != nil {
		b.Fatal(err)
	}
	sl, err := core.NewStridedLayout(c.Shape, c.Src)
	if err != nil {
		b.Fatal(err)
	}
	elem, _ := dtype.ItemSize()
	geometry := copyplan.New(elem, dl, sl)
	r := geometry.Range()
	var buffers [3]*gpucopytest.Buffer
	for i, size := range []int64{r.DstHigh, r.SrcHigh, r.DstHigh} {
		if buffers[i], err = g.Buffer(int(size+3) &^ 3); err != nil {
			b.Fatal(err)
		}
		defer buffers[i].Free()
	}
	dst, src, packed := buffers[0], buffers[1], buffers[2]
	for i := range src.Bytes() {
		src.Bytes()[i] = byte(i)
	}
	clear(dst.Bytes())
	clear(packed.Bytes())

	time := func(name string, f func() error) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(geometry.Size())
			for b.Loop() {
				if err := f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	host := func(to *gpucopytest.Buffer) {
		if err := hostcopy.Copy(unsafe.Pointer(&to.Bytes()[0]), unsafe.Pointer(&src.Bytes()[0]), geometry, runtime.GOMAXPROCS(0)); err != nil {
			b.Fatal(err)
		}
	}
	whole := []gpucopytest.Region{{Size: geometry.Size()}}
	limits := gpucopytest.Variants(g.Limits())
	for _, name := range []string{"plain", "tiled", "packed"} {
		l, ok := limits[name]
		if !ok { // another one is equal
			continue
		}
		plan := slices.Collect(gpucopy.Plan(geometry, l))
		time("shader/"+name, func() error { return g.Dispatch(dst, src, plan) })
	}
	if geometry.Count() <= 1<<22 {
		time("regions", func() error {
			regions := make([]gpucopytest.Region, 0, geometry.Count())
			for d, s := range geometry.Pieces() {
				regions = append(regions, gpucopytest.Region{Dst: d, Src: s, Size: geometry.Elem})
			}
			return g.Copy(dst, src, regions)
		})
	}
	time("host in place", func() error { host(dst); return nil })
	time("host packs, plain copy", func() error {
		host(packed)
		return g.Copy(dst, packed, whole)
	})
	time("plain copy alone", func() error { return g.Copy(dst, packed, whole) })
}
