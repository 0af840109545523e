//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"cmp"
	"runtime"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/copyplan"
	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
)

// BenchmarkStrided compares the ways of a strided copy within the device, and
// packing on the host with a plain copy behind it.
func BenchmarkStrided(b *testing.B) {
	needDriver(b, OpenCL)
	d := must[core.Device](b)(variants[3].open())
	b.Cleanup(func() { _ = d.Close() })
	inner := must[*device](b)(OpenCL.deviceOf("test", d))
	for _, shape := range []struct {
		name string
		n, m int64
		view func(*core.Tensor) (*core.Tensor, error)
	}{
		{"transpose 2048x2048", 2048, 2048, func(t *core.Tensor) (*core.Tensor, error) { return t.Transpose() }},
		{"transpose 128x128", 128, 128, func(t *core.Tensor) (*core.Tensor, error) { return t.Transpose() }},
		{"every other row of 4 KiB", 8192, 1024, func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(0, 0, 8192, 2) }},
		{"half of each row of 512 B", 8192, 128, func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(1, 0, 64, 1) }},
		{"a block of 64 rows of 1 KiB", 512, 512, func(t *core.Tensor) (*core.Tensor, error) {
			rows, err := t.Slice(0, 0, 64, 1)
			if err != nil {
				return nil, err
			}
			defer func() { _ = rows.Close() }()
			return rows.Slice(1, 0, 256, 1)
		}},
	} {
		whole := must[*core.Tensor](b)(core.Empty(b.Context(), d, core.TypeFloat32, []int64{shape.n, shape.m}, core.AllocOptions{}))
		src := must[*core.Tensor](b)(shape.view(whole))
		dst := must[*core.Tensor](b)(core.Empty(b.Context(), d, core.TypeFloat32, src.Shape(), core.AllocOptions{}))
		from := must[operand](b)(inner.operandOf(src))
		to := must[operand](b)(inner.operandOf(dst))
		w := work{queue: inner.own, dst: to, src: from}
		w.geometry, w.bits = copyplan.OfBits(dst, src)
		run := func(name string, work func() error) {
			b.Run(shape.name+"/"+name, func(b *testing.B) {
				b.SetBytes(src.NumBytes())
				for range b.N {
					if err := work(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		for _, c := range []struct {
			name string
			way  way
		}{{"host", onHost}, {"boxes", boxes}, {"kernel", byKernel}} {
			if _, at := w.geometry.Boxes(); c.way == boxes && at.Count() > maxBoxes {
				continue
			}
			run(c.name, func() error {
				w.way = c.way
				if err := w.enqueue(); err != nil {
					return err
				}
				return cmp.Or(w.failed, w.queue.Synchronize(b.Context()))
			})
		}
		packed := must[*core.Tensor](b)(core.FromSlice(make([]float32, src.NumElements()), src.Shape()...))
		address := must[uintptr](b)(packed.Address())
		run("as chosen for a caller who waits", func() error { return d.Copy(b.Context(), nil, dst, src) })
		run("packed on the host, then copied", func() error {
			if err := hostcopy.Pack(address, src, from.host).Run(runtime.GOMAXPROCS(0)); err != nil {
				return err
			}
			return d.Copy(b.Context(), nil, dst, packed)
		})
		for _, t := range []*core.Tensor{whole, src, dst, packed} {
			_ = t.Close()
		}
	}
}

// must ends a benchmark where a call fails.
func must[T any](tb testing.TB) func(T, error) T {
	return func(v T, err error) T {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
		return v
	}
}
