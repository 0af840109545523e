package core_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// What copies a tensor fails if the system has no memory for the copy, instead of ending the process.
func TestMemoryThatTheSystemRefuses(t *testing.T) {
	if !coretest.LimitMemory(t) {
		return
	}
	ctx := t.Context()
	one := coretest.Keep(t)(core.FromSlice([]int16{7}, 1, 1))
	for _, side := range []int64{1 << 17, 1 << 18, 1 << 20, 1 << 24, 1 << 29} { // from 2^35 bytes on
		t.Run(fmt.Sprint(side), func(t *testing.T) {
			large := coretest.Keep(t)(one.Broadcast(side, side))
			for name, f := range map[string]func() (*core.Tensor, error){
				"Clone":      func() (*core.Tensor, error) { return large.Clone(ctx) },
				"Contiguous": func() (*core.Tensor, error) { return large.Contiguous(ctx) },
				"AsType":     func() (*core.Tensor, error) { return large.AsType(ctx, core.TypeFloat64) },
				"Stack": func() (*core.Tensor, error) {
					return core.Stack(ctx, []*core.Tensor{large, large}, 1, core.AllocOptions{})
				},
				"ToSlice": func() (*core.Tensor, error) {
					_, err := core.ToSlice[int16](ctx, large)
					return nil, err
				},
			} {
				got, err := f()
				coretest.WantError(t, err, core.ErrOutOfMemory, name)
				if got != nil {
					t.Errorf("%s returned a tensor, too", name)
				}
			}
		})
	}
}

// A copy that is large enough to lie outside of Go's heap is like any other.
func TestLargeCopies(t *testing.T) {
	ctx := context.Background()
	const rows, columns = 1 << 10, 1<<15 + 1 // 64 MiB of int16, and 64 KiB
	row := make([]int16, columns)
	for i := range row {
		row[i] = int16(i)
	}
	base := coretest.Keep(t)(core.FromSlice(row, 1, columns))
	wide := coretest.Keep(t)(base.Broadcast(rows, columns))
	clone, err := wide.Clone(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second := coretest.Keep(t)(clone.Slice(0, 1, 2, 1))
	last, err := core.At[int16](clone, rows-1, columns-1)
	if err != nil || last != row[columns-1] {
		t.Errorf("the last element is %d, want %d; %v", last, row[columns-1], err)
	}
	clone.Close()
	got, err := core.ToSlice[int16](ctx, second) // keeps the memory
	if err != nil || len(got) != columns || got[5] != 5 {
		t.Errorf("%d elements, %v", len(got), err)
	}
	all, err := core.ToSlice[int16](ctx, wide)
	if err != nil || len(all) != rows*columns || all[rows*columns-1] != row[columns-1] {
		t.Errorf("%d elements, %v", len(all), err)
	}
}
