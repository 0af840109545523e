//go:build opencl && linux && cgo

package opencl

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/opencl/internal/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// event is a cl_event and, once that is known to have ended, its result.
type event struct {
	device  *device
	queue   *queue  // that recorded it and watches it; nil if no stream of ours did
	turns   []*turn // work of the host since the event before, whose errors it carries
	watched bool    // somebody waits for it; guarded by queue.mu, or by mu where queue is nil

	reached stream.Event // what the host knows

	mu      sync.Mutex
	raw     driver.Event // owned; 0 once the event was passed and nobody is in a call with it
	blocked int          // calls of block
}

var _ core.Event = (*event)(nil)

// newEvent takes over a reference of raw.
func newEvent(d *device, q *queue, raw driver.Event) *event {
	return &event{device: d, queue: q, raw: raw}
}

// Done asks the driver, unless it has answered before.
func (e *event) Done() (bool, error) {
	if done, err := e.reached.Done(); done {
		return true, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if done, err := e.reached.Done(); done {
		return true, err
	}
	// The status is a signed int: CL_COMPLETE is 0, and below are errors.
	n, s := driver.Number(e.raw, driver.EventStatus)
	status := driver.Status(int32(n))
	switch {
	case s != driver.Success || status > driver.Success:
		return false, nil // that the driver does not answer does not mean that the work is done
	case status == driver.Success:
		// To see the status is no synchronisation point, a wait that returns at
		// once is (OpenCL 3.0 API, clGetEventInfo and clWaitForEvents).
		e.settle(check(driver.Wait(e.raw), "clWaitForEvents", "an event that is complete"))
	default:
		e.settle(check(status, "cl_event", "the work before an event failed"))
	}
	return e.reached.Done()
}

// settle is the end of the event. e.mu is held.
func (e *event) settle(err error) {
	e.device.hostWork.See()
	for i := 0; i < len(e.turns) && err == nil; i++ {
		err = e.turns[i].err
	}
	e.reached.Complete(err)
	e.drop()
}

// drop gives the reference back if nobody needs it. e.mu is held.
func (e *event) drop() {
	if done, _ := e.reached.Done(); done && e.blocked == 0 && e.raw != 0 {
		driver.ReleaseEvent(e.raw)
		e.raw = 0
	}
}

// Wait blocks no thread: a stream's events are waited for by one goroutine.
func (e *event) Wait(ctx context.Context) error {
	if done, err := e.Done(); done {
		return err
	}
	if e.queue != nil {
		e.queue.watch(e)
	} else {
		e.watch()
	}
	return e.reached.Wait(ctx)
}

// watch has a goroutine of its own wait for an event that no stream of ours recorded.
func (e *event) watch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.watched {
		e.watched = true
		go func() { _ = e.block() }() // the error stays with the event
	}
}

// patience is how often a driver is asked again that fails to wait for an event
// whose work has not failed. A device that was lost never does better.
const patience = 1000

// block waits in the driver until the event is passed.
func (e *event) block() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.blocked++
	for try := 0; ; try++ {
		if done, _ := e.reached.Done(); done {
			break
		}
		raw := e.raw
		e.mu.Unlock()
		s := driver.Wait(raw)
		if s != driver.Success {
			if done, _ := e.Done(); !done {
				time.Sleep(time.Millisecond)
			}
		}
		e.mu.Lock()
		if s == driver.Success || try == patience {
			e.settle(check(s, "clWaitForEvents", "the end of work"))
		}
	}
	e.blocked--
	e.drop()
	_, err := e.reached.Done()
	return err
}

// holdBack makes later work on a queue of the driver wait for e.
func (e *event) holdBack(q driver.Queue) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		_, err := e.reached.Done()
		return err
	}
	return check(driver.Barrier(q, e.raw), "clEnqueueBarrierWithWaitList", "a wait for an event")
}

// foreignEvent is an event that another library made. No stream knows it, so that
// the garbage collector finds out when it is not needed any more.
type foreignEvent struct{ *event }

var _ core.Event = (*foreignEvent)(nil)

// newForeignEvent takes over a reference of raw.
func newForeignEvent(d *device, raw driver.Event) *foreignEvent {
	f := &foreignEvent{newEvent(d, nil, raw)}
	runtime.AddCleanup(f, (*event).forget, f.event)
	return f
}

// forget gives back an event that nobody can ask for any more.
func (e *event) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settle(nil)
}
