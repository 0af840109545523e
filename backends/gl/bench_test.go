//go:build gl && linux && cgo

package gl

import (
	"runtime"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
)

// BenchmarkStrided compares strided copies within the device with packing on the
// host and a plain copy behind it: of memory that is mapped, and of memory that is
// not, as imported memory, which has to come to the host by a plain copy first.
func BenchmarkStrided(b *testing.B) {
	for _, memory := range []string{"mapped", "imported"} {
		d := openAs(b, asItIs)
		defer closeDevice(b, d)
		for _, layout := range []struct {
			name string
			n    int64
			view func(*core.Tensor) (*core.Tensor, error)
		}{
			{"transpose 2048x2048", 2048, (*core.Tensor).Transpose},
			{"transpose 128x128", 128, (*core.Tensor).Transpose},
			{"every other row of 8 KiB", 2048, func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(0, 0, t.Layout().Dim(0), 2) }},
			{"every other column", 2048, func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(1, 0, t.Layout().Dim(1), 2) }},
		} {
			whole := must(core.Empty(b.Context(), d, core.TypeFloat32, []int64{layout.n, layout.n}, core.AllocOptions{}))
			src := must(layout.view(whole))
			dst := must(core.Empty(b.Context(), d, core.TypeFloat32, src.Shape(), core.AllocOptions{}))
			packed := must(core.FromSlice(make([]float32, src.NumElements()), src.Shape()...))
			base := must(d.operandOf(whole)).base
			all := must(core.FromSlice(make([]float32, whole.NumElements()), whole.Shape()...))
			if memory == "imported" {
				for _, t := range []*core.Tensor{whole, dst} {
					must(d.operandOf(t)).buffer.mapped = 0
				}
			}
			run := func(way string, f func() error) {
				b.Run(memory+"/"+layout.name+"/"+way, func(b *testing.B) {
					b.SetBytes(src.NumBytes())
					for b.Loop() {
						if err := f(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			run("strided", func() error { return d.Copy(b.Context(), nil, dst, src) })
			run("packed on the host, then copied", func() error {
				from := base
				if memory == "imported" {
					if err := d.Copy(b.Context(), nil, all, whole); err != nil {
						return err
					}
					from = must(all.Address())
				}
				if err := hostcopy.Pack(must(packed.Address()), src, from).Run(runtime.GOMAXPROCS(0)); err != nil {
					return err
				}
				return d.Copy(b.Context(), nil, dst, packed)
			})
			for _, t := range []*core.Tensor{whole, src, dst, packed, all} {
				t.Close()
			}
		}
	}
}

// must is for calls that fail only where the benchmark is wrong.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
