//go:build cuda && linux && cgo

package cuda

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Close is called again and again while another goroutine opens and closes something. It must not succeed while
// that is open.
func TestADeviceIsNotClosedWhileItIsUsed(t *testing.T) {
	sim := simulator(t)
	owner := opened(t)
	_, given := exported(t, owner, 100)
	defer given.Close()
	live, files := sim.Live(), descriptors()
	alloc := func(o core.AllocOptions) func(core.Device) (func(), error) {
		return func(d core.Device) (func(), error) {
			m, err := d.Alloc(t.Context(), 5000, o)
			return m.Free, err
		}
	}
	for what, use := range map[string]func(core.Device) (end func(), err error){
		"Alloc":                alloc(core.AllocOptions{}),
		"Alloc for the pinned": alloc(core.AllocOptions{Type: core.DeviceCUDAHost}),
		"Alloc for an export":  alloc(core.AllocOptions{Export: core.HandleOpaqueFD}),
		"ImportMemory": func(d core.Device) (func(), error) {
			own, err := given.Duplicate()
			if err != nil {
				return nil, err
			}
			defer own.Close()
			m, err := d.(core.MemoryImporter).ImportMemory(t.Context(), own)
			return m.Free, err
		},
	} {
		for range 25 {
			d := open(t)
			began, done := make(chan error, 1), make(chan error, 1)
			var closed atomic.Bool
			go func() {
				for n, until := 0, time.Now().Add(2*time.Millisecond); n == 0 || time.Now().Before(until); n++ {
					end, err := use(d)
					if n == 0 {
						began <- err
					}
					if err != nil {
						done <- err
						return
					}
					time.Sleep(20 * time.Microsecond) // a Close that was called meanwhile returns
					if closed.Load() {
						done <- errors.New("the device was closed while something on it was open")
						return
					}
					end()
				}
				done <- nil
			}()
			if err := <-began; err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			for d.Close() != nil {
				runtime.Gosched()
			}
			closed.Store(true)
			if err := <-done; err != nil {
				wantError(t, err, core.ErrClosed, what)
			}
		}
	}
	wantLive(t, sim, live)
	if now := descriptors(); now != files {
		t.Errorf("%d descriptors are open, %d were", now, files)
	}
}
