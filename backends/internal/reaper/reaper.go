// Package reaper frees objects that are released while work still uses them, as soon as that work is done.
package reaper

import (
	"context"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Reaper calls functions when work is done. It has one goroutine, and only while functions wait: a wait in a
// driver holds a thread, so a goroutine for each release could hold many. The zero value is ready for use. A
// Reaper is safe for concurrent use.
type Reaper struct {
	mu      sync.Mutex
	less    sync.Cond // signalled when left decreases
	waiting []*release
	running bool
	left    int // releases that are not done, including those whose free is running
}

// release is a function to call after work.
type release struct {
	free    func()
	pending []core.Event
}

// interval is the longest delay after the end of its work with which something is freed while earlier
// releases still wait for theirs.
const interval = 2 * time.Millisecond

// After calls free when all of pending is done, failed or not; the streams of the work report its errors.
// free runs in another goroutine, with no mutex held. After does not block. It keeps the slice pending, which
// must not be changed any more.
func (r *Reaper) After(pending []core.Event, free func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, &release{free, pending})
	r.left++
	if !r.running {
		r.running = true
		go r.run()
	}
}

// WaitWhile blocks while something is left to be freed and waiting(left) is true, or until ctx ends. left
// includes releases whose free is running. WaitWhile is called with held locked, unlocks it while it waits,
// and locks it again for each call of waiting. See [Gate.Await].
func (r *Reaper) WaitWhile(ctx context.Context, held sync.Locker, waiting func(left int) bool) {
	defer context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.less.Broadcast()
	})()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.less.L == nil {
		r.less.L = &r.mu
	}
	for r.left > 0 && ctx.Err() == nil && waiting(r.left) {
		held.Unlock()
		r.less.Wait()
		r.mu.Unlock() // held is locked before mu, as in the caller
		held.Lock()
		r.mu.Lock()
	}
}

// run calls the functions whose work is done, until none are left.
func (r *Reaper) run() {
	for {
		ready, oldest := r.next()
		for _, x := range ready {
			x.free()
		}
		switch {
		case len(ready) > 0:
			r.mu.Lock()
			r.left -= len(ready)
			r.less.Broadcast()
			r.mu.Unlock()
		case oldest != nil:
			oldest.wait()
		default:
			return
		}
	}
}

// next removes and returns the releases whose work is done, and returns the oldest of the others. If there
// are neither, no goroutine runs any more.
func (r *Reaper) next() (ready []*release, oldest *release) {
	r.mu.Lock()
	all := r.waiting
	r.waiting = nil
	r.mu.Unlock()
	var rest []*release
	for _, x := range all { // without the mutex: events call their drivers
		if Over(x.pending) {
			ready = append(ready, x)
		} else {
			rest = append(rest, x)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(rest, r.waiting...)
	if len(r.waiting) > 0 {
		oldest = r.waiting[0]
	}
	r.running = len(ready) > 0 || oldest != nil
	return ready, oldest
}

// wait waits for the work, for at most the interval.
func (x *release) wait() {
	ctx, cancel := context.WithTimeout(context.Background(), interval)
	defer cancel()
	for ; len(x.pending) > 0; x.pending = x.pending[1:] {
		if e := x.pending[0]; e != nil {
			_ = e.Wait(ctx) // its error, if ctx has none, says that it is over
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// Over reports whether all of the work is done, failed or not.
func Over(events []core.Event) bool {
	for _, e := range events {
		if e == nil {
			continue
		}
		if done, _ := e.Done(); !done {
			return false
		}
	}
	return true
}
