//go:build cuda && linux && cgo

package cuda

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// While a stream waits for a value that this goroutine is still to signal, memory of every kind is released, and
// other streams work. The driver would wait for the stream if the memory were freed.
func TestReleasingMemoryDoesNotWaitForASignal(t *testing.T) {
	if os.Getenv(drainVariable) != "1" {
		simulator(t)
		for _, integrated := range []string{"0", "1"} {
			defer coretest.Child(t, t.Name(), drainVariable+"=1", integratedVariable+"="+integrated)(t)
		}
		return
	}
	release := map[string]func(*testing.T, core.Device) (release func()){
		"a block of the pool": func(t *testing.T, d core.Device) func() {
			x := row(t, d, 100, core.AllocOptions{})
			return func() {
				_ = x.Close()
				d.(core.PoolController).TrimPool()
			}
		},
		"pinned memory": func(t *testing.T, d core.Device) func() {
			x := row(t, d, 100, core.AllocOptions{Type: core.DeviceCUDAHost})
			return func() {
				_ = x.Close()
				d.(core.PoolController).TrimPool()
			}
		},
		"another device": func(t *testing.T, d core.Device) func() {
			other := open(t)
			_ = row(t, other, 100, core.AllocOptions{}).Close() // the pool keeps the block
			return func() {
				if err := other.Close(); err != nil {
					t.Error(err)
				}
			}
		},
		"a pool without room": func(t *testing.T, d core.Device) func() {
			x := row(t, d, 1<<20, core.AllocOptions{})
			pool := d.(core.PoolController)
			return func() {
				pool.SetPoolLimit(3 << 19)
				_ = x.Close()
				pool.TrimPool()
				_, err := d.Alloc(context.Background(), 1<<20, core.AllocOptions{})
				wantError(t, err, core.ErrOutOfMemory, "the memory is not freed yet")
				pool.SetPoolLimit(0)
			}
		},
		"exported memory": func(t *testing.T, d core.Device) func() {
			x, m := exported(t, d, 100)
			return func() {
				_ = m.Close()
				_ = x.Close()
			}
		},
		"imported memory": func(t *testing.T, d core.Device) func() {
			m, _ := foreign(t, d, 1<<20)
			x := imported(t, d, m)
			return func() { _ = x.Close() }
		},
	}
	if os.Getenv(integratedVariable) == "1" {
		release["mapped host memory"] = func(t *testing.T, d core.Device) func() {
			page := make([]byte, 2*os.Getpagesize())
			host := buffer(t, keep(t)(core.FromSlice(page)))
			m, err := d.(core.HostMapper).MapHost(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			return m.Free
		}
	} else {
		release["memory for other processes"] = func(t *testing.T, d core.Device) func() {
			x := row(t, d, 100, core.AllocOptions{Export: core.HandleIPC})
			return func() { _ = x.Close() }
		}
	}
	for name, prepare := range release {
		t.Run(name, func(t *testing.T) {
			d := opened(t)
			waits, works := newStream(t, d), newStream(t, d)
			x := row(t, d, 64, core.AllocOptions{})
			free := prepare(t, d)
			own, semaphore := newTimeline(t, d)
			if err := semaphore.WaitOn(waits, 1); err != nil {
				t.Fatal(err)
			}
			released := make(chan struct{})
			go func() {
				defer close(released)
				free()
				if err := d.Copy(context.Background(), works, x, keep(t)(core.FromSlice(pattern(64, 7)))); err != nil {
					t.Error(err)
				}
				if err := works.Synchronize(context.Background()); err != nil {
					t.Error(err)
				}
			}()
			select {
			case <-released:
			case <-time.After(30 * time.Second):
				t.Error("the release waits for the signal")
			}
			if err := own.Timeline.Signal(1); err != nil {
				t.Fatal(err)
			}
			<-released
		}) // Close of the device waits for what is still to be freed; coretest.Main counts it
	}
}
