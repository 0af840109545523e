package backendtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// hold keeps the later work of a stream from running until release is called, at the latest when the case
// ends. sure is false if the device cannot do that: the stream is then only kept busy for a while.
func (e *env) hold(s core.Stream) (release func(), sure bool) {
	e.Helper()
	gate := stream.NewEvent()
	err := s.Wait(gate)
	switch {
	case err == nil:
		release = func() { gate.Complete(nil) }
		sure = true
	case !errors.Is(err, core.ErrNotSupported):
		e.Fatalf("Wait for an event of the host: %v, want nil or ErrNotSupported", err)
	case e.cfg.Hold != nil:
		release = e.cfg.Hold(e.TB, s)
		sure = true
	case e.props.Capabilities.Has(core.CapSemaphores):
		release = e.holdBySemaphore(s)
		sure = true
	default:
		e.busyness()(s)
		release = func() {}
	}
	e.Cleanup(release)
	return release, sure
}

// holdBySemaphore is hold for streams that cannot wait for the host.
func (e *env) holdBySemaphore(s core.Stream) (release func()) {
	e.Helper()
	sem := e.semaphore()
	signaller := e.stream()
	e.check(sem.WaitOn(s, 1), "WaitOn")
	release = sync.OnceFunc(func() {
		if err := errors.Join(sem.Signal(signaller, 1), signaller.Synchronize(e.ctx)); err != nil {
			e.Errorf("Signal of the semaphore that holds a stream: %v", err)
		}
	})
	e.Cleanup(func() { // the semaphore must outlive the work that waits for it
		release()
		if err := s.Synchronize(e.ctx); err != nil && !errors.Is(err, core.ErrClosed) {
			e.Errorf("Synchronize of a stream that was held: %v", err)
		}
	})
	return release
}

// whileHeld starts f while s is held, gives it time to run too early, and releases s. Calls of f may block
// until then. It returns f's error.
func (e *env) whileHeld(release func(), f func() error) error {
	e.Helper()
	done := e.start(f)
	time.Sleep(e.cfg.grace)
	release()
	return e.finish(done)
}

// pending marks the last write of a tensor's memory as unfinished until the
// event is completed, at the latest when the case ends.
func (e *env) pending(t *core.Tensor) *stream.Event {
	e.Helper()
	b, err := t.Buffer()
	e.check(err, "Buffer")
	gate := stream.NewEvent()
	b.Wrote(gate)
	e.Cleanup(func() { gate.Complete(nil) })
	return gate
}

// isDone reports whether an event was passed, nil counting as passed.
func (e *env) isDone(ev core.Event) bool {
	e.Helper()
	if ev == nil {
		return true
	}
	done, err := ev.Done()
	if done {
		e.check(err, "Done: the error of the work")
	}
	return done
}

// passes reports whether a stream gets through its work soon.
func (e *env) passes(s core.Stream) bool {
	e.Helper()
	ctx, cancel := e.soon()
	defer cancel()
	err := s.Synchronize(ctx)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		e.Errorf("Synchronize: %v", err)
	}
	return err == nil
}

// soon is a context that ends after a short time.
func (e *env) soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(e.ctx, e.cfg.grace)
}
