// Package relay brings functions to a thread of somebody else's: that on which a context of
// OpenGL is current which a program draws with. See [Relay].
package relay

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Relay calls functions on the thread that a function of the program's reaches, its run,
// and lets go of those whose context ends before that thread takes them. It is safe
// for concurrent use.
type Relay struct {
	// Patience is how long the thread may take nothing before calls without a context
	// give up; see [Relay.Patient].
	Patience time.Duration

	backend string
	run     func(f func())

	arrived chan struct{} // holds one where something came to wait: see [Relay.Await]

	mu      sync.Mutex
	thread  int       // where functions were called last, 0 before the first
	waiting []*call   // not taken yet
	carried bool      // a goroutine is in run for what waits
	busy    bool      // the thread calls what waited
	served  time.Time // when it did so last
}

// call is a function on its way to the thread.
type call struct {
	f     func()
	since time.Time
	done  chan struct{} // closed when f has returned, or is never called
	err   error         // why it is not; set before done is closed
}

// New makes a relay to the thread that run reaches: run calls a function there and returns
// when it has returned, and may be called from any goroutine. Errors name backend.
func New(backend string, run func(f func())) *Relay {
	return &Relay{Patience: 5 * time.Second, backend: backend, run: run, arrived: make(chan struct{}, 1)}
}

// First calls f by run itself, in the calling goroutine, and so learns which thread that
// reaches. It blocks for as long as run does. It fails with core.ErrInvalid if run
// returns without having called f.
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

// Do calls f on the thread and returns nil when f has returned. If ctx ends before the
// thread takes f, it returns ctx's error, and f is never called; once f runs, Do waits for
// it. The thread itself may call Do if run calls a function there at once.
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
	default: // one is enough: whoever takes it serves all
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

// here reports whether the calling thread is the one that run reaches, and then locks the
// goroutine to it.
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

// carry runs what waits on the thread, until nothing waits. At most one carry runs at a
// time, so that a call whose context has ended leaves no goroutine behind.
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

// serve calls, on the thread, what waits by now, and reports whether more came meanwhile:
// who calls again at once does not keep the thread from what else it has to do.
func (r *Relay) serve() (more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.callWaiting()
	r.carried = len(r.waiting) > 0
	return r.carried
}

// callWaiting does that. r.mu is held, before and after.
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

// Await waits for e, or until ctx ends, and returns the error of e's work or ctx's. The
// thread itself may call it, though e may need the thread: it calls what waits for it meanwhile.
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

// refuse tells those who wait that run did not call them.
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

// Patient returns a context that ends when the thread has taken nothing for r.Patience
// from now on, although something waits for it. It is for calls that have no context and shall not
// hang where nobody serves the thread. stop releases it.
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

// stalled reports whether the thread has taken nothing for too long, which counts from since on.
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

// Untaken is the error of a call whose [Relay.Patient] has ended. The call may be repeated.
func (r *Relay) Untaken(call string) error {
	return core.Errorf(core.ErrInvalid, r.backend, call, "the thread of OpenGL's context takes no calls: let it poll its loop while this call waits, then call again")
}
