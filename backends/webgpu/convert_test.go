//go:build webgpu && linux && cgo

package webgpu

import (
	"bytes"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/webgpu/internal/wgpu"
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

// Dispatches for the channels of interleaved pixels read nearly the same bytes, which are copied once.
func TestReadsOfDispatchesAreCopiedOnce(t *testing.T) {
	buffer := wgpu.Range{Buffer: 7}
	var list []launch
	for _, offset := range []int64{4096, 512, 768, 256, 1 << 20} { // also apart from the others
		list = append(list, launch{src: wgpu.Range{Buffer: buffer.Buffer, Offset: offset, Size: 1000}})
	}
	before := slices.Clone(list)
	copies, size := apartFrom(list)
	if want := int64(256 + 256 + 1000 + 24 + 2*1024); size != want || len(copies) != 3 {
		t.Errorf("%d copies take %d bytes, want 3 with %d", len(copies), size, want)
	}
	for i, l := range list { // the same bytes
		found := false
		for _, c := range copies {
			into := l.src.Offset - c.at
			found = found || into >= 0 && into+l.src.Size <= c.from.Size && c.from.Offset+into == before[i].src.Offset
		}
		if !found || l.src.Size != before[i].src.Size || l.src.Offset%256 != 0 || l.src.Offset+l.src.Size > size {
			t.Errorf("dispatch %d reads %+v of %+v, and not %+v", i, l.src, copies, before[i].src)
		}
	}
}

// Planes of one buffer become pixels of the same: each dispatch reads some channels of a source that all share.
func TestConversionOfChannelsWithinOneBuffer(t *testing.T) {
	d := open(t)
	t.Cleanup(func() { closeDevice(t, d) }) // after the tensors
	const n, channels = 200, 30
	before := coretest.Pattern(2*n*channels, 3)
	whole := coretest.Keep(t)(core.Empty(t.Context(), d, core.TypeUint8, []int64{2, n, channels}, core.AllocOptions{}))
	if err := d.Copy(t.Context(), nil, whole, coretest.Keep(t)(core.FromSlice(before, 2, n, channels))); err != nil {
		t.Fatal(err)
	}
	scaling := core.Scaling{Axis: 1}
	for i := range channels {
		scaling.Scale, scaling.Offset = append(scaling.Scale, float32(i+1)/16), append(scaling.Offset, float32(i))
	}
	want := bytes.Clone(before)
	of := coretest.Keep(t)(core.FromSlice(want, 2, n, channels))
	convert := func(x *core.Tensor, f func(dst, src *core.Tensor) error) {
		t.Helper()
		dst, src := coretest.Keep(t)(x.Index(0, 1)), coretest.Keep(t)(x.Index(0, 0))
		if err := f(dst, src); err != nil {
			t.Fatal(err)
		}
	}
	convert(of, func(dst, src *core.Tensor) error { return core.ConvertScaled(t.Context(), dst, src, scaling) })
	convert(whole, func(dst, src *core.Tensor) error {
		return d.(core.Converter).ConvertOn(t.Context(), nil, dst, src, scaling)
	})
	got := coretest.Keep(t)(core.FromSlice(make([]uint8, 2*n*channels), 2, n, channels))
	if err := d.Copy(t.Context(), nil, got, whole); err != nil {
		t.Fatal(err)
	}
	if equal, err := core.EqualBits(t.Context(), got, of); err != nil || !equal {
		t.Errorf("got %v, %v, want %v", got, err, of)
	}
}

// Elements that lie far apart are gathered: the span between them is not copied aside.
func TestConversionOfAColumnWithinOneBuffer(t *testing.T) {
	d := open(t)
	t.Cleanup(func() { closeDevice(t, d) }) // after the tensors
	const rows, columns = 1024, 4096
	keep := coretest.Keep(t)
	content := coretest.Pattern(rows*columns, 5)
	whole := keep(core.Empty(t.Context(), d, core.TypeUint8, []int64{rows, columns}, core.AllocOptions{}))
	host := keep(core.FromSlice(content, rows, columns))
	if err := d.Copy(t.Context(), nil, whole, host); err != nil {
		t.Fatal(err)
	}
	scaling := core.Scaling{Scale: []float32{0.37}, Offset: []float32{1.5}}
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, on := range []core.Stream{nil, s} {
		for _, x := range []*core.Tensor{whole, host} {
			column := func(first, end int64) *core.Tensor { return keep(keep(x.Slice(0, first, end, 1)).Slice(1, 7, 8, 1)) }
			src, dst := column(0, rows/2), column(rows/2, rows)
			if x == host {
				if err := core.ConvertScaled(t.Context(), dst, src, scaling); err != nil {
					t.Fatal(err)
				}
			} else if err := d.(core.Converter).ConvertOn(t.Context(), on, dst, src, scaling); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Synchronize(t.Context()); err != nil {
		t.Fatal(err)
	}
	spares := &d.(*device).spares
	spares.mu.Lock()
	for _, b := range spares.free[wgpu.Memory] {
		if b.size > maxSparse {
			t.Errorf("%d bytes were taken for %d elements", b.size, rows)
		}
	}
	spares.mu.Unlock()
	got := keep(core.FromSlice(make([]uint8, rows*columns), rows, columns))
	if err := d.Copy(t.Context(), nil, got, whole); err != nil {
		t.Fatal(err)
	}
	if equal, err := core.EqualBits(t.Context(), got, host); err != nil || !equal {
		t.Errorf("the elements differ from the host's: %v", err)
	}
}
