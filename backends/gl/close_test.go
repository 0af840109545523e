//go:build gl && linux && cgo

package gl

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dlx-go/dlx/core"
)

// Each Close that is refused waits for a moment. None waits for another one.
func TestRefusedClosesWaitAtTheSameTime(t *testing.T) {
	d := opened(t, asItIs)
	_ = row(t, d, 100, core.AllocOptions{}) // which stays open
	const calls = 20
	var begun atomic.Int32
	all := make(chan struct{})
	cancel := d.BeforeClose(func() { // returns when all calls of Close are here, or the test has failed
		if begun.Add(1) == calls {
			close(all)
		}
		select {
		case <-all:
		case <-t.Context().Done():
		}
	})
	results := make(chan error, calls)
	for range calls {
		go func() { results <- d.Close() }()
	}
	for range calls {
		if err := within(t, "Close", func() error { return <-results }); !errors.Is(err, core.ErrInvalid) {
			t.Errorf("%v, want ErrInvalid", err)
		}
	}
	cancel()
}

// Of many calls of Close all return when the device is closed.
func TestManyClosesAtTheSameTime(t *testing.T) {
	for range 20 {
		d := openAs(t, asItIs)
		_ = row(t, d, 100, core.AllocOptions{}).Close()
		var group sync.WaitGroup
		for range 8 {
			group.Go(func() {
				if err := d.Close(); err != nil || !d.Closed.Load() {
					t.Errorf("Close: %v", err)
				}
				if err := d.run(t.Context(), func() { t.Error("the context is still there") }); !errors.Is(err, errEnded) {
					t.Errorf("%v, want %v", err, errEnded)
				}
			})
		}
		group.Wait()
	}
}
