//go:build webgpu && linux && cgo

package webgpu

import (
	"bytes"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// A shader cannot read and write one buffer. The conversion also leaves the bytes around its elements alone.
func TestConversionWithinOneBuffer(t *testing.T) {
	d := open(t)
	defer closeDevice(t, d)
	const n = 100
	before := make([]uint8, 3*n)
	for i := range before {
		before[i] = uint8(3 * i)
	}
	whole, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{3 * n}, core.AllocOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	if err := d.Copy(t.Context(), nil, whole, coretest.Keep(t)(core.FromSlice(before))); err != nil {
		t.Fatal(err)
	}
	part := func(x *core.Tensor, first, end int64) *core.Tensor {
		t.Helper()
		y, err := x.Slice(0, first, end, 1)
		if err != nil {
			t.Fatal(err)
		}
		return y
	}
	scaling := core.Scaling{Scale: []float32{0.37}, Offset: []float32{1.5}}
	src, dst := part(whole, 1, 1+n), part(whole, 2*n-3, 3*n-3)
	defer src.Close()
	defer dst.Close()
	if err := d.(core.Converter).ConvertOn(t.Context(), nil, dst, src, scaling); err != nil {
		t.Fatal(err)
	}
	want := bytes.Clone(before)
	into, from := coretest.Keep(t)(core.FromSlice(want[2*n-3:3*n-3])), coretest.Keep(t)(core.FromSlice(before[1:1+n]))
	if err := core.ConvertScaled(t.Context(), into, from, scaling); err != nil {
		t.Fatal(err)
	}
	got := make([]uint8, 3*n)
	if err := d.Copy(t.Context(), nil, coretest.Keep(t)(core.FromSlice(got)), whole); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
