package core_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/dlx-go/dlx/core"
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
