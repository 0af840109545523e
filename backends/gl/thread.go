//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"
	"runtime"

	"github.com/dlx-go/dlx/backends/gl/internal/egl"
)

// executor runs a function where the device's context is current, and returns nil when it has run. If it
// returns an error, the function has not run and never will. The error is ctx's if ctx has ended, or errEnded
// if the context is destroyed. An executor is safe for concurrent use.
type executor func(ctx context.Context, f func()) error

var errEnded = errors.New("the context has ended")

// thread is a system thread with a context of its own.
type thread struct {
	work  chan func()
	quit  chan struct{}
	ended chan struct{} // closed when no work is taken any more
}

// startThread makes an OpenGL context on device, which is current on a new thread until stop.
func startThread(device egl.Device) (*thread, error) {
	t := &thread{make(chan func()), make(chan struct{}), make(chan struct{})}
	started := make(chan error)
	go t.main(device, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return t, nil
}

func (t *thread) main(device egl.Device, started chan<- error) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	context, err := device.NewContext()
	started <- err
	if err != nil {
		return
	}
	defer close(t.ended)
	defer context.Close()
	for {
		select {
		case f := <-t.work:
			f()
		case <-t.quit:
			return
		}
	}
}

// run is the thread's executor.
func (t *thread) run(ctx context.Context, f func()) error {
	done := make(chan struct{})
	select {
	case t.work <- func() { f(); close(done) }:
		<-done
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-t.ended:
		return errEnded
	}
}

// stop destroys the context and ends the thread. It must be called once.
func (t *thread) stop() {
	close(t.quit)
	<-t.ended
}
