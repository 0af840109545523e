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
// freed, and contexts are released, only while no stream waits for a value. If some stream always waits, nothing is
// freed.
//
// Calls that allocate or map memory are not delayed, nor is what they undo if they fail: their callers need the result.
// Waits for events of other processes do not count.
type semaphoreWaits struct {
	mu     sync.RWMutex // locked while a wait is enqueued, and for reading while memory is freed
	events []core.Event // one after each wait

	reaper   reaper.Reaper // not that of a device, whose Close waits
	later    sync.Mutex
	deferred []deferred // in the order of their calls
}

// deferred is what [semaphoreWaits.afterWaits] is still to call.
type deferred struct {
	free  func()
	after func(deferred bool)
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

// now calls f, which may wait for all work of the device, unless a stream waits for the value of a semaphore or may begin
// to. f must not call code of users.
func (w *semaphoreWaits) now(f func()) {
	if w.mu.TryRLock() {
		defer w.mu.RUnlock()
		w.unlessWaiting(f)
	}
}

// afterWaits calls free, which may wait for all work of the device, and then after. If no stream waits for the value of
// a semaphore, it does so now, and returns true. Otherwise it returns false, and the calls are made when no stream waits,
// in the order of the calls of afterWaits. free must not call code of users; after may.
func (w *semaphoreWaits) afterWaits(free func(), after func(deferred bool)) bool {
	w.later.Lock()
	// The caller may hold what a goroutine needs that holds w.mu: do not wait for it.
	if len(w.deferred) == 0 && w.mu.TryRLock() {
		w.later.Unlock()
		_, called := w.unlessWaiting(free)
		w.mu.RUnlock()
		if called {
			after(false)
			return true
		}
		w.later.Lock()
	}
	defer w.later.Unlock()
	if w.deferred = append(w.deferred, deferred{free, after}); len(w.deferred) == 1 {
		w.reaper.After(nil, w.flush)
	}
	return false
}

// flush calls what is deferred, or waits. The goroutine of the reaper calls it, which holds no mutex.
func (w *semaphoreWaits) flush() {
	w.mu.RLock()
	var done []deferred
	pending, called := w.unlessWaiting(func() {
		w.later.Lock()
		done = w.deferred
		w.later.Unlock()
		for _, x := range done {
			x.free()
		}
	})
	w.mu.RUnlock()
	if !called {
		w.reaper.After(pending, w.flush)
		return
	}
	for _, x := range done {
		x.after(true)
	}
	w.later.Lock()
	defer w.later.Unlock()
	if w.deferred = w.deferred[len(done):]; len(w.deferred) > 0 {
		w.reaper.After(nil, w.flush)
	}
}
