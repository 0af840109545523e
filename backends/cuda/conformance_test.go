//go:build cuda && linux && cgo

package cuda

import (
	"sync"
	"testing"

	"github.com/dlx-go/dlx/backends/backendtest"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/gpusim"
)

func first(tb testing.TB) core.Device  { return open(tb) }
func second(tb testing.TB) core.Device { return open(tb, 1) }

// options are those of the simulator, which alone has a second device for sure, and a
// semaphore that the host signals; on a card the suite keeps streams busy instead.
func options() []backendtest.Option {
	if _, err := gpusim.Open(); err != nil {
		return nil
	}
	return []backendtest.Option{backendtest.WithPeer(second), backendtest.WithHold(hold)}
}

// hold keeps a stream from going on until the result is called.
func hold(tb testing.TB, s core.Stream) (release func()) {
	own, imported := newTimeline(tb, s.Device())
	if err := imported.WaitOn(s, 1); err != nil {
		tb.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := own.Timeline.Signal(1); err != nil {
			tb.Error(err)
		}
	})
}

func TestConformance(t *testing.T) { backendtest.Run(t, first, options()...) }

// TestConformanceOfAnIntegratedDevice takes a device for one that has its memory in
// common with the host.
func TestConformanceOfAnIntegratedDevice(t *testing.T) {
	simulator(t)
	backendtest.Run(t, func(tb testing.TB) core.Device {
		d := open(tb).(*device)
		d.properties.Capabilities |= core.CapMapHost
		d.outer = integrated{d}
		return d.outer
	}, options()...)
}

func TestRandomProgramsAgreeWithTheHost(t *testing.T) {
	n := 10_000
	if testing.Short() || sanitized {
		n = 500
	}
	backendtest.Programs(t, first, n, options()...)
}
