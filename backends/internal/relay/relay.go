// Package relay calls functions on a thread of the program: the one where the program's OpenGL context is
// current. See [Relay].
package relay

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Relay calls functions on the thread that the program's run function reaches. It drops a function whose
// context ends before the thread takes it. It is safe for concurrent use.
type Relay struct {
	// Patience is how long the thread may take no function before calls without a context fail; see
	// [Relay.Patient].
	Patience time.Duration

	backend string
	run     func(f func())

	arrived chan struct{} // has an element after a function was added: see [Relay.Await]

	mu      sync.Mutex
	thread  int       // the thread of the last calls, 0 before the first
	waiting []*call   // functions that the thread has not taken
	carried bool      // a goroutine is in run, for the waiting functions
	busy    bool      // the thread is calling functions
	served  time.Time // when it last did so
}

// call is a function that waits for the thread.
type call struct {
	f     func()
	since time.Time
	done  chan struct{} // closed when f has returned, or will never be called
	err   error         // why f will never be called; set before done is closed
}

// New makes a relay to the thread that run reaches. run calls a function on that thread and returns when the
// function has returned. It may be called from any goroutine. backend is named in errors.
func New(backend string, run func(f func())) *Relay {
	return &Relay{Patience: 5 * time.Second, backend: backend, run: run, arrived: make(chan struct{}, 1)}
}

// First calls f through run in the calling goroutine, and records the thread that run reaches. It blocks as
// long as run does. It fails with core.ErrInvalid if run returns without having called f.
func (r *Relay) First(f func()) error {
	called := false
	r.run(func() {
		r.mu.Lock()
		r.thread = thread()
		r.mu.Unlock()
		f()
		called = true
	})
	if !called {
		return r.refused()
	}
	return nil
}

func (r *Relay) refused() error {
	return core.Errorf(core.ErrInvalid, r.backend, "run", "run returned without having called the function that it was given")
}

// Do calls f on the thread and returns nil when f has returned. If ctx ends before the thread takes f, it
// returns ctx's error, and f is never called. Once f has started, Do waits for it. The thread itself may call
// Do, if run calls a function at once on its own thread.
func (r *Relay) Do(ctx context.Context, f func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if r.here() {
		defer runtime.UnlockOSThread()
		return r.First(f)
	}
	c := &call{f: f, since: time.Now(), done: make(chan struct{})}
	r.mu.Lock()
	r.waiting = append(r.waiting, c)
	if !r.carried {
		r.carried = true
		go r.carry()
	}
	r.mu.Unlock()
	select {
	case r.arrived <- struct{}{}:
	default: // one element is enough: whoever takes it calls all waiting functions
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	i := slices.Index(r.waiting, c)
	if i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
	}
	r.mu.Unlock()
	if i >= 0 {
		return ctx.Err()
	}
	<-c.done
	return c.err
}

// here reports whether the calling thread is the one that run reaches. If so, it locks the goroutine to it.
func (r *Relay) here() bool {
	runtime.LockOSThread()
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := thread(); t != 0 && r.thread == t {
		return true
	}
	runtime.UnlockOSThread()
	return false
}

// carry calls the waiting functions on the thread, until none wait. At most one carry runs at a time, so that
// a call whose context has ended leaves no goroutine.
func (r *Relay) carry() {
	for more := true; more; {
		served := false
		r.run(func() {
			served = true
			more = r.serve()
		})
		if !served {
			more = r.refuse()
		}
	}
}

// serve calls, on the thread, the functions that wait now. It reports whether more were added meanwhile; it
// does not call these, so that a busy caller cannot keep the thread for ever.
func (r *Relay) serve() (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callWaiting()
	r.carried = len(r.waiting) > 0
	return r.carried
}

// callWaiting calls the waiting functions. r.mu is held before and after.
func (r *Relay) callWaiting() {
	r.thread, r.busy = thread(), true
	batch := len(r.waiting)
	for ; batch > 0 && len(r.waiting) > 0; batch-- {
		c := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		func() {
			defer r.mu.Lock() // where f panics, too
			c.f()
			close(c.done)
		}()
	}
	r.busy, r.served = false, time.Now()
}

// Await waits for e or until ctx ends, and returns the error of e's work or of ctx. The thread itself may
// call Await although e may need the thread: it calls waiting functions meanwhile.
func (r *Relay) Await(ctx context.Context, e core.Event) error {
	if done, err := e.Done(); done {
		return err
	}
	if !r.here() {
		return e.Wait(ctx)
	}
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- e.Wait(ctx) }()
	for {
		// By run, which may have to make the context current first.
		r.run(func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.callWaiting()
		})
		select {
		case err := <-over:
			return err
		case <-r.arrived:
		}
	}
}

// refuse fails the waiting calls, since run did not call them.
func (r *Relay) refuse() (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.waiting {
		c.err = r.refused()
		close(c.done)
	}
	r.waiting, r.carried = nil, false
	return false
}

// Patient returns a context that ends when the thread has taken nothing for r.Patience from now on, although
// functions wait. It is for calls that have no context of their own and must not hang if the thread is not
// served. Call stop to release it.
func (r *Relay) Patient() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	begin := time.Now()
	go func() {
		ticker := time.NewTicker(r.Patience / 8)
		defer ticker.Stop()
		for !r.stalled(begin) {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// stalled reports whether the thread has taken nothing for too long, counted from since at the earliest.
func (r *Relay) stalled(since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy || len(r.waiting) == 0 {
		return false
	}
	for _, t := range []time.Time{r.waiting[0].since, r.served} {
		if t.After(since) {
			since = t
		}
	}
	return time.Since(since) >= r.Patience
}

// Untaken returns the error of a call whose context of [Relay.Patient] has ended. The call may be repeated.
func (r *Relay) Untaken(call string) error {
	return core.Errorf(core.ErrInvalid, r.backend, call, "the thread of the OpenGL context takes no calls: let it poll its loop while this call waits, then call again")
}
