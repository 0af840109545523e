//go:build gl && linux && cgo

package gl

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/go-gl/gl/v4.5-core/gl"

	"github.com/dlx-go/dlx/core"
)

// onAnotherThread runs f on a thread that is no loop's.
func onAnotherThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		f()
	}()
	<-done
}

// renderDrawn is render with a tensor of a buffer that holds the bytes "drawn".
func renderDrawn(t *testing.T, f func(loop *Loop, d core.Device, x *core.Tensor)) {
	render(t, func(loop *Loop, d core.Device) {
		name := newBuffer("drawn")
		defer gl.DeleteBuffers(1, &name)
		x, err := Import(d, name, 5, bytesOf(5), nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer x.Close()
		f(loop, d, x)
	})
}

func TestALoopThatIsServedOnAnotherThreadRunsNothing(t *testing.T) {
	renderDrawn(t, func(loop *Loop, d core.Device, x *core.Tensor) {
		got := make([]byte, 5)
		host, err := core.FromSlice(got)
		if err != nil {
			t.Error(err)
			return
		}
		defer host.Close()
		copied := make(chan error, 1)
		go func() { copied <- d.Copy(context.Background(), nil, host, x) }()
		time.Sleep(10 * time.Millisecond) // it waits for the loop
		onAnotherThread(func() {
			if err := loop.Poll(); !errors.Is(err, core.ErrInvalid) {
				t.Errorf("Poll on another thread: error %v, want %q", err, core.ErrInvalid)
			}
			err := loop.Call(func() error { t.Error("Call on another thread runs its function"); return nil })
			if !errors.Is(err, core.ErrInvalid) {
				t.Errorf("Call on another thread: error %v, want %q", err, core.ErrInvalid)
			}
		})
		select {
		case err := <-copied:
			t.Errorf("the copy ended, although the loop's thread did nothing: %v", err)
			copied <- err
		case <-time.After(50 * time.Millisecond):
		}
		for {
			if err := loop.Poll(); err != nil {
				t.Error(err)
			}
			select {
			case err := <-copied:
				if err != nil || string(got) != "drawn" {
					t.Errorf("the copy: %q, error %v", got, err)
				}
				return
			case <-time.After(time.Millisecond): // a frame
			}
		}
	})
}

func TestACopyEndsWithItsContextWhileNobodyPolls(t *testing.T) {
	renderDrawn(t, func(loop *Loop, d core.Device, x *core.Tensor) {
		host, err := core.FromSlice([]byte("other"))
		if err != nil {
			t.Error(err)
			return
		}
		defer host.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		copied := make(chan error, 1)
		go func() { copied <- d.Copy(ctx, nil, x, host) }()
		if err := <-copied; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the copy: error %v, want %v", err, context.DeadlineExceeded)
		}
		if err := loop.Poll(); err != nil {
			t.Error(err)
		}
		name, _, err := Name(x)
		if err != nil {
			t.Error(err)
			return
		}
		if got := contentOf(name, 5); got != "drawn" {
			t.Errorf("the buffer holds %q: the copy ran after it had failed", got)
		}
	})
}
