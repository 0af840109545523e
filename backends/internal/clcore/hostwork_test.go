//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// Work that the host does not take must not hold the stream up, which waits for its end already.
func TestAStreamGoesOnWhereTheHostTakesNoWork(t *testing.T) {
	eachAPI(t, func(t *testing.T, d *device) {
		s, err := d.NewStream(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q := s.(*queue)
		if err := q.host.Close(); err != nil {
			t.Fatal(err)
		}
		q.mu.Lock()
		err = q.hostWork(func(error) error { return nil })
		q.mu.Unlock()
		if err == nil {
			t.Fatal("a closed queue of the host takes work")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		coretest.WantError(t, s.Synchronize(ctx), core.ErrClosed, "Synchronize") // the event reports the work that was not done
		if ctx.Err() == nil {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
