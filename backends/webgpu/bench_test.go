//go:build webgpu && linux && cgo

package webgpu

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// BenchmarkCopyAgainstBareCalls copies by the device and by the calls of WebGPU that the copy needs, by turns. The metric ratio is the
// time of the bare calls by that of the device: 1 if the device adds nothing. The bare calls wait as the device does.
func BenchmarkCopyAgainstBareCalls(b *testing.B) {
	for _, bytes := range []int64{4 << 10, 16 << 20} {
		for _, to := range []string{"device-to-device", "host-to-device"} {
			b.Run(fmt.Sprintf("%s/%d", to, bytes), func(b *testing.B) {
				d := open(b)
				defer closeDevice(b, d)
				tensor := func() *core.Tensor {
					t, err := core.Empty(b.Context(), d, core.TypeUint8, []int64{bytes}, core.AllocOptions{})
					if err != nil {
						b.Fatal(err)
					}
					return t
				}
				dst, src := tensor(), tensor()
				defer dst.Close()
				defer src.Close()
				native := d.(*device).native
				handle := func(t *core.Tensor) wgpu.Handle {
					buffer, err := t.Buffer()
					if err != nil {
						b.Fatal(err)
					}
					return wgpu.Handle(buffer.Memory().Handle)
				}
				into, from := handle(dst), handle(src)
				bare := func() error {
					return wait(native.Submit("bench", func(e *wgpu.Encoder) { e.Copy(into, 0, from, 0, bytes) }))
				}
				copied := src
				if to == "host-to-device" {
					copied = coretest.Keep(b)(core.FromSlice(make([]uint8, bytes)))
					address, err := copied.Address()
					if err != nil {
						b.Fatal(err)
					}
					bare = func() error {
						if err := native.Write(into, 0, address, bytes); err != nil {
							return err
						}
						return wait(native.Submit("bench", func(*wgpu.Encoder) {}))
					}
				}
				var own, calls time.Duration
				timed := func(total *time.Duration, f func() error) {
					begin := time.Now()
					if err := f(); err != nil {
						b.Fatal(err)
					}
					*total += time.Since(begin)
				}
				byDevice := func() error { return d.Copy(b.Context(), nil, dst, copied) }
				b.SetBytes(bytes)
				for i := 0; b.Loop(); i++ { // by turns which is first: the library's memory for writes is not the same for both
					if i%2 == 0 {
						timed(&own, byDevice)
					}
					timed(&calls, bare)
					if i%2 == 1 {
						timed(&own, byDevice)
					}
				}
				b.ReportMetric(float64(calls)/float64(own), "ratio")
			})
		}
	}
}

// BenchmarkCopiesInAStream enqueues copies and waits at the end, by the device and by bare calls that do the same, by turns. The metric
// ratio is that of BenchmarkCopyAgainstBareCalls, of medians.
func BenchmarkCopiesInAStream(b *testing.B) {
	for _, c := range []struct {
		bytes  int64
		copies int
	}{{4 << 10, 1}, {4 << 10, 64}, {1 << 20, 16}, {16 << 20, 1}, {16 << 20, 2}, {16 << 20, 16}} {
		b.Run(fmt.Sprintf("%d-times-%d", c.copies, c.bytes), func(b *testing.B) {
			d := open(b)
			defer closeDevice(b, d)
			tensor := func() (*core.Tensor, wgpu.Handle) {
				t, err := core.Empty(b.Context(), d, core.TypeUint8, []int64{c.bytes}, core.AllocOptions{})
				if err != nil {
					b.Fatal(err)
				}
				o, err := d.(*device).operandOf(t)
				if err != nil {
					b.Fatal(err)
				}
				return t, o.buffer.handle
			}
			dst, into := tensor()
			defer dst.Close()
			src, from := tensor()
			defer src.Close()
			s, err := d.NewStream(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			native := d.(*device).native
			var took [2][]time.Duration
			turns := [2]func() error{func() error {
				for range c.copies {
					if err := d.Copy(b.Context(), s, dst, src); err != nil {
						return err
					}
				}
				return s.Synchronize(b.Context())
			}, func() error {
				for range c.copies {
					w, err := native.Submit("bench", func(e *wgpu.Encoder) { e.Copy(into, 0, from, 0, c.bytes) })
					if err != nil {
						return err
					}
					w.Drop()
				}
				return native.WaitForAll()
			}}
			b.SetBytes(c.bytes * int64(c.copies))
			for i := 0; b.Loop(); i++ {
				for j := range turns {
					j ^= i & 1
					begin := time.Now()
					if err := turns[j](); err != nil {
						b.Fatal(err)
					}
					took[j] = append(took[j], time.Since(begin))
				}
			}
			slices.Sort(took[0])
			slices.Sort(took[1])
			b.ReportMetric(float64(took[1][len(took[1])/2])/float64(took[0][len(took[0])/2]), "ratio")
		})
	}
}
