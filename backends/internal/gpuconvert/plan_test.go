package gpuconvert_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/gpuconvert"
	"github.com/dlx-go/dlx/core"
)

func TestSupports(t *testing.T) {
	half := core.Scaling{Scale: []float32{0.5}}
	for _, c := range []struct {
		dst, src core.DType
		s        core.Scaling
		ok       bool
	}{
		{core.TypeFloat32, core.TypeUint8, core.Scaling{}, true},
		{core.TypeFloat16, core.TypeInt16, half, true},
		{core.TypeUint8, core.TypeUint8, half, true},
		{core.TypeUint8, core.TypeInt8, core.Scaling{}, false}, // it wraps around
		{core.TypeFloat32, core.TypeFloat32, half, false},
		{core.TypeFloat32, core.TypeInt32, half, false},
		{core.TypeFloat64, core.TypeUint8, half, false},
		{core.TypeFloat32, core.TypeUint8, core.Scaling{Scale: []float32{1, 0x1p-101}}, false},
		{core.TypeFloat32, core.TypeUint8, core.Scaling{Offset: []float32{0x1p101}}, false},
		{core.TypeFloat32, core.TypeUint8, core.Scaling{Scale: []float32{0}, Offset: []float32{-0x1p-100}}, true},
	} {
		err := gpuconvert.Supports("test", c.dst, c.src, c.s)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%v from %v, %+v: %v", c.dst, c.src, c.s, err)
		}
	}
}

// A dispatch has the numbers of a few channels, so that their number bounds that of the dispatches. One number for all
// elements needs no bound.
func TestSupportsFewChannels(t *testing.T) {
	numbers := make([]float32, gpuconvert.MaxNumbers+1)
	for i := range numbers {
		numbers[i] = 0.5
	}
	for _, s := range []core.Scaling{{Scale: numbers}, {Offset: numbers}} {
		if err := gpuconvert.Supports("test", core.TypeFloat32, core.TypeUint8, s); !errors.Is(err, core.ErrNotSupported) {
			t.Errorf("%d and %d numbers: %v", len(s.Scale), len(s.Offset), err)
		}
	}
	most := core.Scaling{Scale: numbers[1:], Offset: numbers[1:]}
	if err := gpuconvert.Supports("test", core.TypeFloat32, core.TypeUint8, most); err != nil {
		t.Error(err)
	}
	src, err := core.FromSlice(make([]uint8, 2*gpuconvert.MaxNumbers), 2, gpuconvert.MaxNumbers)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := core.FromSlice(make([]float32, 2*gpuconvert.MaxNumbers), 2, gpuconvert.MaxNumbers)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	most.Axis = 1
	list, err := gpuconvert.Plan(dst, src, most, gpuconvert.Limits{Range: 1 << 30, Alignment: 4, Groups: 65535})
	if want := gpuconvert.MaxNumbers / gpuconvert.MaxChannels; err != nil || len(list) != want {
		t.Errorf("%d dispatches and %v, want %d", len(list), err, want)
	}
}

// element is one that a dispatch converts: where it lies, in bytes, and its numbers.
type element struct {
	dst, src      int64
	scale, offset float32
}

// visit lists what a dispatch converts, as the kernel does.
func visit(t *testing.T, d gpuconvert.Dispatch, dst, src int64, l gpuconvert.Limits) (list []element) {
	k := d.Constants
	for id := range k.Count {
		rest, to, from := id, k.DstFirst, k.SrcFirst
		for i := range k.N {
			step := int32(rest % k.N[i])
			rest /= k.N[i]
			to, from = to+step*k.DstStep[i], from+step*k.SrcStep[i]
		}
		for c := range k.Channels {
			e := element{d.Dst.Offset + int64(to)*dst, d.Src.Offset + int64(from)*src, k.Scale[c], k.Offset[c]}
			list = append(list, e)
			if e.dst < d.Dst.Offset || e.dst+dst > d.Dst.Offset+d.Dst.Size || e.src < d.Src.Offset || e.src+src > d.Src.Offset+d.Src.Size {
				t.Fatalf("%+v lies outside of the windows %+v and %+v", e, d.Dst, d.Src)
			}
			to, from = to+k.ChannelDst, from+k.ChannelSrc
		}
	}
	for _, w := range []gpuconvert.Window{d.Dst, d.Src} {
		if w.Offset < 0 || w.Offset%l.Alignment != 0 || w.Size%4 != 0 || w.Size > l.Range {
			t.Fatalf("a window is %+v, and the limits are %+v", w, l)
		}
	}
	if d.Groups == 0 || d.Groups > l.Groups {
		t.Fatalf("%d groups, at most %d", d.Groups, l.Groups)
	}
	return list
}

// Every element is converted once, with the numbers of its channel, whatever the layouts and the limits are.
func TestPlan(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	refused := 0
	for range 200 {
		rank := 1 + r.IntN(7)
		shape := make([]int64, rank)
		for i := range shape {
			shape[i] = 1 + r.Int64N(7)
		}
		tensor := func(d core.DType) *core.Tensor {
			size := int64(d.Bits / 8)
			strides, at, first := make([]int64, rank), int64(1), int64(0)
			for _, axis := range r.Perm(rank) {
				strides[axis] = at
				at = at*shape[axis] + r.Int64N(3)
				if r.IntN(3) == 0 {
					first += (shape[axis] - 1) * strides[axis]
					strides[axis] = -strides[axis]
				}
			}
			x, err := core.Wrap(core.Memory{ID: core.CPU, Size: core.UnknownSize, Handle: 64},
				core.Spec{DType: d, Shape: shape, Strides: strides, Offset: (first + r.Int64N(20)) * size})
			if err != nil {
				t.Fatal(err)
			}
			return x
		}
		dst := tensor([]core.DType{core.TypeFloat32, core.TypeFloat16, core.TypeUint8}[r.IntN(3)])
		src := tensor([]core.DType{core.TypeUint8, core.TypeInt16}[r.IntN(2)])
		s := core.Scaling{Axis: r.IntN(rank)}
		switch r.IntN(3) {
		case 0:
			for range shape[s.Axis] {
				s.Scale, s.Offset = append(s.Scale, r.Float32()), append(s.Offset, r.Float32())
			}
		case 1:
			s.Scale = []float32{r.Float32()}
		}
		l := gpuconvert.Limits{Range: 1 << 30, Alignment: int64(4 << r.IntN(4)), Groups: 65535}
		if r.IntN(2) == 0 {
			l.Range = 1<<10 + r.Int64N(1000)
		}
		want := make(map[element]int)
		index := make([]int64, rank)
		for n := int64(0); n < src.NumElements(); n++ {
			rest := n
			e := element{dst: dst.Offset(), src: src.Offset()}
			for i := range shape {
				index[i] = rest % shape[i]
				rest /= shape[i]
				e.dst += index[i] * dst.Layout().Stride(i) * int64(dst.DType().Bits/8)
				e.src += index[i] * src.Layout().Stride(i) * int64(src.DType().Bits/8)
			}
			e.scale, e.offset = s.At(int(index[s.Axis]))
			want[e]++
		}
		list, err := gpuconvert.Plan(dst, src, s, l)
		if errors.Is(err, core.ErrNotSupported) && l.Range < 1<<30 && dst.NumElements() > gpuconvert.MaxDispatches {
			refused++ // so small windows need too many dispatches for it
			_, _ = dst.Close(), src.Close()
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			for _, e := range visit(t, d, int64(dst.DType().Bits/8), int64(src.DType().Bits/8), l) {
				want[e]--
			}
		}
		for e, n := range want {
			if n != 0 {
				t.Fatalf("%v from %v: %+v is converted %d times", dst, src, e, 1-n)
			}
		}
		_, _ = dst.Close(), src.Close()
	}
	if refused > 20 {
		t.Errorf("%d of 200 conversions were refused", refused)
	}
}

// What needs too many dispatches is refused, and not planned: many axes that do not merge, also with channels, and
// a small range of a window.
func TestPlanIsBounded(t *testing.T) {
	tensor := func(d core.DType, rank int, backwards bool) *core.Tensor {
		shape, strides := make([]int64, rank), make([]int64, rank)
		for i := range shape {
			shape[i], strides[i] = 2, 1<<i
			if backwards {
				strides[i] = 1 << (rank - 1 - i)
			}
		}
		x, err := core.Wrap(core.Memory{ID: core.CPU, Size: core.UnknownSize, Handle: 64}, core.Spec{DType: d, Shape: shape, Strides: strides})
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	one, two := core.Scaling{Scale: []float32{2}}, core.Scaling{Scale: []float32{2, 3}}
	const most = 12 // log2 of MaxDispatches
	for _, c := range []struct {
		rank     int
		s        core.Scaling
		shiftOf  int // log2 of the range of a window
		launches int // 0: refused
		why      string
	}{
		{gpuconvert.MaxAxes + 1, one, 30, 1, ""}, // the kernel has another axis, of the channels
		{gpuconvert.MaxAxes + 1 + most, one, 30, gpuconvert.MaxDispatches, ""},
		{gpuconvert.MaxAxes + 2 + most, one, 30, 0, "axes do not merge"},
		{gpuconvert.MaxAxes + 1 + most, two, 30, gpuconvert.MaxDispatches, ""},
		{gpuconvert.MaxAxes + 2 + most, two, 30, 0, "axes do not merge"},
		{60, two, 30, 0, "axes do not merge"},
		{gpuconvert.MaxAxes + 1 + most, one, 7, 0, "axes do not merge"},
		{gpuconvert.MaxAxes + most, one, 7, 0, "its parts and channels are too many"},
	} {
		dst, src := tensor(core.TypeFloat32, c.rank, true), tensor(core.TypeUint8, c.rank, false)
		list, err := gpuconvert.Plan(dst, src, c.s, gpuconvert.Limits{Range: 1 << c.shiftOf, Alignment: 4, Groups: 65535})
		if refused := errors.Is(err, core.ErrNotSupported); len(list) != c.launches || refused != (c.launches == 0) || !refused && err != nil {
			t.Errorf("rank %d, %d factors, windows of 2^%d bytes: %d launches and %v, want %d", c.rank, len(c.s.Scale), c.shiftOf, len(list), err, c.launches)
		}
		if c.launches == 0 && err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("rank %d, windows of 2^%d bytes: error %v, want one that says %q", c.rank, c.shiftOf, err, c.why)
		}
		_, _ = dst.Close(), src.Close()
	}
}
