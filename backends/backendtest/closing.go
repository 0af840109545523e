package backendtest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/core/coretest"
)

// closingTime is how long Close of a device may take while others use the device.
const closingTime = 10 * time.Second

// ClosesUnderLoad checks that a device can be closed while goroutines continually open and close things on
// it, so that something is open nearly always. Close may fail many times, but must succeed soon. After that
// the goroutines' calls must fail with core.ErrClosed and leave nothing open.
func ClosesUnderLoad(t *testing.T, open func(testing.TB) core.Device) {
	for name, use := range map[string]func(core.Device) error{
		"streams": useStream,
		"memory":  useMemory,
		"copies":  useBoth,
	} {
		t.Run(name, func(t *testing.T) {
			coretest.CheckNoLeaks(t)
			d := open(t)
			var group sync.WaitGroup
			var rounds atomic.Int64
			for range 4 {
				group.Go(func() {
					for {
						if err := use(d); errors.Is(err, core.ErrClosed) {
							return
						} else if err != nil {
							t.Error(err)
							return
						}
						rounds.Add(1)
					}
				})
			}
			for rounds.Load() < 20 && !t.Failed() {
				time.Sleep(time.Millisecond)
			}
			begin := time.Now()
			calls := 1
			for ; d.Close() != nil; calls++ {
				if time.Since(begin) > 6*closingTime {
					t.Fatalf("not closed after %v and %d calls", time.Since(begin), calls)
				}
				runtime.Gosched()
			}
			took := time.Since(begin)
			if t.Logf("closed after %v and %d calls", took, calls); took > closingTime {
				t.Errorf("it took %v, more than %v", took, closingTime)
			}
			group.Wait()
		})
	}
}

func useStream(d core.Device) error {
	s, err := d.NewStream(context.Background())
	if err != nil {
		return err
	}
	return s.Close()
}

func useMemory(d core.Device) error {
	x, err := core.Empty(context.Background(), d, core.TypeUint8, []int64{1000}, core.AllocOptions{})
	if err != nil {
		return err
	}
	return x.Close()
}

// useBoth closes memory whose work is not done.
func useBoth(d core.Device) error {
	host, err := core.FromSlice(make([]byte, 1000))
	if err != nil {
		return err
	}
	s, err := d.NewStream(context.Background())
	if err != nil {
		return errors.Join(err, host.Close())
	}
	x, err := core.Empty(context.Background(), d, core.TypeUint8, []int64{1000}, core.AllocOptions{})
	if err != nil {
		return errors.Join(err, host.Close(), s.Close())
	}
	return errors.Join(d.Copy(context.Background(), s, x, host), x.Close(), host.Close(), s.Close())
}
