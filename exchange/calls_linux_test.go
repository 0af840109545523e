//go:build linux && cgo && cuda

package exchange_test

import (
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/all"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/exchange"
	"github.com/dlx-go/dlx/internal/testing/gpusim"
)

// simulated opens the simulated CUDA device, and returns a function that counts the calls of its driver during f.
func simulated(t *testing.T) (d core.Device, calls func(f func()) int) {
	t.Helper()
	sim, err := gpusim.Open()
	if err != nil {
		t.Skip("the calls of the simulated driver are counted: " + err.Error())
	}
	if d, err = all.New().Open(t.Context(), core.DeviceID{Type: core.DeviceCUDA}); err != nil {
		t.Skip(err.Error())
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	sum := func() (n int) {
		for _, c := range sim.Calls() {
			n += c
		}
		return n
	}
	return d, func(f func()) int {
		before := sum()
		f()
		return sum() - before
	}
}

// smallSources makes n tensors of 4 KiB of each kind of memory, with the bytes of pattern.
func smallSources(t *testing.T, d core.Device, n int, f func(kind string, srcs []*core.Tensor)) {
	for kind, o := range map[string]core.AllocOptions{"pageable": {Type: core.DeviceCPU}, "pinned": {Type: core.DeviceCUDAHost}, "of the device": {}} {
		srcs := make([]*core.Tensor, n)
		for i := range srcs {
			srcs[i] = slice(t, small(i))
			if o.Type != core.DeviceCPU {
				x, err := core.Empty(t.Context(), d, core.TypeInt32, []int64{1024}, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = x.Close() })
				if err := d.Copy(t.Context(), nil, x, srcs[i]); err != nil {
					t.Fatal(err)
				}
				srcs[i] = x
			}
		}
		f(kind, srcs)
	}
}

// small is the elements of tensor i.
func small(i int) []int32 { return slices.Repeat([]int32{int32(i), -1}, 512) }

// A move of a small tensor makes few calls of the driver: those of its copy, and a look at the stream that it borrows.
func TestCallsOfASmallMove(t *testing.T) {
	d, calls := simulated(t)
	smallSources(t, d, 1, func(kind string, srcs []*core.Tensor) {
		most, n := 12, 20
		if kind == "pageable" {
			most = 40
		}
		total := 0
		for i := range n + 1 {
			var x *core.Tensor
			more := calls(func() {
				var err error
				if x, _, err = exchange.To(t.Context(), srcs[0], d, exchange.Options{Copy: exchange.Always}); err != nil {
					t.Fatal(err)
				}
			})
			if have := read(t, d, x); !slices.Equal(have, small(0)) {
				t.Errorf("%s: the result has other elements", kind)
			}
			_ = x.Close()
			if i > 0 { // before, the pool was empty
				total += more
			}
		}
		if total > n*most {
			t.Errorf("%s: %d calls for %d moves, want at most %d for each", kind, total, n, most)
		}
	})
}

// A thousand small tensors move by as many calls as one.
func TestCallsOfAThousandMoves(t *testing.T) {
	d, calls := simulated(t)
	smallSources(t, d, 1000, func(kind string, srcs []*core.Tensor) {
		for i := range 2 {
			var results []*core.Tensor
			total := calls(func() {
				var err error
				if results, _, err = exchange.ToAll(t.Context(), srcs, d, exchange.Options{Copy: exchange.Always}); err != nil {
					t.Fatal(err)
				}
			})
			for i, x := range results {
				if err := x.WaitReady(t.Context()); err != nil {
					t.Fatal(err)
				}
				if i%100 == 99 && !slices.Equal(read(t, d, x), small(i)) {
					t.Errorf("%s: result %d has other elements", kind, i)
				}
				_ = x.Close()
			}
			if i > 0 && total > 40 { // before, the pool was empty
				t.Errorf("%s: %d calls, want at most 40", kind, total)
			}
		}
	})
}
