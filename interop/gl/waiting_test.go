//go:build gl && linux && cgo

package gl

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// The loop's thread may wait for work that needs the loop: it serves that meanwhile.
func TestTheLoopsThreadWaitsForWorkThatNeedsIt(t *testing.T) {
	renderDrawn(t, func(loop *Loop, d core.Device, x *core.Tensor) {
		s, err := d.NewStream(context.Background())
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = loop.Call(s.Close) }()
		for _, on := range []core.Stream{s, nil} {
			got := make([]byte, 5)
			host, err := core.FromSlice(got)
			if err != nil {
				t.Error(err)
				return
			}
			defer host.Close()
			copied := make(chan error, 1)
			go func() { copied <- d.Copy(context.Background(), on, host, x) }()
			if on != nil {
				err = <-copied
				copied <- err
			}
			for end := time.Now().Add(20 * time.Second); host.Ready() == nil && len(copied) == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond) // until the other goroutine has noted its copy
			}
			values, err := core.Values[byte](host)
			if err != nil || !bytes.Equal(values, []byte("drawn")) {
				t.Errorf("Values on the loop's thread: %q, %v", values, err)
			}
			if err := <-copied; err != nil {
				t.Error(err)
			}
		}
	})
}
