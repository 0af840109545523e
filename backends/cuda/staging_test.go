//go:build cuda && linux && cgo

package cuda

import (
	"bytes"
	"maps"
	"runtime"
	"testing"

	"github.com/dlx-go/dlx/backends/cuda/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/internal/staging"
	"github.com/dlx-go/dlx/internal/testing/gpusim/gpusimtest"
)

// withProcessors lets Go use so many threads until the test ends.
func withProcessors(t *testing.T, n int) {
	t.Helper()
	before := runtime.GOMAXPROCS(n)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
}

// The host packs into pinned memory for two pieces, however large the tensor is.
func TestAPackedTensorIsPinnedInPieces(t *testing.T) {
	sim := simulator(t)
	for i, c := range []struct {
		layout         string
		shape, strides []int64 // of the tensor of the host, in elements of a byte
		from           int64
		turned         bool // the tensor of the device has gaps, too
	}{
		{"turned", []int64{3000, 3500}, []int64{1, 3000}, 0, false},
		{"backwards", []int64{10 << 20}, []int64{-1}, 10<<20 - 1, false},
		{"long rows with gaps", []int64{2, 5 << 20}, []int64{5<<20 + 100, 1}, 50, false},
		{"two rows that are one piece and a half", []int64{2, 3 << 20}, []int64{3<<20 + 100, 1}, 50, false},
		{"rows of which two are a piece", []int64{4, 3 << 19}, []int64{3<<19 + 100, 1}, 0, false},
		{"short rows with gaps", []int64{100_000, 100}, []int64{102, 1}, 1, false},
		{"planes of more than a piece", []int64{2, 3000, 1700}, []int64{5_100_000, 1, 3000}, 0, false},
		{"turned on both sides", []int64{3000, 3500}, []int64{1, 3000}, 0, true},
	} {
		t.Run(c.layout, func(t *testing.T) {
			if c.turned && testing.Short() {
				t.Skip("the simulator takes seconds for a kernel over so many bytes")
			}
			if coretest.Sanitized && i%3 != 0 {
				t.Skip("with a sanitizer three layouts are enough: all take the same goroutines")
			}
			d := opened(t)
			room := c.from + 1
			size := int64(1)
			for i, n := range c.shape {
				size *= n
				room += max((n-1)*c.strides[i], 0)
			}
			on := func(whole []byte) *core.Tensor {
				b := buffer(t, keep(t)(core.FromSlice(whole)))
				return keep(t)(core.NewTensor(b, core.Spec{DType: core.TypeUint8, Shape: c.shape, Strides: c.strides, Offset: c.from}))
			}
			content := pattern(int(room), 3)
			src, s := on(content), newStream(t, d)
			there := keep(t)(core.Empty(t.Context(), d, core.TypeUint8, c.shape, core.AllocOptions{}))
			if c.turned {
				there = keep(t)(keep(t)(core.Empty(t.Context(), d, core.TypeUint8, []int64{c.shape[1], c.shape[0]}, core.AllocOptions{})).Transpose())
			}
			want, before := make([]byte, room), sim.Live()["host_bytes"]
			if err := coretest.CopyNaive(on(want), src); err != nil {
				t.Fatal(err)
			}
			for _, at := range []core.Stream{s, nil} {
				got := make([]byte, room)
				for _, pair := range [][2]*core.Tensor{{there, src}, {on(got), there}} {
					if err := d.Copy(t.Context(), at, pair[0], pair[1]); err != nil {
						t.Fatal(err)
					}
					if err := s.Synchronize(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(got, want) {
					t.Error("wrong bytes were copied")
				}
				// The pool keeps what was pinned, and uses it again.
				if n := sim.Live()["host_bytes"] - before; n > 2*staging.PieceBytes {
					t.Errorf("%d bytes are pinned for a tensor of %d", n, size)
				}
			}
		})
	}
}

// For a caller that waits, the driver copies too. dlx is faster with several threads.
func TestALargeCopyOfPageableMemoryIsStagedForACallerThatWaits(t *testing.T) {
	simulator(t)
	other := gpusimtest.Start(t)
	d := opened(t)
	const large = 3*staging.PieceBytes + 77
	pinned := keep(t)(core.FromSlice(other.Pinned(large)))
	plain, staged := map[string]int{"cuMemcpyAsync": 1}, map[string]int{"cuMemcpyAsync": 4, "cuLaunchHostFunc": 4}
	for _, c := range []struct {
		what       string
		size       int
		processors int
		host       *core.Tensor
		want       map[string]int
	}{
		{"several pieces", large, 2, nil, staged},
		{"one piece", staging.PieceBytes, 2, nil, plain},
		{"one thread", large, 1, nil, plain},
		{"memory that another library has pinned", large, 2, pinned, plain},
	} {
		withProcessors(t, c.processors)
		there, host := row(t, d, int64(c.size), core.AllocOptions{}), c.host
		if host == nil {
			host = keep(t)(core.FromSlice(pattern(c.size, 8)))
		}
		back := make([]byte, c.size)
		if got := uses(t, func() error { return d.Copy(t.Context(), nil, there, host) }); !maps.Equal(got, c.want) {
			t.Errorf("%s, to the card: %v, want %v", c.what, got, c.want)
		}
		if c.host != nil {
			continue
		}
		if got := uses(t, func() error { return d.Copy(t.Context(), nil, keep(t)(core.FromSlice(back)), there) }); !maps.Equal(got, c.want) {
			t.Errorf("%s, from the card: %v, want %v", c.what, got, c.want)
		}
		if !bytes.Equal(back, pattern(c.size, 8)) {
			t.Errorf("%s: wrong bytes", c.what)
		}
	}
}

func TestWithoutPinnedMemoryTheDriverCopiesForACallerThatWaits(t *testing.T) {
	sim := simulator(t)
	withProcessors(t, 2)
	d := opened(t)
	const large = 2*staging.PieceBytes + 1
	there, back := row(t, d, large, core.AllocOptions{}), make([]byte, large)
	host := keep(t)(core.FromSlice(pattern(large, 7)))
	for _, pair := range [][2]*core.Tensor{{there, host}, {keep(t)(core.FromSlice(back)), there}} {
		sim.Fail("cuMemHostAlloc", 1, int(driver.OutOfMemory))
		if err := d.Copy(t.Context(), nil, pair[0], pair[1]); err != nil {
			t.Fatal(err)
		}
		d.(core.PoolController).TrimPool()
	}
	if !bytes.Equal(back, pattern(large, 7)) {
		t.Error("wrong bytes")
	}
}
