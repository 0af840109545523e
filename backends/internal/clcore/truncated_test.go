//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Where the host copies memory of its own, and not the driver, a fault there is the
// error of the copy.
func TestACopyOfATruncatedFileFails(t *testing.T) {
	needDriver(t, OpenCL)
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			closing := func(c interface{ Close() error }) {
				t.Cleanup(func() {
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			d, err := v.open()
			if err != nil {
				t.Fatal(err)
			}
			closing(d)
			s, err := d.NewStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			closing(s)
			square, err := coretest.Truncated(t, 64*64).Reshape(64, 64)
			if err != nil {
				t.Fatal(err)
			}
			closing(square)
			turned, err := square.Transpose()
			if err != nil {
				t.Fatal(err)
			}
			closing(turned)
			for _, visible := range []bool{true, false} {
				if visible && !v.unified {
					continue
				}
				x, err := core.Empty(t.Context(), d, core.TypeUint8, []int64{64, 64}, core.AllocOptions{HostVisible: visible})
				if err != nil {
					t.Fatal(err)
				}
				closing(x)
				for _, s := range []core.Stream{nil, s} {
					coretest.CheckTruncated(t, d, s, x, turned)
					coretest.CheckTruncated(t, d, s, turned, x)
				}
			}
			_ = s.Synchronize(t.Context()) // tells of one of them
		})
	}
}
