//go:build linux

package relay_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/dlx-go/dlx/backends/internal/relay"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// thread is a thread that runs a function whenever serve is called. Its run is that of a loop:
// it runs at once what the thread itself asks for.
type thread struct {
	work  chan func()
	tasks chan func()
}

func newThread(t *testing.T) *thread {
	th := &thread{make(chan func()), make(chan func())}
	go func() {
		runtime.LockOSThread()
		for f := range th.tasks {
			f()
		}
	}()
	t.Cleanup(func() { close(th.tasks) })
	return th
}

func (th *thread) run(f func()) {
	done := make(chan struct{})
	th.work <- func() { f(); close(done) }
	<-done
}

// on runs f on the thread.
func (th *thread) on(f func()) {
	done := make(chan struct{})
	th.tasks <- func() { f(); close(done) }
	<-done
}

// serve runs n functions that others wait for.
func (th *thread) serve(n int) {
	th.on(func() {
		for range n {
			(<-th.work)()
		}
	})
}

func TestFunctionsRunOnTheThread(t *testing.T) {
	th := newThread(t)
	r := relay.New("test", th.run)
	var group sync.WaitGroup
	var ran atomic.Int64
	for range 4 {
		group.Go(func() {
			for range 50 {
				if err := r.Do(t.Context(), func() { ran.Add(1) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for {
		select {
		case f := <-th.work:
			th.on(f)
		case <-done:
			if n := ran.Load(); n != 200 {
				t.Errorf("%d functions ran, want 200", n)
			}
			return
		}
	}
}

func TestTheThreadItselfIsServedAtOnce(t *testing.T) {
	th := newThread(t)
	r := relay.New("test", func(f func()) { f() }) // what a loop does on its thread
	th.on(func() {
		for range 2 {
			ran := false
			if err := r.First(func() { ran = true }); err != nil || !ran {
				t.Errorf("First: %v; ran: %v", err, ran)
			}
			if err := r.Do(t.Context(), func() { ran = false }); err != nil || ran {
				t.Errorf("Do: %v", err)
			}
		}
	})
}

// The thread waits for work that needs the thread many times over.
func TestTheThreadServesWhatItWaitsFor(t *testing.T) {
	th := newThread(t)
	const steps = 50
	th.on(func() {
		self := syscall.Gettid()
		r := relay.New("test", func(f func()) {
			if syscall.Gettid() == self {
				f()
			} else {
				th.run(f) // which nobody serves
			}
		})
		if err := r.First(func() {}); err != nil {
			t.Error(err)
		}
		before := runtime.NumGoroutine()
		failure := errors.New("the work failed")
		for _, want := range []error{nil, failure} {
			e, ran := stream.NewEvent(), 0
			go func() {
				for range steps {
					if err := r.Do(context.Background(), func() { ran++ }); err != nil {
						t.Error(err)
					}
				}
				e.Complete(want)
			}()
			if err := r.Await(context.Background(), e); !errors.Is(err, want) || ran != steps {
				t.Errorf("Await: %v after %d of %d functions", err, ran, steps)
			}
		}
		ended, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		defer cancel()
		if err := r.Await(ended, stream.NewEvent()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await of what never comes: %v", err)
		}
		if n := runtime.NumGoroutine(); n > before+5 {
			t.Errorf("%d goroutines, %d before", n, before)
		}
	})
	th.serve(1) // the goroutine that came for the first function
}

func TestWhatIsLetGoOfNeverRuns(t *testing.T) {
	th := newThread(t)
	r := relay.New("test", th.run)
	before := runtime.NumGoroutine()
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := r.Do(ctx, func() { t.Error("it ran") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		cancel()
	}
	if n := runtime.NumGoroutine(); n > before+5 {
		t.Errorf("%d goroutines, %d before", n, before)
	}
	th.serve(1)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Do(ended, func() { t.Error("it ran") }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestWhatHasBegunIsWaitedFor(t *testing.T) {
	th := newThread(t)
	r := relay.New("test", th.run)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	finished := false
	go func() {
		done <- r.Do(ctx, func() {
			cancel()
			time.Sleep(5 * time.Millisecond)
			finished = true
		})
	}()
	th.serve(1)
	if err := <-done; err != nil || !finished {
		t.Errorf("error %v, finished: %v", err, finished)
	}
}

func TestARunThatRunsNothingIsToldTo(t *testing.T) {
	r := relay.New("test", func(func()) {})
	for _, err := range []error{r.First(func() {}), r.Do(t.Context(), func() {}), r.Do(t.Context(), func() {})} {
		if !errors.Is(err, core.ErrInvalid) {
			t.Errorf("error %v, want %q", err, core.ErrInvalid)
		}
	}
}

func TestPatienceEndsWhereTheThreadTakesNothing(t *testing.T) {
	th := newThread(t)
	r := relay.New("test", th.run)
	r.Patience = 40 * time.Millisecond
	idle, stop := r.Patient()
	time.Sleep(3 * r.Patience)
	if idle.Err() != nil {
		t.Error("patience ended, although nothing waited")
	}
	stop()

	done := make(chan error, 1)
	go func() { done <- r.Do(t.Context(), func() { time.Sleep(3 * r.Patience) }) }()
	time.Sleep(2 * r.Patience)
	busy, stop := r.Patient() // counts from now on
	th.serve(1)
	if err := <-done; err != nil || busy.Err() != nil {
		t.Errorf("error %v; patience ended although the thread was busy: %v", err, busy.Err())
	}
	stop()

	ctx, stop := r.Patient()
	defer stop()
	if err := r.Do(ctx, func() {}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if err := r.Untaken("Close"); !errors.Is(err, core.ErrInvalid) {
		t.Errorf("error %v, want %q", err, core.ErrInvalid)
	}
	th.serve(1)
}
