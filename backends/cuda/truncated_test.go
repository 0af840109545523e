//go:build cuda && linux && cgo

package cuda

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// If the host copies, and not the driver, a fault in host memory is an error of the copy and of its stream.
func TestACopyOfATruncatedFileFails(t *testing.T) {
	d := opened(t)
	s := newStream(t, d)
	for _, n := range []int64{100, 2 << 20, 20 << 20} { // one piece, and several
		gone := coretest.Truncated(t, n)
		card := keep(t)(core.Empty(t.Context(), d, core.TypeUint8, []int64{n}, core.AllocOptions{}))
		coretest.CheckTruncated(t, d, s, card, gone)
		coretest.CheckTruncated(t, d, s, gone, card)
	}
	gone := keep(t)(coretest.Truncated(t, 64*64).Reshape(64, 64))
	turned := keep(t)(gone.Transpose())
	card, pinned := matrix(t, d, core.DeviceCUDA, 64, 64), matrix(t, d, core.DeviceCUDAHost, 64, 64)
	for _, s := range []core.Stream{nil, s} {
		for _, x := range []*core.Tensor{card, pinned} {
			coretest.CheckTruncated(t, d, s, x, turned)
			coretest.CheckTruncated(t, d, s, turned, x)
		}
	}
	whole := keep(t)(core.FromSlice(make([]byte, 64*64), 64, 64))
	if err := d.Copy(t.Context(), s, card, whole); err != nil { // the stream still works
		t.Fatal(err)
	}
	if err := card.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
}
