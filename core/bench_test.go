package core_test

import (
	"testing"

	"github.com/dlx-go/dlx/backends/backendkit"
	"github.com/dlx-go/dlx/core"
)

func BenchmarkWrapClose(b *testing.B) {
	m := core.Memory{ID: core.CPU, Handle: 256, Size: 24}
	s := core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}, Strides: []int64{3, 1}}
	b.ReportAllocs()
	for b.Loop() {
		t, err := core.Wrap(m, s)
		if err != nil {
			b.Fatal(err)
		}
		t.Close()
	}
}

// BenchmarkWrapCloseParallel is that from as many goroutines as there are processors.
func BenchmarkWrapCloseParallel(b *testing.B) {
	m := core.Memory{ID: core.CPU, Handle: 256, Size: 24}
	s := core.Spec{DType: core.TypeFloat32, Shape: []int64{2, 3}, Strides: []int64{3, 1}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			t, err := core.Wrap(m, s)
			if err != nil {
				b.Error(err)
				return
			}
			t.Close()
		}
	})
}

func BenchmarkSliceClose(b *testing.B) {
	base, err := core.FromSlice(make([]float32, 12), 3, 4)
	if err != nil {
		b.Fatal(err)
	}
	defer base.Close()
	b.ReportAllocs()
	for b.Loop() {
		t, err := base.Slice(0, 0, 3, 2)
		if err != nil {
			b.Fatal(err)
		}
		t.Close()
	}
}

// BenchmarkSliceCloseParallel is that from as many goroutines as there are processors. Each of them has a tensor of its own.
func BenchmarkSliceCloseParallel(b *testing.B) {
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		base, err := core.FromSlice(make([]float32, 12), 3, 4)
		if err != nil {
			b.Error(err)
			return
		}
		defer base.Close()
		for pb.Next() {
			t, err := base.Slice(0, 0, 3, 2)
			if err != nil {
				b.Error(err)
				return
			}
			t.Close()
		}
	})
}

// BenchmarkCheckCopy is what every copy pays before any work.
func BenchmarkCheckCopy(b *testing.B) {
	host := func() *core.Tensor {
		t, err := core.FromSlice(make([]float32, 12), 3, 4)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { t.Close() })
		return t
	}
	first, second := host(), host()
	object, err := core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceVulkan}, Handle: 1 << 20, Size: 48}, core.Spec{DType: core.TypeFloat32, Shape: []int64{3, 4}})
	if err != nil {
		b.Fatal(err)
	}
	defer object.Close()
	for name, pair := range map[string][2]*core.Tensor{"host": {first, second}, "object": {object, first}, "itself": {first, first}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := backendkit.CheckCopy(pair[0], pair[1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkValues(b *testing.B) {
	t, err := core.FromSlice(make([]float32, 12), 3, 4)
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	var sum float32
	read := func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, err := core.Values[float32](t)
			if err != nil {
				b.Fatal(err)
			}
			sum += v[0]
		}
	}
	b.Run("without work", read)
	buffer, err := t.Buffer()
	if err != nil {
		b.Fatal(err)
	}
	done := newEvent()
	buffer.Wrote(done)
	close(done.c)
	b.Run("after work", read)
}
