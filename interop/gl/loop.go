package gl

import (
	"runtime"

	"github.com/dlx-go/dlx/core"
)

// Loop brings calls from any goroutine to the thread where a context is current.
type Loop struct {
	thread int
	work   chan func()
}

// NewLoop makes a loop of the calling thread, to which the caller has locked its
// goroutine. It needs no Close.
func NewLoop() *Loop { return &Loop{currentThread(), make(chan func())} }

// Run runs f on the loop's thread and returns when it has run: at once if that
// is the calling one, else when the loop is polled or runs a Call.
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

// Poll runs, on the loop's thread, what others wait for by now. It does not wait. On
// another thread it runs nothing and fails with core.ErrInvalid; what others wait for goes on waiting.
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

// Call has another goroutine run f, which may wait for anything, runs on the loop's
// thread what others ask for meanwhile, and returns what f returned. It is how the
// thread closes the device, copies without a stream, or waits for a tensor. On another
// thread it does not run f and fails with core.ErrInvalid.
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

// lock locks the goroutine to its thread, if that is the loop's: a goroutine that its
// owner has not locked may be on another one by now, where no context is current.
func (l *Loop) lock(call string) error {
	runtime.LockOSThread()
	if thread := currentThread(); thread != l.thread {
		runtime.UnlockOSThread()
		return core.Errorf(core.ErrInvalid, "gl", call, "thread %d calls, but NewLoop was called on thread %d: call runtime.LockOSThread before NewLoop, and serve the loop from that goroutine only", thread, l.thread)
	}
	return nil
}
