//go:build gl && linux && cgo

package gl

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
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

// What a call makes in a wrapped context would stay there if the device could be closed meanwhile.
func TestCloseFailsWhileACallMakesSomething(t *testing.T) {
	first, through := wrapped(t)
	closeDevice(t, first)
	name := makeBuffer(t, through, make([]byte, 100), 0)
	for what, f := range map[string]func(d *device) (core.Memory, error){
		"Alloc":         func(d *device) (core.Memory, error) { return d.Alloc(t.Context(), 100, core.AllocOptions{}) },
		"ImportPointer": func(d *device) (core.Memory, error) { return d.ImportPointer(uintptr(name), 100, nil) },
		"ImportMemory": func(d *device) (core.Memory, error) {
			h := coretest.HandleOf(t, core.HandleOpaqueFD, headed(t))
			return d.ImportMemory(t.Context(), core.ExternalMemory{Handle: h, Size: 1 << 16, Length: 1000, DeviceUUID: d.info.deviceUUID, DriverUUID: d.info.driverUUID})
		},
		"ImportSemaphore": func(d *device) (core.Memory, error) {
			d.Info.Capabilities |= core.CapImportSemaphores // the calls of a driver without the extension do nothing
			h := coretest.HandleOf(t, core.HandleOpaqueFD, memoryFile(t, 1<<16))
			s, err := d.ImportSemaphore(t.Context(), core.ExternalSemaphore{Handle: h, DeviceUUID: d.info.deviceUUID, DriverUUID: d.info.driverUUID})
			if err == nil {
				err = s.Close()
			}
			return core.Memory{}, err
		},
	} {
		t.Run(what, func(t *testing.T) {
			var closeIt atomic.Bool
			var d *device
			closed := make(chan error, 1)
			outer, err := Wrap(func(f func()) {
				if closeIt.Swap(false) {
					go func() { closed <- d.Close() }()
					for len(closed) == 0 && !d.Closed.Load() {
						runtime.Gosched()
					}
				}
				through(f)
			})
			if err != nil {
				t.Fatal(err)
			}
			d = outer.(*device)
			closeIt.Store(true)
			m, err := f(d)
			m.Free()
			if closeIt.Swap(false) {
				closeDevice(t, d)
				t.Skip(err)
			}
			if errors.Is(err, core.ErrClosed) {
				t.Error(err)
			}
			if err := <-closed; !errors.Is(err, core.ErrInvalid) {
				t.Errorf("Close: error %v, want %q", err, core.ErrInvalid)
			}
			closeDevice(t, d)
		})
	}
}
