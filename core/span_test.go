package core_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/dlx-go/dlx/core"
)

func TestSpanHasTheMemory(t *testing.T) {
	keep := keeper(t)
	data := []int16{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	base := keep(core.FromSlice(data, 3, 4))
	part := keep(keep(base.Slice(0, 1, 3, 1)).Slice(1, 2, 0, -1)) // {6, 5}, {10, 9}
	for name, c := range map[string]struct {
		x         *core.Tensor
		low, high int
		first     int64
	}{
		"whole":      {base, 0, 12, 0},
		"transposed": {keep(base.Transpose()), 0, 12, 0},
		"backward":   {part, 5, 11, 1},
		"repeated":   {keep(keep(base.Slice(0, 1, 2, 1)).Broadcast(7, 4)), 4, 8, 0},
		"one":        {keep(base.Index(0, 2)), 8, 12, 0},
	} {
		span := core.MutableSpan[int16]
		if c.x.ReadOnly() { // it repeats elements
			span = core.Span[int16]
		}
		s, first, release, err := span(c.x)
		if err != nil {
			t.Fatal(name, err)
		}
		if len(s) != c.high-c.low || cap(s) != len(s) || &s[0] != &data[c.low] || first != c.first {
			t.Errorf("%s: %d elements from %d on, capacity %d, the first at %d", name, len(s), s[0], cap(s), first)
		}
		release()
	}
	s, first, release, err := core.Span[int16](keep(base.Slice(0, 2, 2, 1)))
	if err != nil || len(s) != 0 || first != 0 {
		t.Errorf("without elements: %v, %d, %v", s, first, err)
	}
	release()
}

func TestSpanKeepsTheMemory(t *testing.T) {
	freed := false
	pinned, err := core.FromSlice([]int16{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pinned.Close()
	at, err := pinned.Address()
	if err != nil {
		t.Fatal(err)
	}
	x, err := core.Wrap(core.Memory{ID: core.CPU, Handle: at, Size: 4, Owner: core.FreeFunc(func() { freed = true })},
		core.Spec{DType: core.TypeInt16, Shape: []int64{2}})
	if err != nil {
		t.Fatal(err)
	}
	s, _, release, err := core.Span[int16](x)
	if err != nil {
		t.Fatal(err)
	}
	x.Close()
	if freed || !slices.Equal(s, []int16{1, 2}) {
		t.Fatal("the memory was freed")
	}
	release()
	release()
	if !freed {
		t.Fatal("the memory was not freed")
	}
	if _, _, _, err := core.Span[int16](x); !errors.Is(err, core.ErrClosed) {
		t.Errorf("of a closed tensor: %v", err)
	}
}

func TestSpanRefusals(t *testing.T) {
	keep := keeper(t)
	x := keep(core.FromSlice([]int16{1, 2}))
	there := keep(core.Wrap(core.Memory{ID: core.DeviceID{Type: core.DeviceCUDA}, Handle: 64, Size: 4}, core.Spec{DType: core.TypeInt16, Shape: []int64{2}}))
	for name, c := range map[string]struct {
		x    *core.Tensor
		want error
	}{
		"nil": {nil, core.ErrInvalid}, "read-only": {keep(x.AsReadOnly()), core.ErrReadOnly}, "a device": {there, core.ErrDevice},
	} {
		if _, _, release, err := core.MutableSpan[int16](c.x); !errors.Is(err, c.want) || release != nil {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if _, _, _, err := core.Span[uint16](x); !errors.Is(err, core.ErrDType) {
		t.Errorf("another type: %v", err)
	}
	_, _, release, err := core.Span[int16](keep(x.AsReadOnly()))
	if err != nil {
		t.Fatal(err)
	}
	release()
	read, err := x.Buffer()
	if err != nil {
		t.Fatal(err)
	}
	failed := newEvent()
	failed.err = core.ErrDeviceLost
	close(failed.c)
	read.Wrote(failed)
	if _, _, release, err := core.Span[int16](x); !errors.Is(err, core.ErrDeviceLost) || release != nil {
		t.Errorf("after a write that failed: %v", err)
	}
}
