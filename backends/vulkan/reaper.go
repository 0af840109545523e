//go:build vulkan && linux && cgo

package vulkan

import (
	"context"
	"time"

	"github.com/dlx-go/dlx/core"
)

// reaper frees what work was unfinished on when it was released: memory, and pieces of
// staging memory. One goroutine does so for a device while there is any: a wait in the
// driver holds a thread, so that one for each would be many. It is guarded by the mutex of its device.
type reaper struct {
	waiting []release
	running bool
	left    int // releases that are not done; those that are being freed count
}

// release is what to free after work.
type release struct {
	free    func()
	pending []core.Event
}

// reapInterval is how late something may be freed whose work is done while that of
// what was released before it is not.
const reapInterval = 2 * time.Millisecond

// later calls free when all of pending is over.
func (d *device) later(pending []core.Event, free func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &d.reaper
	r.waiting = append(r.waiting, release{free, pending})
	r.left++
	if !r.running {
		r.running = true
		go d.reap()
	}
}

// reap frees things as their work gets done, until there are none.
func (d *device) reap() {
	for {
		ready, oldest := d.nextToFree()
		for _, free := range ready {
			free()
		}
		switch {
		case len(ready) > 0:
			d.mu.Lock()
			d.reaper.left -= len(ready)
			d.idle.Broadcast()
			d.mu.Unlock()
		case oldest != nil:
			ctx, cancel := context.WithTimeout(context.Background(), reapInterval)
			for _, e := range oldest {
				_ = e.Wait(ctx) // that the work failed is its stream's to tell
			}
			cancel()
		default:
			return
		}
	}
}

// nextToFree takes what waits for work that is over, failed or not, and the work that
// the oldest of the rest waits for. Where there is neither, nobody is reaping any more.
func (d *device) nextToFree() (ready []func(), oldest []core.Event) {
	r := &d.reaper
	d.mu.Lock()
	all := r.waiting
	r.waiting = nil
	d.mu.Unlock()
	var rest []release
	for _, x := range all { // without the lock: events of others call their drivers
		if allDone(x.pending) {
			ready = append(ready, x.free)
		} else {
			rest = append(rest, x)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r.waiting = append(rest, r.waiting...)
	if len(r.waiting) > 0 {
		oldest = r.waiting[0].pending
	}
	r.running = len(ready) > 0 || len(r.waiting) > 0
	return ready, oldest
}

func allDone(events []core.Event) bool {
	for _, e := range events {
		if done, _ := e.Done(); !done {
			return false
		}
	}
	return true
}
