package gl

import (
	"runtime"

	"github.com/dlx-go/dlx/core"
)

// Loop runs functions from any goroutine on the thread where an OpenGL context is current.
type Loop struct {
	thread int
	work   chan func()
}

// NewLoop makes a loop for the calling thread. The caller must have locked its goroutine to the thread. A
// Loop needs no Close.
func NewLoop() *Loop { return &Loop{currentThread(), make(chan func())} }

// Run calls f on the loop's thread and returns when f has returned. On that thread it calls f at once. On any
// other thread it waits until the loop's thread calls [Loop.Poll] or [Loop.Call].
func (l *Loop) Run(f func()) {
	if l.lock("Run") == nil {
		defer runtime.UnlockOSThread()
		f()
		return
	}
	done := make(chan struct{})
	l.work <- func() { defer close(done); f() }
	<-done
}

// Poll calls the functions that are waiting in [Loop.Run] now, and does not wait for more. It must be called
// on the loop's thread. On another thread it calls nothing and fails with core.ErrInvalid.
func (l *Loop) Poll() error {
	if err := l.lock("Poll"); err != nil {
		return err
	}
	defer runtime.UnlockOSThread()
	for {
		select {
		case f := <-l.work:
			f()
		default:
			return nil
		}
	}
}

// Call calls f in another goroutine and returns what f returned. Meanwhile it calls, on the loop's thread,
// the functions that are waiting in [Loop.Run], so f may wait for anything. The loop's thread uses Call to
// close the device, to copy without a stream, or to wait for a tensor. On another thread Call does not call f
// and fails with core.ErrInvalid.
func (l *Loop) Call(f func() error) error {
	if err := l.lock("Call"); err != nil {
		return err
	}
	defer runtime.UnlockOSThread()
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		select {
		case work := <-l.work:
			work()
		case err := <-done:
			return err
		}
	}
}

// lock locks the goroutine to its thread, if that is the loop's. A goroutine that its caller has not locked
// may have moved to another thread, where no context is current.
func (l *Loop) lock(call string) error {
	runtime.LockOSThread()
	if thread := currentThread(); thread != l.thread {
		runtime.UnlockOSThread()
		return core.Errorf(core.ErrInvalid, "gl", call, "called on thread %d, but NewLoop was called on thread %d: call runtime.LockOSThread before NewLoop, and call Poll and Call from that goroutine only", thread, l.thread)
	}
	return nil
}
