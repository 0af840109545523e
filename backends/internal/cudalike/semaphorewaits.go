package cudalike

import (
	"slices"
	"sync"

	"github.com/dlx-go/dlx/backends/internal/reaper"
	"github.com/dlx-go/dlx/core"
)

// semaphoreWaits are the waits of streams for values of semaphores, on all devices of a backend. Nobody may have
// signalled these values yet.
//
// A driver that frees or unmaps memory may wait for all work of the device ("may perform implicit
// synchronization", cuMemFree), and may meanwhile hold a lock that every other call needs. If it waited for a
// stream that waits for a value, the thread that is to signal the value might wait for the driver. So memory is
// freed only while no stream waits for a value.
//
// Calls that allocate or map memory are not delayed: their callers need the result, and drivers are not
// documented to wait for work in them.
type semaphoreWaits struct {
	mu     sync.RWMutex // locked while a wait is enqueued, and for reading while memory is freed
	events []core.Event // one after each wait
}

// enqueue calls f, which enqueues a wait and returns an event after it, or nil if the wait is over.
func (w *semaphoreWaits) enqueue(f func() (core.Event, error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	e, err := f()
	if err == nil && e != nil {
		w.events = append(slices.DeleteFunc(w.events, isOver), e)
	}
	return err
}

func isOver(e core.Event) bool { return reaper.Over([]core.Event{e}) }

// unlessWaiting calls f if no stream waits for a value; until f returns, none begins to. It reports whether it
// did, and if not returns the events of the waits. w.mu is locked for reading.
func (w *semaphoreWaits) unlessWaiting(f func()) (pending []core.Event, called bool) {
	for _, e := range w.events {
		if !isOver(e) {
			pending = append(pending, e)
		}
	}
	if len(pending) > 0 {
		return pending, false
	}
	f()
	return nil, true
}

// afterWaits calls free, which may wait for all work of the device, and then after, when pending is done and no
// stream waits for the value of a semaphore. If that is now, it returns when both have returned. Otherwise it
// returns at once, and Close of the device waits for them. free must not call code of users; after may.
func (d *device) afterWaits(pending []core.Event, free, after func()) {
	w := &d.backend.waits
	called := false
	if reaper.Over(pending) && w.mu.TryRLock() { // the caller may hold what a goroutine needs that holds w.mu
		pending, called = w.unlessWaiting(free)
		w.mu.RUnlock()
	}
	if called {
		after()
		return
	}
	d.Reaper.After(pending, func() { d.whenDone(free, after) })
}

// whenDone is afterWaits for the goroutine of the reaper, which holds no mutex.
func (d *device) whenDone(free, after func()) {
	w := &d.backend.waits
	w.mu.RLock()
	pending, called := w.unlessWaiting(free)
	w.mu.RUnlock()
	if called {
		after()
		return
	}
	d.Reaper.After(pending, func() { d.whenDone(free, after) }) // a stream has begun to wait since
}
