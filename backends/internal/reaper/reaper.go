// Package reaper frees what is still in use when it is released, as soon as the work
// on it is over.
package reaper

import (
	"context"
	"sync"
	"time"

	"github.com/dlx-go/dlx/core"
)

// Reaper calls functions when work is over. One goroutine does so while any wait:
// waiting in a driver holds a thread, so that one for each would be many. The zero
// value is ready for use, by any number of goroutines.
type Reaper struct {
	mu      sync.Mutex
	less    sync.Cond // left has become less
	waiting []*release
	running bool
	left    int // releases that are not done; those that are being freed count
}

// release is what to free after work.
type release struct {
	free    func()
	pending []core.Event
}

// interval is how late something may be freed whose work is over while that of what
// was released before it is not.
const interval = 2 * time.Millisecond

// After calls free, on a goroutine of its own and with no mutex held, when all of
// pending is over, failed or not: that work failed is its stream's to tell. It does
// not block, and leaves the slice as it is, which nobody may change any more.
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

// WaitWhile blocks as long as something is left to be freed and waiting(left) is true,
// or until ctx ends. It is called with held, which waiting may count
// on, and lets go of it while it waits; what is being freed counts until its free has
// returned. See [Gate.Await].
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
		r.mu.Unlock() // held comes first, as for whoever calls
		held.Lock()
		r.mu.Lock()
	}
}

// run frees things as their work gets done, until there are none.
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

// next takes what waits for work that is over, and tells the oldest of the rest.
// Where there is neither, nobody runs any more.
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

// wait waits for the work, for no longer than the interval.
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

// Over reports whether all of the work is over, failed or not.
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
