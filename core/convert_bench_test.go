package core_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// BenchmarkConvert measures conversions of 16 MiB and of 64 KiB of float32, each beside a
// copy of as many bytes as it reads and writes: "xcopy" is how many times longer it takes.
func BenchmarkConvert(b *testing.B) {
	for _, n := range []int64{16 << 10, 4 << 20} {
		for _, pair := range [][2]core.DType{
			{core.TypeFloat32, core.TypeFloat16}, {core.TypeFloat16, core.TypeFloat32},
			{core.TypeFloat32, core.TypeBFloat16}, {core.TypeBFloat16, core.TypeFloat32},
			{core.TypeFloat32, core.TypeFloat8E4M3FN}, {core.TypeFloat8E4M3FN, core.TypeFloat32},
			{core.TypeFloat64, core.TypeFloat32}, {core.TypeInt32, core.TypeFloat32}, {core.TypeBFloat16, core.TypeFloat16},
		} {
			b.Run(fmt.Sprintf("%v-%v/%d", pair[0], pair[1], n), func(b *testing.B) {
				values := make([]float32, n)
				for i := range values {
					values[i] = float32(i%2001-1000) / 64
				}
				base, err := core.FromSlice(values)
				if err != nil {
					b.Fatal(err)
				}
				defer base.Close()
				src, err := base.AsType(b.Context(), pair[0])
				if err != nil {
					b.Fatal(err)
				}
				defer src.Close()
				dst, err := src.AsType(b.Context(), pair[1])
				if err != nil {
					b.Fatal(err)
				}
				defer dst.Close()
				traffic := src.NumBytes() + dst.NumBytes()
				from, to := make([]byte, traffic/2), make([]byte, traffic/2)
				for i := range from {
					from[i], to[i] = 1, 2
				}
				var converting, copying time.Duration
				b.SetBytes(traffic)
				for b.Loop() {
					start := time.Now()
					if err := core.Convert(b.Context(), dst, src); err != nil {
						b.Fatal(err)
					}
					between := time.Now()
					copy(to, from)
					converting += between.Sub(start)
					copying += time.Since(between)
				}
				b.ReportMetric(float64(converting)/float64(copying), "xcopy")
				b.ReportMetric(float64(converting.Nanoseconds())/float64(b.N)/float64(n), "ns/element")
			})
		}
	}
}
