//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/hostcopy"
	"github.com/dlx-go/dlx/core"
)

// benchDevice opens the first device without the validation layer.
func benchDevice(b *testing.B, opts ...option) core.Device {
	b.Helper()
	d, err := newWith(opts...).Open(context.Background(), core.DeviceID{Type: core.DeviceVulkan})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	return d
}

// places are where the two sides of a copy lie.
var places = []struct {
	name       string
	dst, src   bool // on the device
	onSeparate bool
}{
	{"host-to-device", true, false, false},
	{"device-to-host", false, true, false},
	{"device-to-device", true, true, false},
	{"host-to-device/separate", true, false, true},
	{"device-to-host/separate", false, true, true},
	{"device-to-device/separate", true, true, true},
}

// benchTensor makes a tensor whose memory was written to: pages that never were are
// all the same one, which is read fast.
func benchTensor(b *testing.B, d core.Device, onDevice bool, shape ...int64) *core.Tensor {
	b.Helper()
	n := int64(1)
	for _, extent := range shape {
		n *= extent
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	host := keep(b)(core.FromSlice(values, shape...))
	if !onDevice {
		return host
	}
	t := keep(b)(core.Empty(b.Context(), d, core.TypeFloat32, shape, core.AllocOptions{}))
	if err := d.Copy(b.Context(), nil, t, host); err != nil {
		b.Fatal(err)
	}
	return t
}

func separateMemory(o *options) { o.separate = true }

// BenchmarkCopy measures copies that the caller waits for: small ones for what a
// copy costs at least, large ones for bytes a second.
func BenchmarkCopy(b *testing.B) {
	for _, p := range places {
		for _, bytes := range []int64{256, 64 << 20} {
			b.Run(fmt.Sprintf("%s/%d", p.name, bytes), func(b *testing.B) {
				var opts []option
				if p.onSeparate {
					opts = append(opts, separateMemory)
				}
				d := benchDevice(b, opts...)
				dst, src := benchTensor(b, d, p.dst, bytes/4), benchTensor(b, d, p.src, bytes/4)
				b.SetBytes(bytes)
				for b.Loop() {
					if err := d.Copy(b.Context(), nil, dst, src); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkStrided measures strided copies within the device against the host's
// packing followed by a plain copy, which they must not be slower than.
func BenchmarkStrided(b *testing.B) {
	const n = 2048
	views := []struct {
		name string
		view func(*core.Tensor) (*core.Tensor, error)
	}{
		{"transpose", func(t *core.Tensor) (*core.Tensor, error) { return t.Permute(1, 0) }},
		{"columns", func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(1, 0, n, 2) }},
		{"rows", func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(0, 0, n, 2) }},
		{"block", func(t *core.Tensor) (*core.Tensor, error) { return t.Slice(1, 100, n-100, 1) }},
	}
	for _, v := range views {
		for _, separate := range []bool{false, true} {
			name := v.name
			var opts []option
			if separate {
				name += "/separate"
				opts = append(opts, separateMemory)
			}
			b.Run(name, func(b *testing.B) {
				d := benchDevice(b, opts...)
				whole := benchTensor(b, d, true, n, n)
				src, err := v.view(whole)
				if err != nil {
					b.Fatal(err)
				}
				defer func() { _ = src.Close() }()
				dst := benchTensor(b, d, true, src.Shape()...)
				b.SetBytes(src.NumBytes())
				for b.Loop() {
					if err := d.Copy(b.Context(), nil, dst, src); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run(v.name+"/pack-then-copy", func(b *testing.B) {
			d := benchDevice(b)
			whole := benchTensor(b, d, false, n, n)
			src, err := v.view(whole)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = src.Close() }()
			packed, dst := benchTensor(b, d, false, src.Shape()...), benchTensor(b, d, true, src.Shape()...)
			to, _ := packed.Address()
			from, _ := whole.Address()
			job := hostcopy.Between(packed, src, to, from)
			b.SetBytes(src.NumBytes())
			for b.Loop() {
				if err := job.Run(2); err != nil {
					b.Fatal(err)
				}
				if err := d.Copy(b.Context(), nil, dst, packed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEnqueue measures what enqueuing a copy of 256 bytes on a stream costs the
// caller, with a wait after every 64.
func BenchmarkEnqueue(b *testing.B) {
	for _, p := range places {
		b.Run(p.name, func(b *testing.B) {
			var opts []option
			if p.onSeparate {
				opts = append(opts, separateMemory)
			}
			d := benchDevice(b, opts...)
			s, err := d.NewStream(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			dst, src := benchTensor(b, d, p.dst, 64), benchTensor(b, d, p.src, 64)
			i := 0
			for b.Loop() {
				if err := d.Copy(b.Context(), s, dst, src); err != nil {
					b.Fatal(err)
				}
				if i++; i%64 == 0 {
					if err := s.Synchronize(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := s.Synchronize(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkAlloc measures an allocation that the pool has in its cache.
func BenchmarkAlloc(b *testing.B) {
	d := benchDevice(b)
	for b.Loop() {
		m, err := d.Alloc(b.Context(), 1000, core.AllocOptions{})
		if err != nil {
			b.Fatal(err)
		}
		m.Free()
	}
}
