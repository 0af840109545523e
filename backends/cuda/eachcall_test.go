//go:build cuda && linux && cgo

package cuda

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/internal/gpusim"
)

// everyCallMayFail has each of the driver's calls fail once, at each of its places in
// life, which opens things on the devices, works on them and gives all back. Whatever
// comes of it ends, is a typed error, and loses nothing.
func everyCallMayFail(t *testing.T, sim *gpusim.Simulator, calls []string, devices []core.Device, life func() error) {
	t.Helper()
	if err := life(); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	for _, call := range calls {
		t.Run(call, func(t *testing.T) {
			for n := 1; ; n++ {
				trim(t, devices)
				live, open, calls := sim.Live(), descriptors(t), sim.Count(call)
				done := make(chan error, 1)
				sim.Fail(call, n, 0)
				go func() { done <- life() }()
				var err error
				select {
				case err = <-done:
				case <-time.After(20 * time.Second):
					t.Fatalf("call %d: nothing went on", n)
				}
				sim.Fail(call, 0, 0)
				if sim.Count(call)-calls < n {
					if n == 1 {
						t.Error("it was not called")
					}
					if err != nil {
						t.Errorf("without the fault: %v", err)
					}
					return
				}
				if typed := (*core.Error)(nil); err != nil && !errors.As(err, &typed) {
					t.Errorf("call %d: error %v is no *core.Error", n, err)
				}
				now := sim.Live()
				for end := time.Now().Add(5 * time.Second); !maps.Equal(now, live) && time.Now().Before(end); now = sim.Live() {
					time.Sleep(time.Millisecond)
					trim(t, devices)
				}
				if !maps.Equal(now, live) {
					t.Errorf("call %d: open at the driver: %v, before %v", n, now, live)
				}
				if now := descriptors(t); now != open {
					t.Errorf("call %d: %d descriptors are open, %d were", n, now, open)
				}
			}
		})
	}
}

// trim gives back what devices keep for later use.
func trim(t *testing.T, devices []core.Device) {
	for _, d := range devices {
		inner, err := deviceOf("trim", d)
		if err != nil {
			t.Fatal(err)
		}
		inner.mu.Lock()
		inner.reaper.WaitWhile(&inner.mu, func(int) bool { return true })
		for _, q := range inner.unused {
			_ = q.finish()
		}
		inner.unused = nil
		inner.mu.Unlock()
		inner.TrimPool()
		inner.events.destroy()
	}
}
