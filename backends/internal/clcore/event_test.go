//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
	"github.com/dlx-go/dlx/stream"
)

// eachAPI runs a test on the first device of each backend that has a driver.
func eachAPI(t *testing.T, f func(t *testing.T, d *device)) {
	for _, a := range []API{OpenCL, OneAPI} {
		t.Run(string(a), func(t *testing.T) {
			needDriver(t, a)
			opened, err := a.Backend().Open(t.Context(), core.DeviceID{Type: a.deviceType()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := opened.Close(); err != nil {
					t.Error(err)
				}
			})
			f(t, opened.(*device))
		})
	}
}

// userEventOf makes a cl_event of another library, which is not complete.
func userEventOf(t *testing.T, d *device) driver.Event {
	t.Helper()
	raw, s := driver.CreateUserEvent(d.context)
	if s != driver.Success {
		t.Fatal(s)
	}
	t.Cleanup(func() { driver.ReleaseEvent(raw) })
	return raw
}

// collect runs the garbage collector, and gives the cleanups that it has found time to run.
func collect() {
	for range 5 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
	}
}

// An imported event that nothing but its waiter refers to is done when its work is, not when the garbage collector runs.
func TestAnImportedEventOutlivesItsWaiters(t *testing.T) {
	for name, begin := range map[string]func(t *testing.T, d *device, e core.Event) (wait func() error){
		"Wait": func(t *testing.T, d *device, e core.Event) func() error {
			done := make(chan error, 1)
			go func() { done <- e.Wait(context.Background()) }()
			return func() error { return <-done }
		},
		"a queue of the host": func(t *testing.T, d *device, e core.Event) func() error {
			q := stream.NewQueue(nil)
			if err := q.Wait(e); err != nil {
				t.Fatal(err)
			}
			return q.Close
		},
		"a stream": func(t *testing.T, d *device, e core.Event) func() error {
			q, err := d.NewStream(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Wait(e); err != nil {
				t.Fatal(err)
			}
			return q.Close
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachAPI(t, func(t *testing.T, d *device) {
				raw := userEventOf(t, d)
				e, err := d.ImportEvent(d, uintptr(raw))
				if err != nil {
					t.Fatal(err)
				}
				wait := begin(t, d, e)
				ended := make(chan error, 1)
				go func() { ended <- wait() }()
				time.Sleep(10 * time.Millisecond)
				collect()
				select {
				case err := <-ended:
					t.Errorf("the wait ended before the work: %v", err)
					ended <- nil
				default:
				}
				if s := driver.CompleteUserEvent(raw); s != driver.Success {
					t.Fatal(s)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestALostImportedEventIsReleased(t *testing.T) {
	eachAPI(t, func(t *testing.T, d *device) {
		coretest.CheckNoLeaks(t)
		raw := userEventOf(t, d)
		if _, err := d.ImportEvent(d, uintptr(raw)); err != nil {
			t.Fatal(err)
		}
		done, err := d.ImportEvent(d, uintptr(raw))
		if err != nil {
			t.Fatal(err)
		}
		if s := driver.CompleteUserEvent(raw); s != driver.Success {
			t.Fatal(s)
		}
		if err := done.Wait(t.Context()); err != nil { // it releases its reference, and the cleanup must not do so too
			t.Error(err)
		}
		collect()
	})
}
