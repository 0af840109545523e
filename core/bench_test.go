package core_test

import (
	"testing"

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
