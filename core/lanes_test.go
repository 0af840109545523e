package core_test

import (
	"math"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/core/typecode"
)

// packedOf returns a float4_e2m1fn tensor with a code of 4 bits in each element: the index of the element.
func packedOf(t *testing.T, lanes uint16, shape ...int64) *core.Tensor {
	t.Helper()
	bytes := make([]byte, 256)
	for i := range bytes {
		bytes[i] = byte(2*i&15 | (2*i+1)&15<<4)
	}
	raw, err := core.FromSlice(bytes, int64(len(bytes)))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	b, err := raw.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	u, err := core.NewTensor(b, core.Spec{DType: core.DType{Code: typecode.Float4E2M1FN, Bits: 4, Lanes: lanes}, Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = u.Close() })
	return u
}

// An NVFP4 weight has two shapes: that of its numbers, and that of PyTorch's float4_e2m1fn_x2, which has pairs.
func TestWithLanesOfPackedNumbers(t *testing.T) {
	weights := packedOf(t, 1, 2, 8)
	pairs, err := weights.WithLanes(2)
	if err != nil {
		t.Fatal(err)
	}
	defer pairs.Close()
	if got := pairs.DType().String(); got != "float4_e2m1fnx2" || !slices.Equal(pairs.Shape(), []int64{2, 4}) {
		t.Errorf("the pairs are %s of the shape %v", got, pairs.Shape())
	}
	if pairs.NumBytes() != weights.NumBytes() || pairs.Offset() != weights.Offset() {
		t.Errorf("the pairs have %d bytes at %d, the numbers %d at %d", pairs.NumBytes(), pairs.Offset(), weights.NumBytes(), weights.Offset())
	}
	back, err := pairs.WithLanes(1)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	if !back.Layout().IsContiguous() || !slices.Equal(back.Shape(), weights.Shape()) || back.DType() != weights.DType() {
		t.Errorf("back again: %v of the shape %v", back.DType(), back.Shape())
	}
	// A row can be sliced, which begins at a byte, and regrouped.
	row, err := back.Index(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer row.Close()
	quads, err := row.WithLanes(4)
	if err != nil {
		t.Fatal(err)
	}
	defer quads.Close()
	if !slices.Equal(quads.Shape(), []int64{2}) || quads.Offset() != weights.Offset()+4 {
		t.Errorf("a row of quads has the shape %v at %d", quads.Shape(), quads.Offset())
	}
}

func TestWithLanesOfStrides(t *testing.T) {
	ones := make([]int32, 64)
	for i := range ones {
		ones[i] = int32(i)
	}
	for name, c := range map[string]struct {
		lanes          uint16 // of the source
		shape, strides []int64
		to             uint16
		wantShape      []int64
		wantStrides    []int64 // nil: ErrLayout
	}{
		"grouped":               {1, []int64{2, 6}, []int64{6, 1}, 3, []int64{2, 2}, []int64{2, 1}},
		"split":                 {2, []int64{3, 4}, []int64{4, 1}, 1, []int64{3, 8}, []int64{8, 1}},
		"regrouped":             {2, []int64{3, 3}, []int64{3, 1}, 3, []int64{3, 2}, []int64{2, 1}},
		"the same":              {2, []int64{3, 3}, []int64{5, 2}, 2, []int64{3, 3}, []int64{5, 2}},
		"gaps between rows":     {1, []int64{3, 4}, []int64{8, 1}, 4, []int64{3, 1}, []int64{2, 1}},
		"rows that repeat":      {1, []int64{3, 4}, []int64{0, 1}, 2, []int64{3, 2}, []int64{0, 1}},
		"one row":               {1, []int64{1, 4}, []int64{7, 1}, 2, []int64{1, 2}, []int64{3, 1}},
		"one element a row":     {4, []int64{3, 1}, []int64{1, 9}, 1, []int64{3, 4}, []int64{4, 1}},
		"no elements":           {1, []int64{0, 4}, []int64{3, 5}, 2, []int64{0, 2}, []int64{1, 1}},
		"no columns":            {1, []int64{3, 0}, []int64{3, 1}, 2, []int64{3, 0}, []int64{1, 1}},
		"gaps in rows":          {1, []int64{2, 4}, []int64{16, 2}, 2, nil, nil},
		"backwards":             {1, []int64{4}, []int64{-1}, 2, nil, nil},
		"an odd number":         {1, []int64{2, 5}, []int64{5, 1}, 2, nil, nil},
		"rows begin in between": {1, []int64{3, 4}, []int64{5, 1}, 2, nil, nil},
		"without axes":          {2, nil, nil, 1, nil, nil},
	} {
		b := int32Buffer(t, ones)
		first := int64(0)
		if name == "backwards" {
			first = 16
		}
		src, err := core.NewTensor(b, core.Spec{DType: core.DType{Code: typecode.Int, Bits: 32, Lanes: c.lanes}, Shape: c.shape, Strides: c.strides, Offset: first})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := src.WithLanes(c.to)
		if c.wantStrides == nil {
			coretest.WantError(t, err, core.ErrLayout, name)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		} else {
			l := got.Layout()
			var strides []int64
			for a := range l.Rank() {
				strides = append(strides, l.Stride(a))
			}
			if !slices.Equal(got.Shape(), c.wantShape) || !slices.Equal(strides, c.wantStrides) || got.DType().Lanes != c.to || got.Offset() != src.Offset() {
				t.Errorf("%s: shape %v, strides %v, %v at %d", name, got.Shape(), strides, got.DType(), got.Offset())
			}
			_ = got.Close()
		}
		_, err = src.WithLanes(0)
		coretest.WantError(t, err, core.ErrDType, name)
		_ = src.Close()
		_, err = src.WithLanes(c.lanes)
		coretest.WantError(t, err, core.ErrClosed, name)
	}
	// Extents of a tensor without elements may be so large that their numbers cannot be counted.
	huge, err := core.NewTensor(int32Buffer(t, ones), core.Spec{DType: core.DType{Code: typecode.Int, Bits: 1, Lanes: 8}, Shape: []int64{0, math.MaxInt64}})
	if err != nil {
		t.Fatal(err)
	}
	defer huge.Close()
	_, err = huge.WithLanes(1)
	coretest.WantError(t, err, core.ErrLayout, "huge")
}

func int32Buffer(t *testing.T, values []int32) *core.Buffer {
	t.Helper()
	whole, err := core.FromSlice(values, int64(len(values)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = whole.Close() })
	b, err := whole.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	return b
}
