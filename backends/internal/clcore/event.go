//go:build (opencl || oneapi) && linux && cgo

package clcore

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/dlx-go/dlx/backends/internal/clcore/driver"
	"github.com/dlx-go/dlx/core"
	"github.com/dlx-go/dlx/stream"
)

// event is a cl_event and, once it is known to have ended, its result.
type event struct {
	device    *device
	queue     *queue      // the stream that recorded it and waits for it; nil for an event of another library
	hostTasks []*hostTask // work of the host since the event before, whose errors this event reports
	watched   bool        // it is waited for; guarded by queue.mu, or by mu where queue is nil

	result stream.Event // what the host knows

	mu      sync.Mutex
	raw     driver.Event // owned; 0 once the event is done and no call uses it
	blocked int          // calls of block

	lost runtime.Cleanup // releases raw of an event of another library; no cleanup for others
}

var _ core.Event = (*event)(nil)

// newEvent makes an event, which owns a reference to raw.
func newEvent(d *device, q *queue, raw driver.Event) *event {
	return &event{device: d, queue: q, raw: raw}
}

// Done asks the driver, unless the result is known already.
func (e *event) Done() (bool, error) {
	if done, err := e.result.Done(); done {
		return true, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if done, err := e.result.Done(); done {
		return true, err
	}
	// The status is a signed int: CL_COMPLETE is 0, and below are errors.
	n, s := driver.Number(e.raw, driver.EventStatus)
	status := driver.Status(int32(n))
	switch {
	case s != driver.Success || status > driver.Success:
		return false, nil // that the driver does not answer does not mean that the work is done
	case status == driver.Success:
		// Reading the status is not a synchronisation point, but a wait is, even if it returns
		// at once (OpenCL 3.0 API, clGetEventInfo and clWaitForEvents).
		e.complete(e.device.check(driver.Wait(e.raw), "clWaitForEvents", "an event that is complete"))
	default:
		e.complete(e.device.check(status, "cl_event", "the work before an event failed"))
	}
	return e.result.Done()
}

// complete sets the result of the event. e.mu is held.
func (e *event) complete(err error) {
	e.device.hostWork.See()
	for i := 0; i < len(e.hostTasks) && err == nil; i++ {
		err = e.hostTasks[i].err
	}
	e.result.Complete(err)
	e.drop()
}

// drop releases the reference if it is no longer needed. e.mu is held.
func (e *event) drop() {
	if done, _ := e.result.Done(); done && e.blocked == 0 && e.raw != 0 {
		e.lost.Stop()
		driver.ReleaseEvent(e.raw)
		e.raw = 0
	}
}

// Wait holds no thread: one goroutine waits for the events of a stream.
func (e *event) Wait(ctx context.Context) error {
	if done, err := e.Done(); done {
		return err
	}
	if e.queue != nil {
		e.queue.watch(e)
	} else {
		e.watch()
	}
	return e.result.Wait(ctx)
}

// watch lets a goroutine of its own wait for an event of another library.
func (e *event) watch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.watched {
		e.watched = true
		go func() { _ = e.block() }() // the error stays with the event
	}
}

// patience is how often a driver is asked again that fails to wait for an event whose work has not failed. On
// a lost device every attempt fails.
const patience = 1000

// block waits in the driver until the event is done.
func (e *event) block() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.blocked++
	for try := 0; ; try++ {
		if done, _ := e.result.Done(); done {
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
			e.complete(e.device.check(s, "clWaitForEvents", "the end of work"))
		}
	}
	e.blocked--
	e.drop()
	_, err := e.result.Done()
	return err
}

// waitOn makes later work on a driver's queue wait for e.
func (e *event) waitOn(q driver.Queue) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.raw == 0 {
		_, err := e.result.Done()
		return err
	}
	return e.device.check(driver.Barrier(q, e.raw), "clEnqueueBarrierWithWaitList", "a wait for an event")
}

// newForeignEvent makes an event of another library, which owns a reference to raw. No stream refers to it, so the garbage
// collector releases the reference if the event is lost before it is known to be done.
func newForeignEvent(d *device, raw driver.Event) *event {
	e := newEvent(d, nil, raw)
	e.lost = runtime.AddCleanup(e, func(raw driver.Event) { driver.ReleaseEvent(raw) }, raw)
	return e
}
