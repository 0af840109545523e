package core_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestAllMutableWritesWhereAllReads(t *testing.T) {
	keep := keeper(t)
	base := func(n int, shape ...int64) *core.Tensor {
		s := make([]int16, n)
		for i := range s {
			s[i] = int16(i)
		}
		return keep(core.FromSlice(s, shape...))
	}
	for name, v := range map[string]*core.Tensor{
		"row-major":                   base(6, 2, 3),
		"transposed":                  keep(base(24, 2, 3, 4).Transpose()),
		"every second":                keep(base(10, 10).Slice(0, 1, 10, 2)),
		"negative stride":             keep(base(6, 2, 3).Slice(1, 2, -1, -1)),
		"0-d":                         keep(base(3, 3).Index(0, 1)),
		"zero size":                   base(0, 2, 0),
		"zero size that would repeat": keep(keep(base(0, 1, 0).Broadcast(3, 0)).Share()),
	} {
		seq, err := core.AllMutable[int16](v)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all, err := core.All[int16](v)
		if err != nil {
			t.Fatal(name, err)
		}
		want := slices.Collect(all)
		for i := range want {
			want[i] = -want[i]
		}
		for p := range seq {
			*p = -*p
		}
		if got := slices.Collect(all); !slices.Equal(got, want) || int64(len(got)) != v.NumElements() {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		n := 0
		for p := range seq {
			*p = 99
			if n++; n == 1 {
				break
			}
		}
		for x := range all { // the first only
			if got := x == 99; got != (n > 0) {
				t.Errorf("%s: a sequence that was stopped wrote %d elements", name, n)
			}
			n = 0
		}
	}
}

func TestAllMutableRefuses(t *testing.T) {
	v, err := core.FromSlice([]int16{1, 2, 3}, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, err := v.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spec core.Spec
		want error
	}{
		"a read-only tensor":            {core.Spec{DType: core.TypeInt16, Shape: []int64{3}, Flags: core.FlagReadOnly}, core.ErrReadOnly},
		"another type":                  {core.Spec{DType: core.TypeUint16, Shape: []int64{3}}, core.ErrDType},
		"a tensor that repeats":         {core.Spec{DType: core.TypeInt16, Shape: []int64{3, 4}, Strides: []int64{1, 0}}, core.ErrLayout},
		"a tensor that repeats nothing": {core.Spec{DType: core.TypeInt16, Shape: []int64{3, 1}, Strides: []int64{1, 0}}, nil},
		"a tensor off its alignment":    {core.Spec{DType: core.TypeInt16, Shape: []int64{2}, Offset: 1}, core.ErrLayout},
	} {
		x, err := core.NewTensor(b, c.spec)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := core.AllMutable[int16](x); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		mustClose(t, x)
	}
	mustClose(t, v)
	if _, err := core.AllMutable[int16](v); !errors.Is(err, core.ErrClosed) {
		t.Errorf("a closed tensor: %v, want ErrClosed", err)
	}
}
