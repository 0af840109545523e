//go:build vulkan && linux && cgo

package vulkan

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// The host does all copies of its memory, whichever way they go.
func TestACopyOfATruncatedFileFails(t *testing.T) {
	d := opened(t)
	s, err := d.NewStream(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, n := range []int64{16, 512, 2048} {
		gone := keep(t)(coretest.Truncated(t, n*n).Reshape(n, n))
		card := keep(t)(row(t, d, n*n, core.AllocOptions{}).Reshape(n, n))
		visible := keep(t)(row(t, d, n*n, core.AllocOptions{HostVisible: true}).Reshape(n, n))
		changed := keep(t)(gone.Transpose())
		for _, s := range []core.Stream{nil, s} {
			for _, x := range []*core.Tensor{card, visible} {
				coretest.CheckTruncated(t, d, s, x, gone)
				coretest.CheckTruncated(t, d, s, gone, x)
				coretest.CheckTruncated(t, d, s, x, changed)
				coretest.CheckTruncated(t, d, s, changed, x)
			}
		}
	}
	_ = s.Synchronize(t.Context()) // tells of one of them
	x := row(t, d, 100, core.AllocOptions{})
	put(t, d, x, pattern(100, 1)) // the device goes on
}
