//go:build gl

package gl

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
	if currentThread() == l.thread { // no other goroutine ever runs on a locked thread
		f()
		return
	}
	done := make(chan struct{})
	l.work <- func() { f(); close(done) }
	<-done
}

// Poll runs, on the loop's thread, what others wait for by now. It does not wait.
func (l *Loop) Poll() {
	for {
		select {
		case f := <-l.work:
			f()
		default:
			return
		}
	}
}

// Call has another goroutine run f, which may wait for anything, runs on the loop's
// thread what others ask for meanwhile, and returns what f returned. It is how the
// thread closes the device, copies without a stream, or waits for a tensor.
func (l *Loop) Call(f func() error) error {
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
