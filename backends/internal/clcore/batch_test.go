//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"slices"
	"testing"

	"github.com/dlx-go/dlx/backends/internal/clcore/faults"
	"github.com/dlx-go/dlx/core"
)

// The driver is called once for each copy that is a command, and a few times for the whole batch. Where the host reaches the
// memory, the number of calls does not depend on that of the copies.
func TestCallsOfABatch(t *testing.T) {
	needDriver(t, OpenCL)
	installFaults()
	for _, c := range []struct {
		variant
		writes int64 // commands that write a buffer, for each copy
	}{{variants[0], 1}, {variants[3], 0}} {
		t.Run(c.name, func(t *testing.T) {
			d := must[core.Device](t)(c.open())
			s := must[core.Stream](t)(d.NewStream(t.Context()))
			var dst, src []*core.Tensor
			const n = 100
			for i := range n {
				src = append(src, must[*core.Tensor](t)(core.FromSlice(slices.Repeat([]byte{byte(i)}, 4096))))
				dst = append(dst, must[*core.Tensor](t)(core.Empty(t.Context(), d, core.TypeUint8, []int64{4096}, core.AllocOptions{})))
			}
			before := faults.Made()
			err := d.(core.BatchCopier).CopyBatch(t.Context(), s, dst, src)
			after := faults.Made()
			if err != nil {
				t.Fatal(err)
			}
			for i, call := range faults.Calls() {
				made := after[i] - before[i]
				switch call {
				case "clEnqueueWriteBuffer":
					if made != c.writes*n {
						t.Errorf("%s was called %d times, want %d", call, made, c.writes*n)
					}
				case "clGetEventInfo", "clWaitForEvents": // as often as the events are looked at
				default:
					if made > 3 {
						t.Errorf("%s was called %d times for %d copies", call, made, n)
					}
				}
			}
			for i, x := range dst {
				got := must[[]byte](t)(core.ToSlice[byte](t.Context(), x))
				if !slices.Equal(got, slices.Repeat([]byte{byte(i)}, 4096)) {
					t.Errorf("tensor %d holds other bytes", i)
				}
				_, _ = x.Close(), src[i].Close()
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
