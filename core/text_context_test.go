package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/typecode"
)

// counted is a context that ends when it has been asked often enough whether it has ended.
type counted struct {
	context.Context
	asked, ends int
}

func (c *counted) Err() error {
	if c.asked++; c.asked > c.ends {
		return context.Canceled
	}
	return nil
}

// The context of Text is looked at again after a few elements, in each of the passes over them.
func TestTextEndsWithItsContext(t *testing.T) {
	const n, passes = 1 << 14, 3 // to read, to format, to arrange; numbers are formatted twice
	row := make([]float32, n)
	for i := range row {
		row[i] = float32(i) / 7
	}
	floats := keeper(t)(core.FromSlice(row))
	ints := keeper(t)(core.FromSlice(make([]int64, n)))
	bools := keeper(t)(core.FromSlice(make([]bool, n)))
	complexes := keeper(t)(core.FromSlice(make([]complex64, n)))
	for _, x := range []*core.Tensor{floats, ints, bools, complexes} {
		all := core.TextOptions{Threshold: math.MaxInt64}
		whole := &counted{Context: t.Context(), ends: math.MaxInt}
		if text, err := x.Text(whole, all); err != nil || len(text) < 2*n {
			t.Fatalf("%v: %d bytes, %v", x, len(text), err)
		}
		if least := passes * n / 4096; whole.asked < least {
			t.Errorf("%v: the context was asked %d times, want %d and more", x, whole.asked, least)
		}
		for ends := 0; ends < whole.asked; ends += 1 + whole.asked/20 {
			c := &counted{Context: t.Context(), ends: ends}
			if text, err := x.Text(c, all); !errors.Is(err, context.Canceled) || text != "" || c.asked != ends+1 {
				t.Errorf("%v: %d bytes, %v, after %d questions; the context ended with question %d", x, len(text), err, c.asked, ends+1)
			}
		}
	}
}

// A tensor that repeats elements may have more of them than a text can.
func TestTextThatNoMemoryHolds(t *testing.T) {
	one := keeper(t)(core.FromSlice([]int8{1}, 1, 1))
	large := keeper(t)(one.Broadcast(1<<31, 1<<31))
	for _, o := range []core.TextOptions{{Threshold: math.MaxInt64}, {EdgeItems: math.MaxInt64}} {
		if text, err := large.Text(t.Context(), o); !errors.Is(err, core.ErrOutOfMemory) {
			t.Errorf("%+v: %d bytes, %v", o, len(text), err)
		}
	}
	if text, err := large.Text(t.Context(), core.TextOptions{}); err != nil || len(text) < 20 {
		t.Errorf("%q, %v", text, err)
	}
}

// What %+v prints is bounded, however many axes and lanes there are.
func TestFormatOfManyAxes(t *testing.T) {
	keep := keeper(t)
	one := keep(core.FromSlice([]int8{7}))
	one = keep(one.Index(0, 0))
	cube := func(extent int64, axes int) *core.Tensor {
		return keep(one.Broadcast(slices.Repeat([]int64{extent}, axes)...))
	}
	for _, c := range []struct {
		extent int64
		axes   int
		edge   int64 // the elements at the ends, 0 for none
	}{{2, 4, 3}, {9, 5, 3}, {7, 6, 2}, {5, 6, 2}, {1 << 10, 6, 2}, {7, 7, 1}, {9, 13, 1}, {9, 14, 0}, {2, 13, 3}, {2, 14, 0}, {2, 30, 0}, {2, 62, 0}} {
		x := cube(c.extent, c.axes)
		want := x.String() + "\n[...]"
		if c.edge > 0 {
			text, err := x.Text(t.Context(), core.TextOptions{EdgeItems: c.edge})
			if err != nil {
				t.Fatal(err)
			}
			want = x.String() + "\n" + text
		}
		if got := fmt.Sprintf("%+v", x); got != want {
			t.Errorf("%d axes of extent %d print %d bytes, want %d: %.200s", c.axes, c.extent, len(got), len(want), got)
		}
	}
	// Lanes are another axis.
	lanes := bytesTensor(t, core.DType{Code: typecode.Int, Bits: 8, Lanes: 40000}, make([]byte, 120000), []int64{3}, 0)
	if want, got := lanes.String()+"\n[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 0]]", fmt.Sprintf("%+v", lanes); got != want {
		t.Errorf("three elements of 40000 lanes print %d bytes: %.200s", len(got), got)
	}
}
