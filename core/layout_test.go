package core_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func layout(t testing.TB, shape, strides []int64) core.Layout {
	t.Helper()
	l, err := core.NewStridedLayout(shape, strides)
	if err != nil {
		t.Fatalf("NewStridedLayout(%v, %v): %v", shape, strides, err)
	}
	return l
}

func TestNewLayoutIsRowMajor(t *testing.T) {
	for _, c := range []struct{ shape, strides []int64 }{
		{nil, nil},
		{[]int64{5}, []int64{1}},
		{[]int64{2, 3, 4}, []int64{12, 4, 1}},
		{[]int64{2, 0, 4}, []int64{4, 4, 1}},
		{[]int64{1, 1}, []int64{1, 1}},
	} {
		l, err := core.NewLayout(c.shape...)
		if err != nil || !slices.Equal(l.Strides(), c.strides) || !slices.Equal(l.Shape(), c.shape) || !l.IsContiguous() {
			t.Errorf("NewLayout(%v) = %v, %v; want strides %v", c.shape, l, err, c.strides)
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	const most = math.MaxInt64
	for name, c := range map[string]struct{ shape, strides []int64 }{
		"negative extent":               {[]int64{2, -1}, nil},
		"smallest extent":               {[]int64{math.MinInt64}, nil},
		"negative beside zero":          {[]int64{0, -1}, nil},
		"product overflows":             {[]int64{1 << 32, 1 << 31}, nil},
		"product overflows to zero":     {[]int64{1 << 32, 1 << 32}, nil},
		"stride times extent overflows": {[]int64{3}, []int64{most}},
		"smallest stride":               {[]int64{2}, []int64{math.MinInt64}},
		"sum of strides overflows":      {[]int64{2, 2}, []int64{most, 1}},
		"negative sum overflows":        {[]int64{2, 2, 2}, []int64{-most, -1, -1}},
		"span overflows":                {[]int64{2, 2}, []int64{most / 2, -most/2 - 2}},
		"span of the extremes":          {[]int64{2, 2}, []int64{most, -most}},
		"elements end beyond int64":     {[]int64{2}, []int64{most}},
		"fewer strides than axes":       {[]int64{2, 2}, []int64{1}},
		"too many axes":                 {make([]int64, core.MaxRank+1), nil},
	} {
		if l, err := core.NewStridedLayout(c.shape, c.strides); !errors.Is(err, core.ErrLayout) {
			t.Errorf("%s: %v, %v; want ErrLayout", name, l, err)
		}
	}
	for name, c := range map[string]struct{ shape, strides []int64 }{
		"zero-size with huge extents":    {[]int64{1 << 62, 1 << 62, 0}, nil},
		"zero-size with any strides":     {[]int64{0, 2}, []int64{most, math.MinInt64}},
		"any stride where extent is one": {[]int64{1, 3}, []int64{math.MinInt64, 1}},
		"the widest span":                {[]int64{2}, []int64{most - 1}},
		"64 axes":                        {slices.Repeat([]int64{1}, core.MaxRank), nil},
		"repeated elements":              {[]int64{1 << 62}, []int64{0}},
	} {
		if _, err := core.NewStridedLayout(c.shape, c.strides); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLayoutExtentAndContiguity(t *testing.T) {
	for _, c := range []struct {
		shape, strides []int64
		low, high      int64
		contiguous     bool
		overlap        bool
	}{
		{nil, nil, 0, 1, true, false},
		{[]int64{0}, nil, 0, 0, true, false},
		{[]int64{3, 0}, []int64{0, 7}, 0, 0, true, false},
		{[]int64{2, 3}, nil, 0, 6, true, false},
		{[]int64{2, 3}, []int64{1, 2}, 0, 6, false, false},
		{[]int64{2, 3}, []int64{-3, -1}, -5, 1, false, false},
		{[]int64{2, 3}, []int64{3, -1}, -2, 4, false, false},
		{[]int64{4, 3}, []int64{0, 1}, 0, 3, false, true},
		{[]int64{1, 3}, []int64{99, 1}, 0, 3, true, false},
		{[]int64{1, 1}, []int64{0, 0}, 0, 1, true, false},
		{[]int64{2, 3}, []int64{6, 2}, 0, 11, false, false},
	} {
		l := layout(t, c.shape, c.strides)
		low, high := l.Extent()
		if low != c.low || high != c.high || l.IsContiguous() != c.contiguous || l.HasOverlap() != c.overlap {
			t.Errorf("shape %v strides %v: extent %d..%d, contiguous %v, overlap %v; want %v", c.shape, c.strides, low, high, l.IsContiguous(), l.HasOverlap(), c)
		}
	}
}

// offsets lists where the elements of a view lie, in row-major order.
func offsets(l core.Layout, start int64) []int64 {
	out := []int64{start}
	for i := range l.Rank() {
		next := make([]int64, 0, int64(len(out))*l.Dim(i))
		for _, o := range out {
			for j := range l.Dim(i) {
				next = append(next, o+j*l.Stride(i))
			}
		}
		out = next
	}
	return out
}

func TestSlice(t *testing.T) {
	l := layout(t, []int64{2, 5}, nil)
	for _, c := range []struct {
		start, stop, step int64
		want              []int64 // of the first row
	}{
		{0, 5, 1, []int64{0, 1, 2, 3, 4}},
		{1, 4, 1, []int64{1, 2, 3}},
		{0, 5, 2, []int64{0, 2, 4}},
		{1, 5, 3, []int64{1, 4}},
		{4, -1, -1, []int64{4, 3, 2, 1, 0}},
		{4, -1, -2, []int64{4, 2, 0}},
		{3, 0, -2, []int64{3, 1}},
		{2, 2, 1, nil},
		{5, 5, 1, nil},
		{2, 2, -1, nil},
		{0, 5, math.MaxInt64, []int64{0}},
		{4, -1, math.MinInt64, []int64{4}},
	} {
		v, by, err := l.Slice(1, c.start, c.stop, c.step)
		if err != nil {
			t.Errorf("[%d:%d:%d]: %v", c.start, c.stop, c.step, err)
			continue
		}
		row, _, err := v.Index(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := offsets(row, by); !slices.Equal(got, c.want) && len(got)+len(c.want) > 0 {
			t.Errorf("[%d:%d:%d] takes %v, want %v", c.start, c.stop, c.step, got, c.want)
		}
	}
	for _, c := range [][4]int64{{2, 0, 1, 1}, {-1, 0, 1, 1}, {1, 0, 6, 1}, {1, -1, 3, 1}, {1, 3, 2, 1}, {1, 0, 5, 0}, {1, 5, 0, -1}, {1, 2, 3, -1}, {1, 4, -2, -1}} {
		if v, _, err := l.Slice(int(c[0]), c[1], c[2], c[3]); !errors.Is(err, core.ErrLayout) {
			t.Errorf("Slice(%v) = %v, %v; want ErrLayout", c, v, err)
		}
	}
}

func TestReshape(t *testing.T) {
	for _, c := range []struct {
		shape, strides []int64 // of the tensor
		to             []int64
		want           []int64 // strides; nil: a view cannot do it
	}{
		{[]int64{2, 3}, nil, []int64{6}, []int64{1}},
		{[]int64{2, 3}, nil, []int64{3, 2}, []int64{2, 1}},
		{[]int64{2, 3}, nil, []int64{-1}, []int64{1}},
		{[]int64{2, 3}, nil, []int64{2, -1, 1}, []int64{3, 1, 1}},
		{[]int64{6}, []int64{2}, []int64{2, 3}, []int64{6, 2}},
		{[]int64{6}, []int64{-1}, []int64{2, 3}, []int64{-3, -1}},
		{[]int64{2, 3}, []int64{1, 2}, []int64{6}, nil},
		{[]int64{2, 3}, []int64{1, 2}, []int64{2, 1, 3}, []int64{1, 3, 2}},
		{[]int64{4, 3}, []int64{6, 2}, []int64{12}, []int64{2}},
		{[]int64{4, 3, 5}, []int64{100, 5, 1}, []int64{4, 15}, []int64{100, 1}},
		{[]int64{4, 3, 5}, []int64{100, 5, 1}, []int64{12, 5}, nil},
		{[]int64{4, 3, 5}, []int64{100, 5, 1}, []int64{2, 2, 15}, []int64{200, 100, 1}},
		{[]int64{3, 1, 2}, []int64{4, 9, 1}, []int64{3, 2}, []int64{4, 1}},
		{nil, nil, []int64{1, 1}, []int64{1, 1}},
		{[]int64{1, 1}, []int64{7, 9}, []int64{}, []int64{}},
		{[]int64{0, 3}, nil, []int64{3, 0}, []int64{1, 1}},
		{[]int64{0, 3}, []int64{5, 9}, []int64{0}, []int64{1}},
		{[]int64{2, 3}, []int64{0, 0}, []int64{6}, []int64{0}},
	} {
		l := layout(t, c.shape, c.strides)
		v, err := l.Reshape(c.to...)
		if c.want == nil {
			if !errors.Is(err, core.ErrLayout) {
				t.Errorf("%v/%v as %v = %v, %v; want ErrLayout", c.shape, c.strides, c.to, v, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v/%v as %v: %v", c.shape, c.strides, c.to, err)
		} else if !slices.Equal(v.Strides(), c.want) || !slices.Equal(offsets(v, 0), offsets(l, 0)) {
			t.Errorf("%v/%v as %v has strides %v, want %v", c.shape, c.strides, c.to, v.Strides(), c.want)
		}
	}
	l := layout(t, []int64{2, 3}, nil)
	for _, to := range [][]int64{{5}, {}, {-1, -1}, {-1, 4}, {-1, 0}, {2, -3}, {math.MaxInt64, 2}, {-2, -3}} {
		if v, err := l.Reshape(to...); !errors.Is(err, core.ErrLayout) {
			t.Errorf("Reshape(%v) = %v, %v; want ErrLayout", to, v, err)
		}
	}
}

func TestPermuteSqueezeExpandBroadcast(t *testing.T) {
	l := layout(t, []int64{1, 2, 1, 3}, nil)
	check := func(name string, got core.Layout, err error, shape, strides []int64) {
		t.Helper()
		if err != nil || !slices.Equal(got.Shape(), shape) || !slices.Equal(got.Strides(), strides) {
			t.Errorf("%s = %v %v, %v; want %v %v", name, got.Shape(), got.Strides(), err, shape, strides)
		}
	}
	v, err := l.Permute(3, 1, 0, 2)
	check("Permute", v, err, []int64{3, 2, 1, 1}, []int64{1, 3, 6, 3})
	v, err = l.Squeeze()
	check("Squeeze()", v, err, []int64{2, 3}, []int64{3, 1})
	v, err = l.Squeeze(2)
	check("Squeeze(2)", v, err, []int64{1, 2, 3}, []int64{6, 3, 1})
	v, err = v.Expand(3)
	check("Expand(3)", v, err, []int64{1, 2, 3, 1}, []int64{6, 3, 1, 1})
	v, err = l.Expand(1)
	check("Expand(1)", v, err, []int64{1, 1, 2, 1, 3}, []int64{6, 6, 3, 3, 1})
	v, err = layout(t, []int64{2, 1}, nil).Broadcast(4, 2, 3)
	check("Broadcast", v, err, []int64{4, 2, 3}, []int64{0, 1, 0})
	v, err = layout(t, []int64{1}, nil).Broadcast(0)
	check("Broadcast to zero", v, err, []int64{0}, []int64{0})
	v, err = layout(t, nil, nil).Broadcast(2)
	check("Broadcast of 0-d", v, err, []int64{2}, []int64{0})

	refuse := func(name string, got core.Layout, err error) {
		t.Helper()
		if !errors.Is(err, core.ErrLayout) {
			t.Errorf("%s = %v, %v; want ErrLayout", name, got, err)
		}
	}
	for _, axes := range [][]int{{0, 1, 2}, {0, 1, 2, 2}, {0, 1, 2, 4}, {-1, 0, 1, 2}} {
		v, err = l.Permute(axes...)
		refuse("Permute", v, err)
	}
	v, err = l.Squeeze(1)
	refuse("Squeeze of extent 2", v, err)
	v, err = l.Squeeze(4)
	refuse("Squeeze out of range", v, err)
	v, err = l.Expand(5)
	refuse("Expand out of range", v, err)
	v, err = layout(t, slices.Repeat([]int64{1}, core.MaxRank), nil).Expand(0)
	refuse("Expand beyond MaxRank", v, err)
	v, err = l.Broadcast(3)
	refuse("Broadcast to fewer axes", v, err)
	v, err = l.Broadcast(1, 2, 1, 4)
	refuse("Broadcast of extent 3", v, err)
	v, err = layout(t, []int64{1}, nil).Broadcast(-1)
	refuse("Broadcast to a negative extent", v, err)
}

func FuzzLayout(f *testing.F) {
	f.Add([]byte{3, 2, 3, 4, 12, 4, 1})
	f.Add([]byte{2, 0x80, 0xff, 1, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int64 {
			if len(data) == 0 {
				return 1
			}
			b := int64(int8(data[0]))
			data = data[1:]
			return b << (uint(b) & 7 * 9) // small and huge values of both signs
		}
		n := int(next()) & 7
		shape, strides := make([]int64, n), make([]int64, n)
		for i := range n {
			shape[i] = next()
		}
		for i := range n {
			strides[i] = next()
		}
		l, err := core.NewStridedLayout(shape, strides)
		if err != nil {
			if !errors.Is(err, core.ErrLayout) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		low, high := l.Extent()
		if low > 0 || high < 0 || (l.NumElements() > 0) != (high > low) {
			t.Fatalf("%v %v: extent %d..%d of %d elements", shape, strides, low, high, l.NumElements())
		}
		for range 4 {
			v, by, err := l.Slice(int(next())&7, next(), next(), next())
			if err != nil {
				continue
			}
			if vl, vh := v.Extent(); vh > vl && (by+vl < low || by+vh > high) {
				t.Fatalf("%v %v: slice %v %v at %d leaves %d..%d", shape, strides, v.Shape(), v.Strides(), by, low, high)
			}
		}
		if v, err := l.Reshape(-1, next()); err == nil && v.NumElements() != l.NumElements() {
			t.Fatal("reshape changed the number of elements")
		}
	})
}
